//! `allocate`: shares of GPU time by a goal.

use super::*;

/// The worked example: one GPU of each of two types, three jobs.
const SLIDE: &str = r#"{"worker_types": ["v100", "k80"], "num_workers": [1, 1], "jobs": [
    {"id": 0, "throughputs": [40, 10]}, {"id": 1, "throughputs": [12, 4]}, {"id": 2, "throughputs": [100, 50]}]}"#;

#[test]
fn an_allocation_has_the_shape_scripts_rely_on() {
    let (_dir, [file]) = files([("slide.json", SLIDE)]);
    let found = ask(&["allocate", "--instance", &file, "--policy", "max-min", "--json"]).json();
    let mut wanted = ["policy", "objective", "allocation", "normalised", "prices", "seconds"];
    wanted.sort_unstable();
    assert_eq!(keys(&found), wanted);
    let shares: Vec<Vec<f64>> = serde_json::from_value(found["allocation"].clone()).unwrap();
    for (row, near) in shares.iter().zip([[0.45, 0.0], [0.45, 0.09], [0.09, 0.91]]) {
        assert!(row.iter().zip(near).all(|(x, y)| (x - y).abs() < 0.01), "{shares:?}");
    }
    let objective = found["objective"].as_f64().unwrap();
    let normalised: Vec<f64> = serde_json::from_value(found["normalised"].clone()).unwrap();
    let least = normalised.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((objective - least).abs() < 1e-9, "{objective} {normalised:?}");
}

#[test]
fn every_goal_stands_up_to_checking_and_says_so() {
    let (_dir, [file]) = files([("full.json", &full())]);
    for goal in warpyard_allocate::GOALS {
        let args = ["allocate", "--instance", &file, "--policy", goal.name, "--check"];
        let check = ask(&[&args[..], &["--json"]].concat()).json()["check"].clone();
        assert_eq!(check["feasible"], true, "{}: {check}", goal.name);
        let said = ask(&args).out;
        assert!(said.starts_with(goal.name) && said.contains("the shares fit"), "{said}");
    }
    let said = ask(&["allocate", "--instance", &file, "--policy", "max-min", "--types", "blind"]).out;
    assert!(said.contains("would raise everyone by up to"), "{said}");
}

/// An instance with all that any goal needs.
fn full() -> String {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    instance["cost_per_hour"] = json!([3.0, 0.5]);
    for job in instance["jobs"].as_array_mut().unwrap() {
        job["num_steps_remaining"] = json!(1000);
        job["deadline_s"] = json!(10_000.0);
    }
    instance["entities"] = json!({"weights": {"a": 1.0, "b": 2.0}, "policies": {"a": "fairness", "b": "fifo"},
        "jobs": {"a": [0, 1], "b": [2]}});
    instance.to_string()
}

#[test]
fn shared_gpus_come_in_pairs() {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    for (job, name) in instance["jobs"].as_array_mut().unwrap().iter_mut().zip(["a", "b", "c"]) {
        job["job_type"] = json!(name);
    }
    instance["pair_throughputs"] = json!({"v100": {"('a', 1)": {"('b', 1)": [39.0, 11.0]}}, "k80": {}});
    let (_dir, [file]) = files([("pairs.json", &instance.to_string())]);
    let args = ["allocate", "--instance", &file, "--policy", "max-min", "--sharing", "--check", "--json"];
    let found = ask(&args).json();
    assert_eq!(found["pairs"][0]["jobs"], json!([0, 1]));
    assert_eq!(found["pairs"][0]["shares"].as_array().map(Vec::len), Some(2));
    ask(&["allocate", "--instance", &file, "--policy", "cost"]).refused(&["cost_per_hour", "missing"]);
}

#[test]
fn bad_instances_are_named_and_exit_with_2() {
    let wrong = SLIDE.replace("[12, 4]", "[0, 0]");
    let unknown = SLIDE.replace("num_workers", "num_wokers");
    let nan = SLIDE.replace("[12, 4]", "[12, NaN]");
    let (_dir, [slide, zero, unknown, nan]) =
        files([("slide.json", SLIDE), ("zero.json", &wrong), ("unknown.json", &unknown), ("nan.json", &nan)]);
    let ask = |file, goal| ask(&["allocate", "--instance", file, "--policy", goal]);
    ask(&zero, "max-min").refused(&["zero.json", "job 1: throughputs"]);
    ask(&unknown, "max-min").refused(&["unknown.json", "num_wokers", "line 1"]);
    ask(&nan, "max-min").refused(&["nan.json", "jobs[1].throughputs[1] is NaN"]);
    ask(&slide, "makespan").refused(&["job 0", "num_steps_remaining", "makespan needs it"]);
    ask(&slide, "max-mni").refused(&["did you mean 'max-min'?", "strategy-proof"]);
}

#[test]
fn a_published_instance_gives_the_published_optimum() {
    let Some(instance) = shared("gavel/oracles/instance_n32.json") else { return };
    let file = instance.to_str().unwrap();
    let found = ask(&["allocate", "--instance", file, "--policy", "max-min", "--check", "--json"]).json();
    assert_eq!(found["allocation"].as_array().map(Vec::len), Some(32));
    assert!(found["check"]["gap"].as_f64().unwrap() < 1e-6, "{}", found["check"]);
    let Some(oracle) = shared("gavel/oracles/max_min_fairness_perf.n32.json") else { return };
    let oracle: serde_json::Value = serde_json::from_slice(&std::fs::read(oracle).unwrap()).unwrap();
    let published = oracle["reference"]["objective"].as_f64().unwrap();
    let ours = found["objective"].as_f64().unwrap();
    assert!((ours - published).abs() <= 1e-6 * published, "{ours} against {published}");
}
