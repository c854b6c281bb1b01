//! How often the range given for a start holds: `cargo bench -p warpyard-sim --bench forecast`. A day of a lab is
//! simulated; whenever a job must wait, its start is forecast from what is known then, and compared with what came.

use std::collections::BTreeMap;
use warpyard_core::spec::{JobSpec, Needs, Program, TaskSpec};
use warpyard_core::{Span, TaskId, Time};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_sim::random::Random;
use warpyard_sim::{
    ForecastBudget, ForecastRange, RunModel, RunTimeEvidence, Setup, Sim, forecast, sample_run_time, workload,
};

/// What the server uses.
const LIMITS: ForecastBudget = ForecastBudget { samples: 20, events: 5_000, solves: 3 };

/// A kind of job someone runs again and again.
struct Kind {
    user: String,
    name: String,
    gpus: u16,
    median: f64,
    spread: f64,
    promise: f64,
}

/// A forecast and the task it is of.
struct Given {
    task: TaskId,
    range: ForecastRange,
}

#[derive(Default)]
struct Tally {
    given: usize,
    held: usize,
    widths: Vec<f64>,
}

fn kinds(random: &mut Random) -> Vec<Kind> {
    let kind = |n: u64, random: &mut Random| {
        let median = 120.0 * 20f64.powf(random.unit());
        Kind {
            user: format!("user{}", n % 6),
            name: format!("kind{n}"),
            gpus: [1, 1, 1, 2, 2, 4][random.below(6) as usize],
            median,
            spread: 0.2 + 0.6 * random.unit(),
            promise: median * (2.0 + 2.0 * random.unit()),
        }
    };
    (0..24).map(|n| kind(n, random)).collect()
}

fn day(seed: u64, with_history: bool, tally: &mut Tally) {
    let random = &mut Random::new(seed);
    let kinds = kinds(random);
    let workers = workload::cluster("8xV100:16GiB/8").expect("a cluster");
    let setup = Setup {
        workers,
        policy: default_policy(),
        start_delay: Span::ZERO,
        forget: false,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup, POLICIES).expect("the default policy");
    let mean_work: f64 = kinds.iter().map(|k| k.median * f64::from(k.gpus)).sum::<f64>() / kinds.len() as f64;
    let gap = mean_work / 8.0;
    let mut ran: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
    let mut of: BTreeMap<TaskId, (usize, Span)> = BTreeMap::new();
    let mut given: Vec<Given> = Vec::new();
    let mut now = 0.0;
    while now < 86_400.0 {
        now += random.exponential(gap);
        sim.run_until(Time::from_secs(now));
        let which = random.below(kinds.len() as u64) as usize;
        let kind = &kinds[which];
        let length = (kind.median * (kind.spread * random.normal()).exp()).min(kind.promise);
        let task = TaskSpec {
            name: kind.name.clone(),
            program: Program::new(["true"]),
            needs: Needs { gpus: kind.gpus, ..Needs::default() },
            timeout: Some(Span::from_secs(kind.promise)),
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: kind.name.clone(), tasks: vec![task], ..JobSpec::default() };
        let job = sim.submit(&kind.user, spec, RunModel::Constant(Span::from_secs(length))).expect("it fits");
        let task = TaskId { job, node: 0, index: 0 };
        of.insert(task, (which, Span::from_secs(kind.promise)));
        ran.clear();
        let mut kept = Vec::new();
        for record in sim.records().iter().filter(|r| r.ended.is_some()) {
            let (started, ended) = (record.started.expect("it ran"), record.ended.expect("it ended"));
            let (kind, promised) = of[&record.task];
            ran.entry(kind).or_default().push(ended.since(started));
            kept.push(ended.since(started).secs() / promised.secs());
        }
        if sim.record(task).is_some_and(|r| r.started.is_some()) {
            continue;
        }
        let (cluster, at) = (sim.cluster(), sim.now());
        let guess = |task: TaskId, sample: u32| {
            let (kind, promised) = of[&task];
            let attempt = cluster.view().attempt(task).map(|(a, _)| a);
            let so_far = attempt.map_or(Span::ZERO, |a| at.since(a.since));
            let known = match with_history {
                true => RunTimeEvidence {
                    similar: ran.get(&kind).map(Vec::as_slice).unwrap_or_default(),
                    stated_ratios: &kept,
                    stated: Some(promised),
                    limit: Some(promised),
                    ..RunTimeEvidence::default()
                },
                false => RunTimeEvidence { stated: Some(promised), ..RunTimeEvidence::default() },
            };
            sample_run_time(known, so_far, task, sample)
        };
        let expected = forecast(cluster, POLICIES, at, &[task], LIMITS, guess).expect("the policy is known");
        given.extend(expected[&task].range().map(|range| Given { task, range: range.clone() }));
    }
    sim.run();
    for Given { task, range } in given {
        let started = sim.record(task).and_then(|r| r.started).expect("everything started");
        tally.given += 1;
        tally.held += usize::from((range.from..=range.to).contains(&started));
        tally.widths.push(range.to.since(range.from).secs() / 60.0);
    }
}

fn main() {
    println!(
        "| forecasts of a start, 5 simulated days, 8 GPUs | given | held | median width |\n|---|---|---|---|"
    );
    for (what, with_history) in [("from what like tasks did before", true), ("from promises alone", false)] {
        let mut tally = Tally::default();
        for seed in 1..=5 {
            day(seed, with_history, &mut tally);
        }
        tally.widths.sort_by(f64::total_cmp);
        let width = tally.widths.get(tally.widths.len() / 2).copied().unwrap_or(0.0);
        let share = 100.0 * tally.held as f64 / tally.given.max(1) as f64;
        println!("| {what} | {} | {share:.0} % (said: 80 %) | {width:.0} min |", tally.given);
    }
}
