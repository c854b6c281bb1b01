//! *GPU Scheduling for Short Tasks in Private Cloud* (2019): three queue orders on two GPUs.

use super::{Row, Verdict};
use crate::workload::{Generator, cluster};
use crate::{Setup, Sim};
use warpyard_core::{Rejection, Span};
use warpyard_policies::POLICIES;

/// Mean response (start − submission) and finish (completion − submission) as published, in seconds.
const SHORT_TASKS: [(&str, f64, f64); 3] =
    [("fifo", 563.989, 771.633), ("sjf", 252.187, 459.394), ("short-first", 288.516, 496.586)];

/// Start-up overhead that the paper measured, in seconds: 0.939 of scheduling and 0.712 of process start.
const OVERHEAD: f64 = 0.939 + 0.712;

/// Tolerance on the ratio to FIFO.
const RATIO_TOLERANCE: f64 = 0.05;

/// *GPU Scheduling for Short Tasks in Private Cloud* (2019): 2 GPUs, 20 tasks, exponential gaps of mean 25 s, run time
/// 10^U(1, 3) s and timeout the same. A row agrees if the published value lies between the 5th and 95th percentile over the
/// seeds and its ratio to FIFO is within 0.05 of ours. The last row, the mean longest wait of short-first over that of SJF,
/// has no published figure. `progress` receives the number of runs done and their total.
pub fn short_tasks(seeds: u64, mut progress: impl FnMut(usize, usize)) -> Result<Vec<Row>, Rejection> {
    let mut table = Vec::new();
    let mut done = 0;
    for (policy, ..) in SHORT_TASKS {
        let runs = (0..seeds).map(|seed| {
            done += 1;
            progress(done - 1, SHORT_TASKS.len() * seeds as usize);
            run(policy, seed)
        });
        table.push(runs.collect::<Result<Vec<Run>, Rejection>>()?);
    }
    let mut rows = Vec::new();
    for ((name, response, finish), runs) in SHORT_TASKS.iter().zip(&table) {
        let columns: [(&str, f64, f64, Metric); 2] = [
            ("response", *response, SHORT_TASKS[0].1, |r| r.response),
            ("finish", *finish, SHORT_TASKS[0].2, |r| r.finish),
        ];
        for (what, published, published_fifo, pick) in columns {
            let (ours, low, high) = band(runs, pick);
            let (fifo, ..) = band(&table[0], pick);
            let off = (ours / fifo - published / published_fifo).abs();
            let verdict = if !(low..=high).contains(&published) {
                Verdict::Differs("outside our 5 to 95 % band".to_owned())
            } else if off > RATIO_TOLERANCE {
                Verdict::Differs(format!("the ratio to fifo is off by {off:.3}"))
            } else {
                Verdict::Agrees
            };
            let row = format!("{name} {what}");
            rows.push(Row { row, published: Some(published), reference: None, ours, low, high, verdict });
        }
    }
    let longest = |runs: &[Run]| band(runs, |r| r.longest).0;
    let ours = longest(&table[2]) / longest(&table[1]);
    let row = "short-first longest wait over sjf's".to_owned();
    rows.push(Row::unpublished(row, (ours, ours, ours)));
    Ok(rows)
}

/// Figure of a run.
type Metric = fn(&Run) -> f64;

/// Figures of one run, in seconds.
struct Run {
    response: f64,
    finish: f64,
    longest: f64,
}

fn run(policy: &str, seed: u64) -> Result<Run, Rejection> {
    let setup = Setup {
        workers: cluster("2xV100:16GiB").expect("a cluster of two"),
        policy: policy.parse()?,
        start_delay: Span::from_secs(OVERHEAD),
        forget: false,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup, POLICIES)?;
    sim.feed(Generator { jobs: 20, ..Generator::default() }.generate(seed).map(Into::into));
    sim.run();
    let records = sim.records();
    let mean = |values: &dyn Fn(&crate::Record) -> f64| {
        records.iter().map(values).sum::<f64>() / records.len() as f64
    };
    let response = |r: &crate::Record| r.started.map_or(f64::NAN, |at| at.since(r.submitted).secs());
    let finish = |r: &crate::Record| r.ended.map_or(f64::NAN, |at| at.since(r.submitted).secs());
    let longest = records.iter().map(response).fold(0.0, f64::max);
    Ok(Run { response: mean(&response), finish: mean(&finish), longest })
}

/// Mean, 5th and 95th percentile.
fn band(runs: &[Run], pick: Metric) -> (f64, f64, f64) {
    let mut values: Vec<f64> = runs.iter().map(pick).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent / 100).min(values.len() - 1)];
    (values.iter().sum::<f64>() / values.len() as f64, at(5), at(95))
}
