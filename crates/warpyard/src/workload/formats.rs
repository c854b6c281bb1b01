//! Formats a workload may be in: found by name or by what a file looks like, each with the options it takes.

use crate::input::{find_by_name, parse_json, read_file};
use crate::show;
use crate::usage_error::UsageError;
use clap::Args;
use std::error::Error;
use warpyard_allocate::{Profile, ThroughputTable};
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_dag::read as dag;
use warpyard_sim::workload::format::{alibaba, csv, gavel, json, philly, sacct, swf};
use warpyard_sim::workload::{Location, ParsedTrace, TraceJob, TraceTask};

/// Import options: values that a format does not contain.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What a file does not say")]
pub(crate) struct ImportOptions {
    /// In this file smaller numbers are more urgent; invert them, the largest becoming 0
    #[arg(long)]
    smaller_is_urgent: bool,
    /// swf: number of processors that count as one GPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    processors_per_gpu: u32,
    /// alibaba-2023: memory of a whole GPU; tasks with a fraction of a GPU get that fraction of it
    #[arg(long, value_name = "SIZE", default_value = "16GiB")]
    whole_gpu: ByteSize,
    /// gavel: JSON file with steps per second of every job type on every GPU type
    #[arg(long, value_name = "FILE")]
    throughputs: Option<String>,
    /// gavel: GPU type whose speed determines how long a job runs
    #[arg(long, value_name = "TYPE", default_value = "v100")]
    on: String,
    /// philly: mean time between submissions, which the file does not contain
    #[arg(long = "spread", value_name = "TIME", default_value = "0")]
    spread: Micros,
    /// wfcommons: GPUs of each task
    #[arg(long, value_name = "N", default_value_t = 1)]
    gpus_per_task: u16,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            smaller_is_urgent: false,
            processors_per_gpu: 1,
            whole_gpu: ByteSize(16 << 30),
            throughputs: None,
            on: "v100".to_owned(),
            spread: Micros(0),
            gpus_per_task: 1,
        }
    }
}

impl ImportOptions {
    /// The memory of a whole GPU of which shares are shares.
    pub(crate) fn whole_gpu(&self) -> u64 {
        self.whole_gpu.0
    }

    /// Defaults, with a file of throughputs.
    pub(crate) fn with_throughputs(throughputs: Option<String>) -> Self {
        Self { throughputs, ..Self::default() }
    }
}

/// A format.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    looks_like: fn(&str) -> bool,
    read: fn(&str, &ImportOptions) -> Result<ParsedTrace, BoxedError>,
}

type BoxedError = Box<dyn Error + Send + Sync>;

/// All formats; detection takes the first that matches.
pub(crate) const FORMATS: &[Format] = &[
    Format {
        name: "csv",
        summary: "warpyard's own: columns by name, one task a line (`trace generate` writes it)",
        looks_like: csv::looks_like,
        read: |text, _| Ok(csv::read(text)?),
    },
    Format {
        name: "jsonl",
        summary: "one job a line, in JSON",
        looks_like: |text| {
            text.starts_with("{\"") && text.lines().next().is_some_and(|l| l.contains("\"tasks\":"))
        },
        read: |text, _| Ok(json::read_lines(text)),
    },
    Format {
        name: "json",
        summary: "a list of jobs",
        looks_like: |text| {
            text.trim_start().strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(['{', ']']))
        },
        read: |text, _| Ok(json::read_list(text)?),
    },
    Format {
        name: "sacct",
        summary: "Slurm's `sacct --parsable2` with its heading; columns in any order",
        looks_like: sacct::looks_like,
        read: |text, _| Ok(sacct::read(text)?),
    },
    Format {
        name: "swf",
        summary: "the Standard Workload Format",
        looks_like: swf::looks_like,
        read: |text, options| Ok(swf::read(text, options.processors_per_gpu)),
    },
    Format {
        name: "alibaba-2023",
        summary: "pods of Alibaba's GPU trace of 2023 (openb_pod_list_*.csv)",
        looks_like: alibaba::looks_like,
        read: |text, options| Ok(alibaba::read(text, options.whole_gpu.0)?),
    },
    Format {
        name: "philly",
        summary: "a JSON list of [seconds, GPUs], as distilled from Microsoft's Philly trace",
        looks_like: philly::looks_like,
        read: |text, options| Ok(philly::read(text, options.spread.as_secs_f64(), 1)?),
    },
    Format {
        name: "gavel",
        summary: "Gavel's traces; needs --throughputs",
        looks_like: gavel::looks_like,
        read: read_gavel,
    },
    Format {
        name: "wfcommons",
        summary: "a workflow in WfFormat 1.5, as one job of many tasks",
        looks_like: |text| {
            text.trim_start().starts_with('{') && dag::Format::of(text) == dag::Format::WfFormat
        },
        read: read_workflow,
    },
];

