//! The workload of a simulation: a trace from a file, or jobs generated from a seed.

use crate::simulation::Throughputs;
use crate::usage_error::UsageError;
use crate::workload::ImportOptions;
use crate::workload::{GeneratorOptions, Trace, read_trace};
use clap::Args;
use std::sync::Arc;
use warpyard_sim::workload::{Generator, TraceJob, TraceTask};

/// The most tasks of a workload that is made: what became of each is kept until the end, in a few hundred bytes.
const MAX_TASKS: u64 = 10_000_000;

/// Options that name the workload.
#[derive(Debug, Args)]
pub(crate) struct WorkloadOptions {
    /// Workload to simulate, in any format `warpyard trace import` knows; - reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "generate", conflicts_with = "generate")]
    trace: Option<String>,
    /// JSON file with steps per second of every profile on every GPU type: tasks with a profile and steps run at that
    /// speed, and policies know it
    #[arg(long, value_name = "FILE")]
    throughputs: Option<String>,
    /// Generate this many jobs instead
    #[arg(long, value_name = "JOBS")]
    generate: Option<u64>,
    #[command(flatten)]
    generator: GeneratorOptions,
}

/// Jobs to simulate.
#[derive(Clone)]
pub(crate) enum Workload {
    /// The jobs of a trace.
    Traced(Trace),
    /// Jobs generated from each seed.
    Generated(Box<Generator>),
}

impl WorkloadOptions {
    /// A description of the workload.
    pub(crate) fn describe(&self) -> String {
        match (self.generate, &self.trace) {
            (Some(jobs), _) => format!("{jobs} jobs made from the seed"),
            (None, Some(file)) => format!("the trace {file}"),
            (None, None) => "a trace".to_owned(),
        }
    }

    /// Reads the trace or prepares the generator.
    pub(crate) fn workload(&self) -> Result<Workload, UsageError> {
        match (self.generate, &self.trace) {
            (Some(0), _) => Err(UsageError::NoJobs("--generate 0".to_owned())),
            (Some(jobs), _) => {
                let generator = self.generator.generator(jobs)?;
                let tasks = generator.graphs.as_ref().map_or(1, |graphs| u64::from(graphs.most));
                let asked = jobs.saturating_mul(tasks);
                if asked > MAX_TASKS {
                    return Err(UsageError::TooManyJobs {
                        option: format!("--generate {jobs}"),
                        asked,
                        most: MAX_TASKS,
                    });
                }
                Ok(Workload::Generated(Box::new(generator)))
            }
            (None, file) => match self.generator.given() {
                Some(option) => Err(UsageError::OnlyGenerated(option)),
                None => {
                    let open = ImportOptions::with_throughputs(self.throughputs.clone());
                    read_trace(file.as_deref().unwrap_or("-"), &open).map(Workload::Traced)
                }
            },
        }
    }
}

impl WorkloadOptions {
    /// The throughputs given with the workload.
    pub(crate) fn throughputs(&self) -> Result<Throughputs, UsageError> {
        self.throughputs.as_deref().map_or_else(|| Ok(Throughputs::default()), Throughputs::read)
    }
}

impl Workload {
    /// The number of jobs.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Traced(trace) => trace.jobs.len() as u64,
            Self::Generated(generator) => generator.jobs,
        }
    }

    /// The jobs in order of submission.
    pub(crate) fn jobs(&self, seed: u64) -> Box<dyn Iterator<Item = TraceJob>> {
        match self {
            Self::Traced(trace) => {
                let jobs = Arc::clone(&trace.jobs);
                Box::new((0..jobs.len()).map(move |i| jobs[i].1.clone()))
            }
            Self::Generated(generator) => Box::new(generator.clone().generate(seed)),
        }
    }

    /// One job for each distinct set of requirements, with its origin. Those of generated jobs are known from the options.
    pub(crate) fn kinds(&self) -> Vec<(String, TraceJob)> {
        match self {
            Self::Traced(trace) => {
                let mut seen = std::collections::BTreeSet::new();
                let needs = |job: &TraceJob| job.tasks.iter().map(TraceTask::needs).collect::<Vec<_>>();
                let new = trace.jobs.iter().filter(|(_, job)| seen.insert(needs(job)));
                new.map(|(place, job)| (format!("{}: {place}", trace.file), job.clone())).collect()
            }
            Self::Generated(generator) => generated_kinds(generator),
        }
    }
}

/// A job for each number of GPUs, amount of memory and type that may be drawn.
fn generated_kinds(generator: &Generator) -> Vec<(String, TraceJob)> {
    let Some(job) = Generator { jobs: 1, graphs: None, ..generator.clone() }.generate(0).next() else {
        return Vec::new();
    };
    let with = |option: &str, change: &dyn Fn(&mut TraceTask)| {
        let mut job = job.clone();
        change(&mut job.tasks[0]);
        (option.to_owned(), job)
    };
    let mut kinds = Vec::new();
    for (kind, _) in &generator.gpu_types {
        for (memory, _) in &generator.gpu_memory {
            for (gpus, _) in &generator.gpus {
                kinds.push(with("the options", &|task| {
                    task.gpus = *gpus;
                    task.gpu_memory = *memory;
                    task.gpu_types = kind.iter().cloned().collect();
                }));
            }
        }
    }
    kinds
}
