//! `trace stats`: what a trace is like.

use super::{Screen, counted, figure, span_secs};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use warpyard_sim::report::Spread;
use warpyard_sim::workload::TraceJob;

/// The figures of a trace, times in seconds.
#[derive(Serialize)]
pub(crate) struct Stats {
    jobs: usize,
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
    without_timeout: usize,
    /// Jobs that run longer than they promise.
    over_timeout: usize,
    /// How many jobs ask for each number of GPUs.
    gpus: BTreeMap<u16, usize>,
}

impl Stats {
    pub(crate) fn of(jobs: &[(usize, TraceJob)]) -> Self {
        let jobs = || jobs.iter().map(|(_, job)| job);
        let runs = Spread::of(jobs().map(|job| job.runs).collect());
        let count = jobs().count();
        let first = jobs().map(|job| job.submitted).fold(f64::INFINITY, f64::min);
        let last = jobs().map(|job| job.submitted).fold(f64::NEG_INFINITY, f64::max);
        let span = (last - first).max(0.0);
        let mut gpus = BTreeMap::new();
        jobs().for_each(|job| *gpus.entry(job.gpus).or_default() += 1);
        Self {
            jobs: count,
            users: jobs().map(|job| job.user.as_str()).collect::<BTreeSet<_>>().len(),
            span_s: span,
            mean_gap_s: span / count.saturating_sub(1).max(1) as f64,
            average_run_s: runs.average,
            p50_run_s: runs.p50,
            p95_run_s: runs.p95,
            p99_run_s: runs.p99,
            max_run_s: runs.max,
            gpu_hours: jobs().map(|job| job.runs * f64::from(job.gpus)).sum::<f64>() / 3600.0,
            without_timeout: jobs().filter(|job| job.timeout.is_none()).count(),
            over_timeout: jobs().filter(|job| job.timeout.is_some_and(|timeout| job.runs > timeout)).count(),
            gpus,
        }
    }
}

/// The same in words.
pub(crate) fn text(stats: &Stats, _: &Screen) -> String {
    let gpus: Vec<String> = stats.gpus.iter().map(|(gpus, jobs)| format!("{jobs} of {gpus}")).collect();
    let seconds = |seconds: f64| format!("{} s", figure(seconds));
    let lines = [
        ("submitted", format!("over {}, one every {}", span_secs(stats.span_s), seconds(stats.mean_gap_s))),
        (
            "run time",
            format!("mean {}, half up to {}", seconds(stats.average_run_s), seconds(stats.p50_run_s)),
        ),
        ("", format!("95 % up to {}, longest {}", seconds(stats.p95_run_s), seconds(stats.max_run_s))),
        ("gpus", gpus.join(", ")),
        ("gpu hours", figure(stats.gpu_hours)),
        (
            "timeouts",
            format!("{} without, {} shorter than the run", stats.without_timeout, stats.over_timeout),
        ),
    ];
    let (jobs, users) = (counted(stats.jobs as u64, "job"), counted(stats.users as u64, "user"));
    let mut out = format!("{jobs} of {users}\n");
    for (label, value) in lines {
        writeln!(out, "  {label:<9}  {value}").expect("a string takes all");
    }
    out
}
