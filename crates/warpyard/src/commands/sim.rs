//! `sim`: a workload under a policy, on a virtual clock.

use super::faults::Faults;
use crate::context::Context;
use crate::exit::Exit;
use crate::lab::{Bench, Line, Source, cluster, policy};
use crate::show;
use crate::wrong::Wrong;
use clap::Args;
use warpyard_api::quantity::Micros;
use warpyard_core::Span;

/// Where a simulation takes place and what of.
#[derive(Debug, Args)]
pub(crate) struct Scene {
    /// The cluster: a line such as 12xV100:16GiB,2xK80 (servers of 4 unless /8), or a TOML file
    #[arg(long, value_name = "LINE|FILE", required = true)]
    cluster: Option<String>,
    /// What a workload is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// From choosing a task until it runs
    #[arg(long, value_name = "TIME", default_value = "0")]
    start_delay: Micros,
    /// Count jobs that can never fit as rejected, instead of refusing the whole
    #[arg(long)]
    count_rejected: bool,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// How tasks are ordered and placed
    #[arg(long, value_name = "NAME[:K=V,..]", default_value = "backfill")]
    policy: String,
    /// Also the figures of each job (JSON)
    #[arg(long)]
    per_job: bool,
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    faults: Faults,
}

impl Scene {
    pub(crate) fn bench(&self) -> Result<Bench, Wrong> {
        Ok(Bench {
            workers: cluster(self.cluster.as_deref().expect("an argument that is required"))?,
            workload: self.source.workload()?,
            start_delay: Span(self.start_delay.0),
            count_rejected: self.count_rejected,
        })
    }
}

impl Simulate {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if let Some(level) = self.faults.level() {
            return self.faults.run(level, self.scene.seed, context);
        }
        let policy = policy(&self.policy)?;
        let bench = self.scene.bench()?;
        bench.check(&policy)?;
        let report = bench.run(&policy, self.scene.seed, self.per_job, Some(Line::of_stderr()))?;
        context.answer(&report, show::sim::text)
    }
}
