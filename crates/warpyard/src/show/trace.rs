//! `trace stats`: what a trace is like.

use super::{Screen, counted, figure, format_span_secs};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use warpyard_sim::report::Distribution;
use warpyard_sim::workload::{TraceJob, TraceTask};

/// The figures of a trace, times in seconds.
#[derive(Serialize)]
pub(crate) struct Stats {
    jobs: usize,
    /// More than jobs where some are of several tasks.
    tasks: usize,
    /// Dependencies between tasks.
    edges: usize,
    users: usize,
    /// From the first submission to the last.
    span_s: f64,
    mean_gap_s: f64,
    average_run_s: f64,
    p50_run_s: f64,
    p95_run_s: f64,
    p99_run_s: f64,
    max_run_s: f64,
    gpu_hours: f64,
    /// GPUs that would be busy all the time while jobs come, each task having its GPUs to itself; none where all come at
    /// once.
    offered_gpus: Option<f64>,
    without_timeout: usize,
    /// Tasks that run longer than they promise.
    over_timeout: usize,
    /// Tasks that share GPUs.
    sharing: usize,
    /// How many tasks ask for each number of GPUs.
    gpus: BTreeMap<u16, usize>,
}

impl Stats {
    pub(crate) fn of(jobs: &[TraceJob]) -> Self {
        let tasks = || jobs.iter().flat_map(|job| &job.tasks);
        let runs = Distribution::of(tasks().map(|task| task.runs).collect());
        let first = jobs.iter().map(|job| job.submitted).fold(f64::INFINITY, f64::min);
        let last = jobs.iter().map(|job| job.submitted).fold(f64::NEG_INFINITY, f64::max);
        let span = (last - first).max(0.0);
        let gpu_seconds: f64 = jobs.iter().map(TraceJob::gpu_seconds).sum();
        let mut gpus = BTreeMap::new();
        tasks().for_each(|task| *gpus.entry(task.gpus).or_default() += 1);
        let count = |is: fn(&TraceTask) -> bool| tasks().filter(|task| is(task)).count();
        Self {
            jobs: jobs.len(),
            tasks: tasks().count(),
            edges: tasks().map(|task| task.after.len()).sum(),
            users: jobs.iter().map(|job| job.user.as_str()).collect::<BTreeSet<_>>().len(),
            span_s: span,
            mean_gap_s: span / jobs.len().saturating_sub(1).max(1) as f64,
            average_run_s: runs.average,
            p50_run_s: runs.p50,
            p95_run_s: runs.p95,
            p99_run_s: runs.p99,
            max_run_s: runs.max,
            gpu_hours: gpu_seconds / 3600.0,
            offered_gpus: (span > 0.0).then(|| gpu_seconds / span),
            without_timeout: count(|task| task.timeout.is_none()),
            over_timeout: count(|task| task.timeout.is_some_and(|timeout| task.runs > timeout)),
            sharing: count(|task| task.gpus > 0 && task.gpu_memory.is_some()),
            gpus,
        }
    }
}

/// The same in words.
pub(crate) fn text(stats: &Stats, _: &Screen) -> String {
    let mut gpus: Vec<String> = stats.gpus.iter().map(|(gpus, tasks)| format!("{tasks} of {gpus}")).collect();
    if stats.sharing > 0 {
        gpus.push(format!("{} of them share", stats.sharing));
    }
    let seconds = |seconds: f64| format!("{} s", figure(seconds));
    let offered = stats.offered_gpus.map(|gpus| format!(", enough for {gpus:.1} GPUs while jobs come"));
    let offered = offered.unwrap_or_default();
    let lines = [
        (
            "submitted",
            format!("over {}, one every {}", format_span_secs(stats.span_s), seconds(stats.mean_gap_s)),
        ),
        (
            "run time",
            format!("mean {}, half up to {}", seconds(stats.average_run_s), seconds(stats.p50_run_s)),
        ),
        ("", format!("95 % up to {}, longest {}", seconds(stats.p95_run_s), seconds(stats.max_run_s))),
        ("gpus", gpus.join(", ")),
        ("gpu hours", format!("{}{offered}", figure(stats.gpu_hours))),
        (
            "timeouts",
            format!("{} without, {} shorter than the run", stats.without_timeout, stats.over_timeout),
        ),
    ];
    let (jobs, users) = (counted(stats.jobs as u64, "job"), counted(stats.users as u64, "user"));
    let graphs = match stats.tasks > stats.jobs || stats.edges > 0 {
        true => format!(
            ", {} with {}",
            counted(stats.tasks as u64, "task"),
            counted(stats.edges as u64, "dependency")
        ),
        false => String::new(),
    };
    let mut out = format!("{jobs} of {users}{}\n", graphs.replace("dependencys", "dependencies"));
    for (label, value) in lines {
        writeln!(out, "  {label:<9}  {value}").expect("a string takes all");
    }
    out
}
