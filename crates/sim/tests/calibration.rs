//! How often the range given for a start holds: a lab's queue is simulated, every job that must wait is forecast from what
//! is known at that moment, and the forecast is compared with what came. Half of the jobs state no time limit.

use std::collections::BTreeMap;
use warpyard_core::spec::{JobSpec, Needs, TaskSpec};
use warpyard_core::{Span, TaskId, Time};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_sim::random::Random;
use warpyard_sim::{
    ForecastBudget, ForecastRange, RunModel, RunTimeEvidence, Setup, Sim, StartForecast, UnknownStart,
    forecast, sample_run_time, workload,
};

/// What the server uses.
const LIMITS: ForecastBudget = ForecastBudget { samples: 20, events: 5_000, solves: 3 };

/// A kind of job someone runs again and again.
struct Kind {
    gpus: u16,
    median: f64,
    spread: f64,
    timeout: Option<f64>,
}

#[derive(Default)]
struct Tally {
    given: usize,
    held: usize,
    unknown: usize,
}

fn kinds(random: &mut Random) -> Vec<Kind> {
    let kind = |n: u64, random: &mut Random| {
        let median = 120.0 * 20f64.powf(random.unit());
        let spread = 0.2 + 0.6 * random.unit();
        let timeout = n.is_multiple_of(2).then(|| median * (2.0 + 2.0 * random.unit()));
        Kind { gpus: [1, 1, 1, 2, 2, 4][random.below(6) as usize], median, spread, timeout }
    };
    (0..12).map(|n| kind(n, random)).collect()
}

fn days(seed: u64, tally: &mut Tally) {
    let random = &mut Random::new(seed);
    let kinds = kinds(random);
    let workers = workload::cluster("8xV100:16GiB/8").expect("a cluster");
    let policy = default_policy();
    let setup = Setup { workers, policy, start_delay: Span::ZERO, forget: false, ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).expect("the default policy");
    let work = kinds.iter().map(|k| k.median * f64::from(k.gpus)).sum::<f64>() / kinds.len() as f64;
    let mut of: BTreeMap<TaskId, usize> = BTreeMap::new();
    let mut given: Vec<(TaskId, ForecastRange)> = Vec::new();
    let mut now = 0.0;
    while now < 40_000.0 {
        now += random.exponential(work / 8.0);
        sim.run_until(Time::from_secs(now));
        let which = random.below(kinds.len() as u64) as usize;
        let kind = &kinds[which];
        let length = kind.median * (kind.spread * random.normal()).exp();
        let length = kind.timeout.map_or(length, |limit| length.min(limit));
        let task = TaskSpec {
            name: format!("kind{which}"),
            needs: Needs { gpus: kind.gpus, ..Needs::default() },
            timeout: kind.timeout.map(Span::from_secs),
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: format!("kind{which}"), tasks: vec![task], ..JobSpec::default() };
        let job = sim.submit("ann", spec, RunModel::Constant(Span::from_secs(length))).expect("it fits");
        let task = TaskId { job, node: 0, index: 0 };
        of.insert(task, which);
        if sim.record(task).is_some_and(|r| r.started.is_some()) {
            continue;
        }
        let (mut ran, mut by_gpus) = (BTreeMap::<usize, Vec<Span>>::new(), BTreeMap::<u16, Vec<Span>>::new());
        for record in sim.records().iter().filter(|r| r.ended.is_some()) {
            let took = record.ended.expect("it ended").since(record.started.expect("it ran"));
            let kind = of[&record.task];
            ran.entry(kind).or_default().push(took);
            by_gpus.entry(kinds[kind].gpus).or_default().push(took);
        }
        let (cluster, at) = (sim.cluster(), sim.now());
        let guess = |task: TaskId, sample: u32| {
            let kind = of[&task];
            let attempt = cluster.view().attempt(task).map(|(a, _)| a);
            let so_far = attempt.map_or(Span::ZERO, |a| at.since(a.since));
            let slice = |runs: Option<&'_ Vec<Span>>| runs.cloned().unwrap_or_default();
            let (before, alike) = (slice(ran.get(&kind)), slice(by_gpus.get(&kinds[kind].gpus)));
            let limit = kinds[kind].timeout.map(Span::from_secs);
            let known = RunTimeEvidence {
                similar: &before,
                stated_ratios: &[],
                stated: limit,
                limit,
                less_similar: [&alike, &[]],
            };
            sample_run_time(known, so_far, task, sample)
        };
        let expected = forecast(cluster, POLICIES, at, &[task], LIMITS, guess).expect("the policy is known");
        match &expected[&task] {
            StartForecast::Range(range) => given.push((task, range.clone())),
            StartForecast::Unknown(why) => {
                assert!(matches!(why, UnknownStart::Lengths(_)), "{why:?}");
                tally.unknown += 1;
            }
        }
    }
    sim.run();
    for (task, range) in given {
        let started = sim.record(task).and_then(|r| r.started).expect("everything started");
        tally.given += 1;
        tally.held += usize::from((range.from..=range.to).contains(&started));
        let width = range.to.since(range.from);
        assert!(width < Span::from_secs(86_400.0), "{width:?}: no task here runs longer than some hours");
    }
}

#[test]
fn a_range_said_to_hold_eight_times_in_ten_does() {
    let mut tally = Tally::default();
    (1..=4).for_each(|seed| days(seed, &mut tally));
    let share = tally.held as f64 / tally.given as f64;
    assert!(tally.given > 300, "{} ranges, {} unknown", tally.given, tally.unknown);
    assert!(tally.unknown > 0, "before anything is known of a kind");
    assert!((0.72..=0.9).contains(&share), "{} of {} ranges held", tally.held, tally.given);
}
