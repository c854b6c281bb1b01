//! `sim`: a workload under a policy, on a virtual clock.

use super::faults::Faults;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::show::compare::Sample;
use crate::simulation::{
    Costs, Experiment, Outputs, Progress, RunOptions, cluster, gpu_types, parse_policy, study,
};
use crate::usage_error::UsageError;
use crate::workload::WorkloadOptions;
use anyhow::Context as _;
use clap::Args;
use nix::unistd::mkdtemp;
use serde_json::json;
use std::sync::Arc;
use warpyard_api::quantity::Micros;
use warpyard_core::{PolicyChoice, Span};
use warpyard_server::simulated_server::{self, SimulatedServer};
use warpyard_sim::{Setup, SimReport};

/// Options of every simulation: cluster, workload and model.
#[derive(Debug, Args)]
pub(crate) struct SimulationOptions {
    /// The cluster: a line such as 12xV100:16GiB,2xK80 (servers of 4 unless /8), a TOML file, or Alibaba's list of nodes
    /// (openb_node_list_*.csv). In TOML, `gpus` is such a line or [[server]] has name, gpus, count, cpus and memory;
    /// gpu_budget, tasks_per_gpu and overcommit are as in the server's configuration
    #[arg(long, value_name = "LINE|FILE", required = true)]
    cluster: Option<String>,
    /// Random seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Delay between placing a task and its start
    #[arg(long, value_name = "TIME", default_value = "0")]
    start_delay: Micros,
    /// Time a preempted task loses when it starts again
    #[arg(long, value_name = "TIME", default_value = "0")]
    restart_cost: Micros,
    /// Slowdown of tasks that share a GPU: each of n runs at 1 / (1 + X (n − 1)) of its speed
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    contention: f64,
    /// Price of a GPU hour by type, for the policy `cost`: v100=2.48,k80=0.45 [default: all equal]
    #[arg(long, value_name = "TYPE=COST,..")]
    cost: Option<Costs>,
    /// Count jobs that can never fit as rejected, instead of refusing the workload
    #[arg(long)]
    count_rejected: bool,
    #[command(flatten)]
    source: WorkloadOptions,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Scheduling policy
    #[arg(long, value_name = "NAME[:K=V,..]", default_value = "backfill")]
    policy: String,
    /// Include the figures of each job (with --json)
    #[arg(long)]
    per_job: bool,
    #[command(flatten)]
    simulation: SimulationOptions,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    serve: ServeOptions,
    #[command(flatten)]
    faults: Faults,
}

/// Showing a simulation as it runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Watching it run")]
struct ServeOptions {
    /// Show the simulation in the web pages as it runs, until Ctrl-C
    #[arg(long, conflicts_with_all = ["report", "csv", "plots", "per_job"])]
    serve: bool,
    /// How many simulated seconds pass in a second
    #[arg(long, value_name = "X", default_value_t = 60.0, requires = "serve")]
    speed: f64,
    /// Address of the web pages [default: a free port on loopback]
    #[arg(long, value_name = "ADDRESS", requires = "serve")]
    listen: Option<String>,
}

impl ServeOptions {
    fn run(
        self,
        bench: Experiment,
        policy: PolicyChoice,
        seed: u64,
        context: &Context,
    ) -> anyhow::Result<Exit> {
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(UsageError::BadSpeed(self.speed).into());
        }
        let (workload, throughputs) = (bench.workload.clone(), bench.throughputs.clone());
        let json = context.global.json;
        let data = mkdtemp(&std::env::temp_dir().join("warpyard-sim-XXXXXX"))
            .context("cannot make a directory for what pages ask for")?;
        let show = SimulatedServer {
            setup: Setup { forget: false, ..bench.setup(&policy) },
            first: bench.throughputs.command(bench.costs.clone()),
            workload: Box::new(move || {
                Box::new(workload.jobs(seed).map(move |job| Experiment::arrival(&throughputs, job)))
            }),
            speed: self.speed,
            listen: self.listen,
            data: data.clone(),
        };
        let shown = simulated_server::run(show, |ready| {
            let text = match json {
                true => json!({"url": ready.url, "login": ready.login, "speed": self.speed}).to_string(),
                false => format!(
                    "simulating at {} times the speed\n  open  {}\nCtrl-C ends it",
                    self.speed, ready.login
                ),
            };
            // It is shown in the pages whether or not anyone reads this.
            let _nobody_reads = context.print(&(text + "\n"));
        });
        let _gone_already = std::fs::remove_dir_all(data);
        shown?;
        Ok(Exit::Fine)
    }
}

impl SimulationOptions {
    /// A description of the simulation, for the report.
    pub(crate) fn about(&self, repeat: u64) -> Vec<(String, String)> {
        let seeds = match repeat {
            1 => self.seed.to_string(),
            n => format!("{} to {}", self.seed, self.seed.wrapping_add(n - 1)),
        };
        let mut about = vec![
            ("cluster".to_owned(), self.cluster.clone().unwrap_or_default()),
            ("workload".to_owned(), self.source.describe()),
            ("seed".to_owned(), seeds),
        ];
        if self.start_delay.0 > 0 {
            about.push(("start delay".to_owned(), self.start_delay.to_string()));
        }
        if self.contention > 0.0 {
            about.push(("contention".to_owned(), self.contention.to_string()));
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        about.push(("command".to_owned(), format!("warpyard {}", words.join(" "))));
        about
    }

    pub(crate) fn bench(&self) -> Result<Experiment, UsageError> {
        if !(self.contention.is_finite() && self.contention >= 0.0) {
            return Err(UsageError::BadContention(self.contention));
        }
        let workers = cluster(self.cluster.as_deref().expect("an argument that is required"))?;
        Ok(Experiment {
            contention: self.contention,
            workload: self.source.workload()?,
            throughputs: self.source.throughputs()?.on(&gpu_types(&workers)),
            costs: self.cost.clone().unwrap_or_default(),
            workers,
            restart: Span(self.restart_cost.0),
            start_delay: Span(self.start_delay.0),
            count_rejected: self.count_rejected,
        })
    }
}

impl Simulate {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if let Some(level) = self.faults.level() {
            return self.faults.run(level, self.simulation.seed, context);
        }
        let policy = parse_policy(&self.policy)?;
        let bench = self.simulation.bench()?;
        bench.check(&policy)?;
        if self.serve.serve {
            return self.serve.run(bench, policy, self.simulation.seed, context);
        }
        bench.warn_of_load(self.simulation.seed);
        let wanted =
            RunOptions { per_job: self.per_job || self.outputs.wanted(), timeline: self.outputs.wanted() };
        let tally = Arc::new(Progress::of(1, bench.workload.len()));
        let ran = bench.run(&policy, self.simulation.seed, wanted, &tally)?;
        drop(tally);
        let per_job = ran.report.per_job.clone().filter(|_| self.per_job);
        let report = SimReport { per_job, ..ran.report.clone() };
        if self.outputs.wanted() {
            let title = format!("{} jobs under {policy}", bench.workload.len());
            let runs = vec![(policy.to_string(), vec![ran])];
            self.outputs.write(&study(title, self.simulation.about(1), runs, Sample::Single)?)?;
        }
        context.answer(&report, show::sim::text)
    }
}
