//! `compare`: policies side by side on the same workloads.

use super::sim::Scene;
use crate::context::Context;
use crate::exit::Exit;
use crate::lab::{Bench, Line, Workload, policies_of};
use crate::show;
use crate::show::compare::{Repeated, Sample};
use crate::wrong::Wrong;
use clap::Args;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpyard_core::PolicyChoice;
use warpyard_sim::SimReport;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The policies, such as fifo,sjf,short-first:beta=2
    #[arg(long, value_name = "A,B,..")]
    policies: String,
    /// How many workloads are made, from as many seeds; every policy gets the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    #[command(flatten)]
    scene: Scene,
}

impl Compare {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let policies = policies_of(&self.policies)?;
        let bench = self.scene.bench()?;
        for policy in &policies {
            bench.check(policy)?;
        }
        // Nothing in a simulation is left to chance but the workload.
        let (repeat, sample) = match bench.workload {
            Workload::Traced(_) => (1, Sample::Everything),
            Workload::Made(_) => (self.repeat, Sample::Seeds),
        };
        if repeat < self.repeat {
            eprintln!("note: the same trace gives the same figures every time; simulated once");
        }
        let reports = simulate(&bench, &policies, self.scene.seed, repeat)?;
        let rows = reports
            .chunks(repeat as usize)
            .map(|runs| Repeated::of(runs, sample))
            .collect::<Result<Vec<_>, _>>()?;
        context.answer(rows.as_slice(), show::compare::table)
    }
}

/// Every policy with every seed, as many at once as there are processors; by policy, then by seed.
fn simulate(
    bench: &Bench,
    policies: &[PolicyChoice],
    seed: u64,
    repeat: u64,
) -> Result<Vec<SimReport>, Wrong> {
    let repeat = repeat as usize;
    let total = policies.len() * repeat;
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0usize, Line::of_stderr()));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total {
                return mine;
            }
            let seed = seed.wrapping_add((at % repeat) as u64);
            mine.push((at, bench.run(&policies[at / repeat], seed, false, None)));
            let (count, line) = &mut *done.lock().expect("nobody panics while counting");
            *count += 1;
            line.say(|| format!("{count} of {total} simulations"));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, Into::into).min(total);
    let mut reports: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a simulation does not panic")).collect()
    });
    reports.sort_by_key(|(at, _)| *at);
    reports.into_iter().map(|(_, report)| report).collect()
}
