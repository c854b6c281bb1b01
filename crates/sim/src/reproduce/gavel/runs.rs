//! The runs the study is made of: which trace, under what, and what came out. As many at once as there are processors.

use super::{GavelData, KINDS, OF_EACH, unaware};
use crate::random::Random;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use warpyard_allocate::rounds::simulate::{Cluster, Outcome, SimulatedJob, Targets, by_goal, simulate};
use warpyard_allocate::rounds::{RoundScheduler, Server};
use warpyard_allocate::{GpuType, Options, PairShare, Shares, SolveError, TypeAwareness};

/// A run asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunConfig {
    pub(super) goal: &'static str,
    pub(super) types: TypeAwareness,
    pub(super) sharing: bool,
    /// Jobs an hour of a drawn trace, and how many; the published trace, where there is none.
    pub(super) load: Option<(f64, usize)>,
    /// By what part a speed the solver is told may be wrong.
    pub(super) error: f64,
    pub(super) seed: u64,
    pub(super) rounds: RoundScheduler,
}

impl RunConfig {
    /// Max-min on the published trace, everything known and restarts free.
    pub(super) fn published() -> RunConfig {
        RunConfig {
            goal: "max-min",
            types: TypeAwareness::Aware,
            sharing: false,
            load: None,
            error: 0.0,
            seed: 0,
            rounds: RoundScheduler::default(),
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(super) struct RunResult {
    pub(super) outcome: Outcome,
    solving_s: f64,
}

impl RunResult {
    /// The mean time of a solve, in milliseconds.
    pub(super) fn solving_ms(&self) -> f64 {
        1e3 * self.solving_s / self.outcome.solves.max(1) as f64
    }
}

/// Makes all runs; they come back in the order asked for.
pub(super) fn run_all(
    data: &GavelData,
    asked: &[RunConfig],
    told: impl Fn(usize, usize) + Sync,
) -> Result<Vec<RunResult>, SolveError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(asked_for) = asked.get(at) else { return mine };
            mine.push((at, run(data, asked_for)));
            told(done.fetch_add(1, Ordering::Relaxed) + 1, asked.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(asked.len());
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run ends")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, ran)| ran).collect()
}

fn run(data: &GavelData, asked: &RunConfig) -> Result<RunResult, SolveError> {
    let mut random = Random::new(asked.seed);
    let mut trace = match asked.load {
        None => data.trace.clone(),
        Some((load, jobs)) => drawn(&data.trace, load, jobs, &mut random),
    };
    if asked.types == TypeAwareness::Blind {
        // Nor may the rounds know: whoever fills what is left takes any type for as good as another.
        for work in &mut trace {
            work.reported = Some(unaware(&work.job.throughputs));
        }
    }
    if asked.error > 0.0 {
        for work in &mut trace {
            let wrong = |speed: &f64| speed * (1.0 + asked.error * (2.0 * random.unit() - 1.0));
            work.reported = Some(work.job.throughputs.iter().map(wrong).collect());
        }
    }
    let types = KINDS.map(|name| GpuType::new(name, OF_EACH));
    let servers: Vec<Server> = (0..KINDS.len())
        .flat_map(|gpu_type| (0..OF_EACH).map(move |_| Server { gpu_type, gpus: 1 }))
        .collect();
    let pairs = asked.sharing.then_some(&data.table);
    let reported_pairs = pairs.filter(|_| asked.types == TypeAwareness::Blind).map(|_| &data.unaware);
    let cluster = Cluster { pairs, reported_pairs, rounds: asked.rounds, ..Cluster::new(&types, &servers) };
    let options = Options { sharing: asked.sharing, ..Options::default() };
    let mut by_goal = by_goal(asked.goal, options);
    let mut solving_s = 0.0;
    let outcome = simulate(&trace, cluster, |instance| {
        let start = Instant::now();
        let solved = by_goal(instance);
        solving_s += start.elapsed().as_secs_f64();
        solved.map(|targets| if asked.types == TypeAwareness::Blind { even(targets) } else { targets })
    })?;
    Ok(RunResult { outcome, solving_s })
}

/// The same time on every type: to whoever cannot tell them apart no type is better.
fn even(targets: Targets) -> Targets {
    let even = |row: &[f64]| vec![row.iter().sum::<f64>() / KINDS.len() as f64; KINDS.len()];
    let alone = targets.alone.rows().flat_map(even).collect();
    let pairs =
        targets.pairs.into_iter().map(|pair| PairShare { shares: even(&pair.shares), ..pair }).collect();
    Targets { alone: Shares::new(KINDS.len(), alone), pairs }
}

/// Jobs of the published trace, drawn again and again, coming independently of one another at so many an hour.
fn drawn(from: &[SimulatedJob], load: f64, jobs: usize, random: &mut Random) -> Vec<SimulatedJob> {
    let mut now = 0.0;
    let job = |_| {
        let mut work = from[random.below(from.len() as u64) as usize].clone();
        work.job.arrival_s = now;
        now += random.exponential(3600.0 / load);
        work
    };
    (0..jobs).map(job).collect()
}
