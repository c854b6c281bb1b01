//! Random stories through the engine's own turn: whatever is asked in whatever order, the state stays sound, and what
//! was kept is enough to make it again.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;
use support::{Step, Teller, assert_sound, step, workers};
use warpyard_core::cluster::{ReadyTask, View};
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, Usage, WorkerInfo};
use warpyard_core::ordered::{BackfillRule, Order, Ordered};
use warpyard_core::policy::PolicyGroup;
use warpyard_core::queue::Key;
use warpyard_core::{
    AttemptId, Cluster, Command, Epoch, Event, PolicyChoice, PolicyDef, Store, TaskId, Time, WorkerId,
};

struct Urgency;

impl Order for Urgency {
    fn key(&self, task: &ReadyTask<'_>) -> Key {
        Key::urgent(task.job.priority)
    }

    fn formula(&self) -> &'static str {
        ""
    }

    fn formula_values(&self, _: &ReadyTask<'_>, _: View<'_>, _: Time) -> String {
        String::new()
    }
}

const POLICIES: &[PolicyDef] = &[PolicyDef {
    name: "urgency",
    summary: "",
    group: PolicyGroup::Arrival,
    when: "",
    source: "",
    params: &[],
    build: |_| Box::new(Ordered::new(Urgency, BackfillRule::Reserve)),
}];

fn nothing() -> Cluster {
    Cluster::new(PolicyChoice { name: "urgency".into(), ..PolicyChoice::default() })
}

/// A store in memory.
#[derive(Default)]
struct Log(Vec<Event>);

impl Store for Log {
    type Error = Infallible;

    fn append(&mut self, _: Epoch, _: u64, events: &[Event]) -> Result<(), Infallible> {
        self.0.extend_from_slice(events);
        Ok(())
    }
}

/// Takes an engine through a story, looking at it after each turn.
fn tell(
    workers: Vec<WorkerInfo>,
    steps: &[Step],
    mut look: impl FnMut(&Engine, &[Event]),
) -> (Engine, Vec<Event>) {
    let mut engine = Engine::new(nothing(), POLICIES, Time(0)).unwrap();
    let (mut log, mut teller) = (Log::default(), Teller::default());
    let joins = workers.into_iter().map(Command::Join).collect();
    engine.turn(joins, teller.now, &mut log).unwrap();
    for step in steps {
        let batch = teller.command(engine.cluster(), step).into_iter().collect();
        engine.turn(batch, teller.now, &mut log).unwrap();
        look(&engine, &log.0);
    }
    (engine, log.0)
}

fn replay(events: &[Event], from: Cluster) -> Cluster {
    events.iter().fold(from, |mut cluster, event| {
        cluster.apply(event);
        cluster
    })
}

/// Two states are the same; if not, shows the first place where they differ rather than both whole.
fn assert_same(a: &Cluster, b: &Cluster) {
    if a == b {
        return;
    }
    let (a, b) = (format!("{a:?}"), format!("{b:?}"));
    let at = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let near = |s: &str| s.chars().skip(at.saturating_sub(150)).take(300).collect::<String>();
    panic!("they differ:\n{}\n{}", near(&a), near(&b));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_stays_sound(workers in workers(), steps in prop::collection::vec(step(), 1..60)) {
        tell(workers, &steps, |engine, _| assert_sound(engine.cluster()));
    }

    #[test]
    fn replaying_the_events_gives_the_state(workers in workers(), steps in prop::collection::vec(step(), 1..60)) {
        let (engine, log) = tell(workers, &steps, |_, _| {});
        assert_same(engine.cluster(), &replay(&log, nothing()));
    }

    #[test]
    fn a_snapshot_and_the_rest_give_the_state(
        workers in workers(),
        steps in prop::collection::vec(step(), 1..60),
        cut in 0..60usize,
    ) {
        let (mut turns, mut snapshot) = (0, None);
        let (engine, log) = tell(workers, &steps, |engine, log| {
            if turns == cut % steps.len() {
                let text = serde_json::to_string(engine.cluster()).unwrap();
                let read: Cluster = serde_json::from_str(&text).unwrap();
                let restored = read.restored();
                assert_same(engine.cluster(), &restored);
                snapshot = Some((log.len(), restored));
            }
            turns += 1;
        });
        let (seen, snapshot) = snapshot.unwrap();
        prop_assert_eq!(snapshot.seq(), seen as u64);
        assert_same(engine.cluster(), &replay(&log[seen..], snapshot));
    }

    #[test]
    fn events_read_back_as_they_were_written(workers in workers(), steps in prop::collection::vec(step(), 1..40)) {
        let (_, log) = tell(workers, &steps, |_, _| {});
        for event in log {
            let text = serde_json::to_string(&event).unwrap();
            let read: Event = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &event);
        }
    }

    #[test]
    fn a_report_about_an_old_attempt_changes_nothing(
        workers in workers(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        tell(workers, &steps, |engine, _| {
            for (worker, attempt) in old_attempts(engine.cluster()) {
                for standing in [AttemptStatus::Running, AttemptStatus::Frozen, over(EndReason::Exited(0)), over(EndReason::TimedOut)] {
                    let attempts = [(attempt, standing)].into();
                    let report = Command::Report { worker, attempts, devices: BTreeMap::new() };
                    let events = engine.cluster().decide(report, Time(u64::MAX / 2)).unwrap();
                    assert_eq!(events[..], [], "{attempt} is not in force on {worker}");
                }
            }
        });
    }

    #[test]
    fn a_report_that_comes_twice_changes_nothing_the_second_time(
        workers in workers(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut engine = Engine::new(nothing(), POLICIES, Time(0)).unwrap();
        let (mut log, mut teller) = (Log::default(), Teller::default());
        engine.turn(workers.into_iter().map(Command::Join).collect(), Time(0), &mut log).unwrap();
        for step in &steps {
            let Some(command) = teller.command(engine.cluster(), step) else { continue };
            engine.turn(vec![command.clone()], teller.now, &mut log).unwrap();
            if matches!(step, Step::Report { .. } | Step::Memory(..)) {
                prop_assert_eq!(engine.cluster().decide(command, teller.now).unwrap().len(), 0);
            }
        }
    }
}

fn over(how: EndReason) -> AttemptStatus {
    AttemptStatus::Over(End { how, usage: Usage::default() })
}

/// Attempts that were, or never were, together with workers that might speak of them: none is in force there.
fn old_attempts(cluster: &Cluster) -> Vec<(WorkerId, AttemptId)> {
    let mut old = Vec::new();
    for job in cluster.jobs().iter() {
        for (n, node) in job.nodes.iter().enumerate() {
            for index in 0..job.spec.tasks[n].len() {
                let task = TaskId { job: job.id, node: n as u32, index };
                let current = cluster
                    .view()
                    .attempt(task)
                    .map(|(a, _)| (a.placement.worker, task.attempt(node.live[&index].attempts)));
                for number in 1..=node.top + 1 {
                    let everywhere = cluster.workers().map(|(w, _)| (w, task.attempt(number)));
                    old.extend(everywhere.filter(|&it| Some(it) != current));
                }
            }
        }
    }
    old
}
