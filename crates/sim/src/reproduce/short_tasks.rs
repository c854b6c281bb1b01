//! Short tasks in a private cloud: three orders on two GPUs.

use super::Row;
use crate::workload::{Generator, cluster};
use crate::{Setup, Sim};
use warpyard_core::{Rejection, Span};
use warpyard_policies::POLICIES;

/// Mean response (start − submission) and finish (completion − submission) as published, in seconds.
const SHORT_TASKS: [(&str, f64, f64); 3] =
    [("fifo", 563.989, 771.633), ("sjf", 252.187, 459.394), ("short-first", 288.516, 496.586)];

/// What the paper measured between choosing a task and its first step: 0.939 s of scheduling and 0.712 s of starting.
const OVERHEAD: f64 = 0.939 + 0.712;

/// How far a ratio to FIFO may be from the published one.
const RATIO: f64 = 0.05;

/// *GPU Scheduling for Short Tasks in Private Cloud* (2019): 2 GPUs, 20 tasks, exponential gaps of mean 25 s, run time
/// 10^U(1, 3) s and timeout the same. A row holds if the published value lies in our band from 5 to 95 % over the seeds
/// and its ratio to FIFO within 0.05 of ours. The last row is the mean longest wait of short-first over that of SJF, which
/// must be below 1; no figure was published for it. `told` hears how many of how many runs are done.
pub fn short_tasks(seeds: u64, mut told: impl FnMut(usize, usize)) -> Result<Vec<Row>, Rejection> {
    let mut table = Vec::new();
    let mut done = 0;
    for (policy, ..) in SHORT_TASKS {
        let runs = (0..seeds).map(|seed| {
            done += 1;
            told(done - 1, SHORT_TASKS.len() * seeds as usize);
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
                "outside our band".to_owned()
            } else if off > RATIO {
                format!("ratio to fifo off by {off:.3}")
            } else {
                "holds".to_owned()
            };
            let row = format!("{name} {what}");
            rows.push(Row { row, published: Some(published), ours, low, high, verdict });
        }
    }
    let longest = |runs: &[Run]| band(runs, |r| r.longest).0;
    let ours = longest(&table[2]) / longest(&table[1]);
    let verdict = if ours < 1.0 { "holds" } else { "not below sjf's" }.to_owned();
    let row = "short-first longest wait over sjf's".to_owned();
    rows.push(Row { row, published: None, ours, low: 0.0, high: 1.0, verdict });
    Ok(rows)
}

type Metric = fn(&Run) -> f64;

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

/// The mean and the band from 5 to 95 %.
fn band(runs: &[Run], pick: Metric) -> (f64, f64, f64) {
    let mut values: Vec<f64> = runs.iter().map(pick).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent / 100).min(values.len() - 1)];
    (values.iter().sum::<f64>() / values.len() as f64, at(5), at(95))
}
