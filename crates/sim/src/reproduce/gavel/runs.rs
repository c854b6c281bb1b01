//! Runs of the study: their configuration and results. They run in parallel on all processors.

use super::{GavelData, KINDS, OF_EACH, blind_speeds};
use crate::random::Random;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use warpyard_allocate::rounds::simulate::{Cluster, Outcome, SimulatedJob, Targets, by_goal, simulate};
use warpyard_allocate::rounds::{RoundScheduler, Server};
use warpyard_allocate::{GpuType, Options, PairShare, Shares, SolveError, TypeAwareness};

/// Configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunConfig {
    pub(super) goal: &'static str,
    pub(super) types: TypeAwareness,
    pub(super) sharing: bool,
    /// Arrival rate in jobs per hour and size of a sampled trace; `None` for `gen150_single` itself.
    pub(super) load: Option<(f64, usize)>,
    /// Largest relative error of the speeds reported to the solver.
    pub(super) error: f64,
    pub(super) seed: u64,
    pub(super) rounds: RoundScheduler,
}

impl RunConfig {
    /// Max-min on the trace `gen150_single` with true speeds and free restarts.
    pub(super) fn gen150() -> RunConfig {
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

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) struct RunResult {
    pub(super) outcome: Outcome,
    solving_s: f64,
}

impl RunResult {
    /// Mean time of a solve, in milliseconds.
    pub(super) fn solving_ms(&self) -> f64 {
        1e3 * self.solving_s / self.outcome.solves.max(1) as f64
    }
}

/// Executes all runs; results are in the order of the configurations.
pub(super) fn run_all(
    data: &GavelData,
    configs: &[RunConfig],
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Vec<RunResult>, SolveError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(config) = configs.get(at) else { return mine };
            mine.push((at, run(data, config)));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, configs.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(configs.len());
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run ends")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, ran)| ran).collect()
}

fn run(data: &GavelData, config: &RunConfig) -> Result<RunResult, SolveError> {
    let mut random = Random::new(config.seed);
    let mut trace = match config.load {
        None => data.trace.clone(),
        Some((load, jobs)) => sample_trace(&data.trace, load, jobs, &mut random),
    };
    if config.types == TypeAwareness::Blind {
        // The round scheduler must be blind too: it fills leftover GPUs by the reported speeds.
        for work in &mut trace {
            work.reported = Some(blind_speeds(&work.job.throughputs));
        }
    }
    if config.error > 0.0 {
        for work in &mut trace {
            let wrong = |speed: &f64| speed * (1.0 + config.error * (2.0 * random.unit() - 1.0));
            work.reported = Some(work.job.throughputs.iter().map(wrong).collect());
        }
    }
    let types = KINDS.map(|name| GpuType::new(name, OF_EACH));
    let servers: Vec<Server> = (0..KINDS.len())
        .flat_map(|gpu_type| (0..OF_EACH).map(move |_| Server { gpu_type, gpus: 1 }))
        .collect();
    let pairs = config.sharing.then_some(&data.table);
    let reported_pairs = pairs.filter(|_| config.types == TypeAwareness::Blind).map(|_| &data.blind);
    let cluster = Cluster { pairs, reported_pairs, rounds: config.rounds, ..Cluster::new(&types, &servers) };
    let options = Options { sharing: config.sharing, ..Options::default() };
    let mut by_goal = by_goal(config.goal, options);
    let mut solving_s = 0.0;
    let outcome = simulate(&trace, cluster, |instance| {
        let start = Instant::now();
        let solved = by_goal(instance);
        solving_s += start.elapsed().as_secs_f64();
        solved.map(|targets| if config.types == TypeAwareness::Blind { even(targets) } else { targets })
    })?;
    Ok(RunResult { outcome, solving_s })
}

/// Spreads each job's time evenly over the types: a blind scheduler prefers none.
fn even(targets: Targets) -> Targets {
    let even = |row: &[f64]| vec![row.iter().sum::<f64>() / KINDS.len() as f64; KINDS.len()];
    let alone = targets.alone.rows().flat_map(even).collect();
    let pairs =
        targets.pairs.into_iter().map(|pair| PairShare { shares: even(&pair.shares), ..pair }).collect();
    Targets { alone: Shares::new(KINDS.len(), alone), pairs }
}

/// Trace of jobs drawn with replacement from another, with Poisson arrivals at `load` jobs per hour.
fn sample_trace(from: &[SimulatedJob], load: f64, jobs: usize, random: &mut Random) -> Vec<SimulatedJob> {
    let mut now = 0.0;
    let job = |_| {
        let mut work = from[random.below(from.len() as u64) as usize].clone();
        work.job.arrival_s = now;
        now += random.exponential(3600.0 / load);
        work
    };
    (0..jobs).map(job).collect()
}
