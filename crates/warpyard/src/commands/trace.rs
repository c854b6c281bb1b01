//! `trace`: workloads in files, made and looked at.

use crate::context::Context;
use crate::exit::Exit;
use crate::lab::{Shape, keep, read_trace};
use crate::show;
use clap::{Args, Subcommand};
use warpyard_sim::workload::write;

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a workload from a seed
    Generate(Generate),
    /// Say what a trace is like
    Stats {
        /// The trace, as CSV; - reads standard input
        file: String,
    },
}

/// Arguments of `trace generate`.
#[derive(Debug, Args)]
struct Generate {
    /// How many jobs
    #[arg(long, value_name = "N")]
    jobs: u64,
    /// What it is made from; the same seed gives the same jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to; - writes to standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: String,
    #[command(flatten)]
    shape: Shape,
}

impl Trace {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self.what {
            What::Generate(Generate { jobs, seed, out, shape }) => {
                let generator = shape.generator(jobs)?;
                keep(&out, |to| write(to, generator.generate(seed)))?;
                Ok(Exit::Fine)
            }
            What::Stats { file } => {
                let stats = show::trace::Stats::of(&read_trace(&file)?.jobs);
                context.answer(&stats, show::trace::text)
            }
        }
    }
}
