//! `sim --faults`: the engine among failures of every kind, one run for each seed, until a rule is broken.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::simulation::ProgressLine;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use std::panic;
use std::time::Instant;
use warpyard_sim::faults::{Failure, Level, RunStats, run};

/// Arguments of `sim` that are about faults.
#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// Inject faults instead of running a workload: messages, server, machines, disk, clock; every invariant is
    /// checked after every step
    #[arg(long, value_name = "LEVEL", value_parser = level(), conflicts_with_all = ["cluster", "trace", "generate", "policy", "serve"])]
    faults: Option<Level>,
    /// How many runs with faults; the first uses --seed, each other the next seed
    #[arg(long, value_name = "N", default_value_t = 1, requires = "faults", conflicts_with_all = ["cluster", "trace", "generate"], value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

fn level() -> impl TypedValueParser<Value = Level> {
    let words = PossibleValuesParser::new(Level::ALL.map(Level::word));
    words.map(|word| word.parse().expect("one of the words"))
}

/// Result of fault-injection runs.
#[derive(Debug, Serialize)]
pub(crate) struct FaultsReport {
    level: &'static str,
    first_seed: u64,
    /// How many runs there were; fewer than asked for if one failed.
    pub(crate) runs: u64,
    #[serde(flatten)]
    pub(crate) held: RunStats,
    pub(crate) failure: Option<Box<Failure>>,
    /// The command that reproduces the failure.
    pub(crate) reproduce: Option<String>,
}

impl Faults {
    /// The fault level, if faults are to be injected.
    pub(crate) fn level(&self) -> Option<Level> {
        self.faults
    }

    /// Runs until one fails or all have held.
    pub(crate) fn run(&self, level: Level, first_seed: u64, context: &Context) -> anyhow::Result<Exit> {
        let (mut line, began) = (ProgressLine::of_stderr(), Instant::now());
        let mut report = FaultsReport {
            level: level.word(),
            first_seed,
            runs: 0,
            held: RunStats::default(),
            failure: None,
            reproduce: None,
        };
        // An assertion of the core that fails is one of the findings, and told as such.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        for seed in (first_seed..=u64::MAX).take(usize::try_from(self.seeds).unwrap_or(usize::MAX)) {
            line.update(|| {
                let share = report.runs as f64 / self.seeds as f64;
                let left = show::time_left(began.elapsed().as_secs_f64(), share);
                format!("{} of {} runs, {left}, {} steps", report.runs, self.seeds, report.held.steps)
            });
            report.runs += 1;
            match run(seed, level) {
                Ok(held) => report.held += held,
                Err(failure) => {
                    report.reproduce = Some(format!("warpyard sim --faults {} --seed {seed}", level.word()));
                    report.failure = Some(failure);
                    break;
                }
            }
        }
        panic::set_hook(hook);
        drop(line);
        let failed = report.failure.is_some();
        context.answer(&report, show::faults::text)?;
        Ok(if failed { Exit::WorkFailed } else { Exit::Fine })
    }
}
