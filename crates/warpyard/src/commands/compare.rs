//! `compare`: policies side by side on the same workloads.

use super::sim::SimulationOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::show::compare::{PolicyFigures, Sample};
use crate::simulation::{Experiment, Outputs, Progress, RunOptions, RunResult, parse_policies, study};
use crate::usage_error::UsageError;
use crate::workload::Workload;
use clap::Args;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpyard_core::PolicyChoice;
use warpyard_sim::SimReport;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Policies to compare, such as fifo,sjf,short-first:beta=2
    #[arg(long, value_name = "A,B,..")]
    policies: String,
    /// How many workloads to generate, each from its own seed; every policy runs the same ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    #[command(flatten)]
    simulation: SimulationOptions,
    #[command(flatten)]
    outputs: Outputs,
}

impl Compare {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let policies = parse_policies(&self.policies)?;
        let bench = self.simulation.bench()?;
        for policy in &policies {
            bench.check(policy)?;
        }
        // Nothing in a simulation is left to chance but the workload.
        let (repeat, sample) = match bench.workload {
            Workload::Traced(_) => (1, Sample::Single),
            Workload::Generated(_) => (self.repeat, Sample::Seeds),
        };
        if repeat < self.repeat {
            eprintln!("note: the same trace gives the same figures every time; simulated once");
        }
        bench.warn_of_load(self.simulation.seed);
        let runs = simulate(&bench, &policies, self.simulation.seed, repeat, self.outputs.wanted())?;
        let reports = runs.iter().map(|runs| {
            runs.iter().map(|ran| SimReport { per_job: None, ..ran.report.clone() }).collect::<Vec<_>>()
        });
        let reports: Vec<_> = reports.collect();
        let mut rows = Vec::new();
        for (at, of) in reports.iter().enumerate() {
            // Every policy had the same workloads, so the first is what the others are compared with, one by one.
            let against = reports.first().filter(|_| at > 0);
            let row = PolicyFigures::of(of, sample)?;
            rows.push(match against {
                Some(first) => row.beside(of, first, sample)?,
                None => row,
            });
        }
        if self.outputs.wanted() {
            let title = format!("{} policies on {} jobs", policies.len(), bench.workload.len());
            let named = policies.iter().map(ToString::to_string).zip(runs).collect();
            self.outputs.write(&study(title, self.simulation.about(repeat), named, sample)?)?;
        }
        context.answer(rows.as_slice(), show::compare::table)
    }
}

/// Every policy with every seed, as many at once as there are processors; by policy, then by seed. Only the first of each
/// policy is watched.
fn simulate(
    bench: &Experiment,
    policies: &[PolicyChoice],
    seed: u64,
    repeat: u64,
    kept: bool,
) -> Result<Vec<Vec<RunResult>>, UsageError> {
    let repeat = repeat as usize;
    let total = policies.len() * repeat;
    let next = AtomicUsize::new(0);
    let tally = Arc::new(Progress::of(total as u64, bench.workload.len()));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total {
                return mine;
            }
            let number = at % repeat;
            let wanted = RunOptions { per_job: kept, timeline: kept && number == 0 };
            let seed = seed.wrapping_add(number as u64);
            mine.push((at, bench.run(&policies[at / repeat], seed, wanted, &tally)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, Into::into).min(total);
    let mut runs: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a simulation does not panic")).collect()
    });
    runs.sort_by_key(|(at, _)| *at);
    let mut all = runs.into_iter().map(|(_, ran)| ran);
    policies.iter().map(|_| all.by_ref().take(repeat).collect()).collect()
}
