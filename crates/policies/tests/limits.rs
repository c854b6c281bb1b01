//! Limits under every policy: usage is counted here from the attempts themselves, before and after each plan, against
//! the configured limits.

#[path = "../../core/tests/support/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::VecDeque;
use support::{Step, Teller, step, workers};
use warpyard_core::event::{EventKind, WorkerInfo};
use warpyard_core::limits::Caps;
use warpyard_core::{Cluster, Command, Event, PolicyChoice, PolicyDef, Span, Time};
use warpyard_policies::POLICIES;

/// What someone has.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    running: u32,
    gpus: u32,
    promised_s: f64,
}

/// GPU time of ended attempts, since limits were last set: whose, when, how many GPU-seconds.
type Used = VecDeque<(String, Time, f64)>;

fn has(cluster: &Cluster, user: &str) -> Has {
    let mut has = Has::default();
    for job in cluster.jobs().iter().filter(|job| job.user == user) {
        for (node, spec) in job.nodes.iter().zip(&job.spec.tasks) {
            let n = node.live.values().filter(|live| live.attempt().is_some()).count() as u32;
            has.running += n;
            has.gpus += n * u32::from(spec.needs.gpus);
            let promised = spec.timeout.unwrap_or_default().secs() * f64::from(spec.needs.gpus);
            has.promised_s += f64::from(n) * promised;
        }
    }
    has
}

/// Everyone a limit holds for, with the limit.
fn parties(cluster: &Cluster) -> Vec<(Vec<String>, Caps)> {
    let limits = cluster.limits();
    let users: Vec<_> = (0..3).map(|n| format!("u{n}")).collect();
    let is_in = |user: &String| !cluster.groups_of(user).is_empty();
    let each = users.iter().map(|user| (vec![user.clone()], limits.caps_of(user, cluster.groups_of(user))));
    let together = limits.groups.get("g").map(|group| group.together).unwrap_or_default();
    let members = users.iter().filter(|user| is_in(user)).cloned().collect();
    each.chain([(members, together)]).collect()
}

fn total(cluster: &Cluster, members: &[String]) -> Has {
    members.iter().map(|user| has(cluster, user)).fold(Has::default(), |a, b| Has {
        running: a.running + b.running,
        gpus: a.gpus + b.gpus,
        promised_s: a.promised_s + b.promised_s,
    })
}

fn used(used: &Used, members: &[String], window: Span, now: Time) -> f64 {
    let counts = |(user, at, _): &&(String, Time, f64)| members.contains(user) && *at + window > now;
    used.iter().filter(counts).map(|(_, _, seconds)| seconds).sum()
}

/// Nobody has more than they may unless they had it before, when limits were others or none.
fn assert_within(before: &Cluster, after: &Cluster, ended: &Used, now: Time) -> Result<(), TestCaseError> {
    for (members, caps) in parties(after) {
        let (had, has) = (total(before, &members), total(after, &members));
        if let Some(most) = caps.running {
            prop_assert!(
                has.running <= most.max(had.running),
                "{:?} runs {} of {}",
                members,
                has.running,
                most
            );
        }
        if let Some(most) = caps.gpus {
            prop_assert!(has.gpus <= most.max(had.gpus), "{:?} has {} GPUs of {}", members, has.gpus, most);
        }
        if let Some(cap) = caps.gpu_time.filter(|_| has.gpus > had.gpus) {
            let all = has.promised_s + used(ended, &members, cap.window, now);
            prop_assert!(all <= cap.most.secs() + 1e-6, "{:?} has {} of {:?}", members, all, cap);
        }
    }
    Ok(())
}

fn note(cluster: &Cluster, event: &Event, ended: &mut Used) {
    match &event.what {
        EventKind::LimitsSet { .. } => ended.clear(),
        EventKind::Ended { attempt, end, .. } => {
            let job = cluster.job(attempt.task.job).unwrap();
            let gpus = job.spec.tasks[attempt.task.node as usize].needs.gpus;
            ended.push_back((job.user.clone(), event.at, f64::from(gpus) * end.usage.ran.secs()));
        }
        _ => {}
    }
}

fn tell(choice: &PolicyChoice, workers: &[WorkerInfo], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::new(choice.clone());
    let mut policy = PolicyDef::build_from(POLICIES, choice).unwrap();
    let (mut teller, mut ended) = (Teller::default(), Used::default());
    let joins = workers.iter().cloned().map(Command::Join).collect::<VecDeque<_>>();
    let mut steps = steps.iter();
    let mut commands = joins;
    loop {
        let Some(command) = commands.pop_front() else {
            let Some(step) = steps.next() else { return Ok(()) };
            commands.extend(teller.command(&cluster, step));
            continue;
        };
        let accepted = match &command {
            Command::Submit { spec, .. } => policy.accept(cluster.view(), spec).is_ok(),
            _ => true,
        };
        let decided = if accepted {
            cluster.decide(command, teller.now).unwrap_or_default()
        } else {
            Default::default()
        };
        for event in decided {
            note(&cluster, &event, &mut ended);
            let effects = cluster.apply(&event);
            policy.observe(cluster.view(), &effects);
        }
        let before = cluster.clone();
        let plan = policy.plan(cluster.view(), teller.now);
        let (events, stale) = cluster.admit(&plan, teller.now);
        prop_assert!(stale.is_empty(), "{}: {:?}", choice, stale);
        for event in events {
            let effects = cluster.apply(&event);
            policy.observe(cluster.view(), &effects);
        }
        assert_within(&before, &cluster, &ended, teller.now)?;
    }
}

/// A story with limits from the start.
fn story() -> impl Strategy<Value = Vec<Step>> {
    let limits = step().prop_filter("limits", |step| matches!(step, Step::Limits(Some(_))));
    let groups = prop::collection::vec((any::<u8>(), any::<bool>()), 3)
        .prop_map(|all| all.into_iter().map(|(user, is_in)| Step::Groups(user, is_in)).collect::<Vec<_>>());
    (limits, groups, prop::collection::vec(step(), 1..50))
        .prop_map(|(limits, groups, rest)| std::iter::once(limits).chain(groups).chain(rest).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_user_exceeds_its_limits(workers in workers(), steps in story()) {
        let choices = POLICIES.iter().map(|def| def.name).chain(["wsjf:granularity=batch", "backfill:reserve=conservative"]);
        for choice in choices {
            tell(&choice.parse().unwrap(), &workers, &steps)?;
        }
    }
}
