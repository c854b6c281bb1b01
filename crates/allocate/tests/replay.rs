//! The published runs, replayed from their recorded allocations: every job's completion time to the last bit.

mod support;

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use warpyard_allocate::rounds::gavel::{Recording, Settings, replay};

fn recorded(name: &str) -> Option<Value> {
    let file = std::fs::File::open(support::data(&format!("traces/{name}.json.gz"))?).expect("readable");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    Some(serde_json::from_str(&text).expect("valid JSON"))
}

fn reproduces(name: &str) {
    let Some(run) = recorded(name) else { return };
    let (names, counts) = support::cluster(&run);
    let trace = support::trace(&run, &names);
    let allocation = |entry: &Value| -> BTreeMap<usize, Vec<f64>> {
        let jobs = entry[1].as_object().expect("jobs");
        jobs.iter().map(|(job, shares)| (job.parse().expect("a job"), support::numbers(shares))).collect()
    };
    let place = |t: &Value| names.iter().position(|name| Some(name.as_str()) == t.as_str()).expect("a type");
    let recording = Recording {
        allocations: run["allocations"].as_array().expect("allocations").iter().map(allocation).collect(),
        type_orders: run["worker_type_order_per_round"]
            .as_array()
            .expect("orders")
            .iter()
            .map(|order| order.as_array().expect("types").iter().map(place).collect())
            .collect(),
    };
    let fill = !run["policy"].as_str().expect("a policy").starts_with("fifo");
    let done = replay(&trace, &counts, &recording, Settings { fill, ..Settings::default() })
        .expect("a whole replay");
    let published = run["per_job_jct_s"].as_object().expect("completion times");
    assert_eq!(done.iter().flatten().count(), published.len(), "{name}");
    for (job, seconds) in published {
        let ours = done[job.parse::<usize>().expect("a job")];
        assert_eq!(ours, seconds.as_f64(), "{name}: job {job}");
    }
}

#[test]
fn max_min_runs_are_reproduced() {
    reproduces("gen150_single.max_min_fairness");
    reproduces("gen150_single.max_min_fairness_perf");
}

#[test]
fn a_run_with_wide_jobs_is_reproduced() {
    reproduces("max_min_fairness.max_min_fairness_perf");
}

#[test]
fn finish_time_and_makespan_runs_are_reproduced() {
    reproduces("gen150_single.finish_time_fairness_perf");
    reproduces("gen150_single.min_total_duration_perf");
}

#[test]
fn a_first_in_first_out_run_is_reproduced() {
    reproduces("gen150_single.fifo_perf");
}