/// Reads a text in the format named, or else in the one it looks like; gives which.
pub(crate) fn read_text(
    file: &str,
    text: &str,
    format: Option<&str>,
    options: &ImportOptions,
) -> Result<(&'static Format, ParsedTrace), UsageError> {
    let format = match format {
        Some(name) => find_by_name("format", name, FORMATS, |format| format.name)?,
        None => guess(text).ok_or_else(|| {
            let known = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
            UsageError::UnknownFormat { file: named(file), known }
        })?,
    };
    let reading = (format.read)(text, options);
    let mut reading = reading.map_err(|source| UsageError::BadFile { file: named(file), source })?;
    if options.smaller_is_urgent {
        let largest = reading.jobs.iter().map(|(_, job)| job.priority).max().unwrap_or(0);
        reading.jobs.iter_mut().for_each(|(_, job)| job.priority = largest.saturating_sub(job.priority));
    }
    reading.put_in_order();
    Ok((format, reading))
}

/// Whether a text looks like a workload at all.
pub(crate) fn looks_like_any(text: &str) -> bool {
    FORMATS.iter().any(|format| (format.looks_like)(text))
}

/// What a text looks like. What looks like nothing but has a comma in its first line is taken for our own, so that the
/// error is about its heading.
fn guess(text: &str) -> Option<&'static Format> {
    let looks = FORMATS.iter().find(|format| (format.looks_like)(text));
    let heading = text.lines().next().unwrap_or("");
    looks.or_else(|| {
        (text.trim().is_empty() || heading.contains(',') && !heading.contains('{')).then_some(&FORMATS[0])
    })
}

fn named(file: &str) -> String {
    if file == "-" { "standard input" } else { file }.to_owned()
}

fn read_gavel(text: &str, options: &ImportOptions) -> Result<ParsedTrace, BoxedError> {
    let file = options.throughputs.as_deref().ok_or(UsageError::NoThroughputs)?;
    let table: ThroughputTable = parse_json(file, &read_file(file)?)?;
    let speed = |kind: &str, gpus| table.alone(&options.on, &Profile { name: kind.to_owned(), gpus });
    let mut reading = gavel::read(text, speed);
    reading.notes.push(format!("run times are those on {}; --on names another GPU type", options.on));
    Ok(reading)
}

/// Reads a workflow as one job with a task per step, in topological order.
fn read_workflow(text: &str, options: &ImportOptions) -> Result<ParsedTrace, BoxedError> {
    let dag::Input::Workflow(workflow) = dag::parse_as(text, dag::Format::WfFormat)? else {
        unreachable!("a workflow is read as one");
    };
    let mut waits: Vec<Vec<usize>> = vec![Vec::new(); workflow.tasks.len()];
    for edge in &workflow.edges {
        waits[edge.to as usize].push(edge.from as usize);
    }
    let order = in_order(&waits).ok_or(UsageError::Circle)?;
    let mut place = vec![0u32; order.len()];
    (0..).zip(&order).for_each(|(at, &task)| place[task] = at);
    let tasks = order.iter().map(|&at| {
        let task = &workflow.tasks[at];
        let mut after: Vec<u32> = waits[at].iter().map(|&from| place[from]).collect();
        after.sort_unstable();
        after.dedup();
        TraceTask {
            name: task.name.replace([';', ':', ',', '"'], "_"),
            after: after
                .into_iter()
                .map(|node| warpyard_core::spec::AfterNode { node, on: Default::default() })
                .collect(),
            runs: task.work.unwrap_or(0.0),
            gpus: options.gpus_per_task,
            ..TraceTask::default()
        }
    });
    let job = TraceJob { id: "workflow".into(), tasks: tasks.collect(), ..TraceJob::default() };
    let mut reading = ParsedTrace::default();
    reading.jobs.push((Location::Line(1), job));
    reading.notes.push(format!(
        "every task asks for {} (--gpus-per-task) and runs as long as it did; data takes no time",
        show::counted(u64::from(options.gpus_per_task), "GPU")
    ));
    Ok(reading)
}

/// Each after all it waits for, otherwise as they stand; none if they wait in a circle.
fn in_order(waits: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
    for (task, waits) in waits.iter().enumerate() {
        waits.iter().for_each(|&from| next[from].push(task));
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..waits.len()).filter(|&task| left[task] == 0).collect();
    let mut order = Vec::new();
    while let Some(task) = ready.pop_first() {
        order.push(task);
        for &then in &next[task] {
            left[then] -= 1;
            if left[then] == 0 {
                ready.insert(then);
            }
        }
    }
    (order.len() == waits.len()).then_some(order)
}
