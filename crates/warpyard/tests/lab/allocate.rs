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
    let asked =
        warpyard_allocate::GOALS.iter().flat_map(|goal| [(goal, &[][..]), (goal, &["--sharing"][..])]);
    for (goal, sharing) in asked {
        let args = [&["allocate", "--instance", &file, "--policy", goal.name, "--check"], sharing].concat();
        let check = ask(&[&args[..], &["--json"]].concat()).json()["check"].clone();
        assert_eq!(check["feasible"], true, "{}: {check}", goal.name);
        let said = ask(&args).out;
        assert!(said.starts_with(goal.name) && said.contains("the shares fit"), "{said}");
    }
    let said = ask(&["allocate", "--instance", &file, "--policy", "max-min", "--types", "blind"]).out;
    assert!(said.contains("would raise everyone by up to"), "{said}");
}

#[test]
fn a_goal_is_told_what_it_may_know_as_policies_are() {
    let (_dir, [file]) = files([("full.json", &full())]);
    let ask = |goal: &str, more: &[&str]| {
        ask(&[&["allocate", "--instance", &file, "--policy", goal, "--json"], more].concat())
    };
    let shares = |goal: &str, more: &[&str]| ask(goal, more).json()["allocation"].clone();
    assert_eq!(shares("max-min:types=blind", &[]), shares("max-min", &["--types", "blind"]));
    assert_ne!(shares("max-min:types=blind", &[]), shares("max-min", &[]));
    assert_eq!(
        ask("max-min:sharing=true", &[]).json()["pairs"],
        ask("max-min", &["--sharing"]).json()["pairs"]
    );
    assert_eq!(
        shares("max-min:types=blind", &["--types", "blind"]),
        shares("max-min", &["--types", "blind"]),
        "twice the same is no contradiction"
    );
    ask("max-min:types=aware", &["--types", "blind"]).refused(&["--types says blind", "types=aware"]);
    ask("max-min:types=blind", &["--types", "aware"]).refused(&["--types says aware", "types=blind"]);
    ask("max-min:sharing=false", &["--sharing"]).refused(&["--sharing says true", "sharing=false"]);
    ask("max-min:placement=modelled", &["--placement", "ignored"]).refused(&["--placement says ignored"]);
    ask("max-min:types=bling", &[]).refused(&["types", "aware", "blind"]);
    ask("max-min:round=60", &[]).refused(&["'round'", "types, sharing and placement"]);
}

/// An instance with all that any goal needs.
fn full() -> String {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    instance["cost_per_hour"] = json!([3.0, 0.5]);
    for job in instance["jobs"].as_array_mut().unwrap() {
        job["num_steps_remaining"] = json!(1000);
        job["deadline_s"] = json!(10_000.0);
    }
    instance["pair_throughputs"] = json!({"v100": {}, "k80": {}});
    instance["entities"] = json!({"weights": {"a": 1.0, "b": 2.0}, "policies": {"a": "fairness", "b": "fifo"},
        "jobs": {"a": [0, 1], "b": [2]}});
    instance.to_string()
}

#[test]
fn shared_gpus_come_in_pairs() {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    for (job, (name, id)) in
        instance["jobs"].as_array_mut().unwrap().iter_mut().zip([("a", 70), ("b", 30), ("c", 5)])
    {
        (job["job_type"], job["id"]) = (json!(name), json!(id));
    }
    instance["pair_throughputs"] = json!({"v100": {"('a', 1)": {"('b', 1)": [39.0, 11.0]}}, "k80": {}});
    let (_dir, [file]) = files([("pairs.json", &instance.to_string())]);
    let args = ["allocate", "--instance", &file, "--policy", "max-min", "--sharing", "--check", "--json"];
    let found = ask(&args).json();
    // By their ids, as in words.
    assert_eq!(found["pairs"][0]["jobs"], json!([70, 30]));
    assert_eq!(found["pairs"][0]["shares"].as_array().map(Vec::len), Some(2));
    let said = ask(&args[..args.len() - 1]).out;
    assert!(said.contains("jobs 70 and 30 together"), "{said}");
    ask(&["allocate", "--instance", &file, "--policy", "cost"]).refused(&["cost_per_hour", "missing"]);
}

/// Where it is queues and products, too, jobs share and the check sees them do so.
#[test]
fn other_goals_have_pairs_that_stand_up_to_checking() {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    for (job, name) in instance["jobs"].as_array_mut().unwrap().iter_mut().zip(["a", "b", "c"]) {
        (job["job_type"], job["num_steps_remaining"]) = (json!(name), json!(1000));
    }
    let beside = json!({"('b', 1)": [39.0, 11.5], "('c', 1)": [39.0, 98.0]});
    instance["pair_throughputs"] = json!({"v100": {"('a', 1)": beside}, "k80": {}});
    let (_dir, [file]) = files([("pairs.json", &instance.to_string())]);
    for (goal, optimal) in [("strategy-proof", true), ("allox", false)] {
        let args = ["allocate", "--instance", &file, "--policy", goal, "--sharing", "--check", "--json"];
        let found = ask(&args).json();
        let shares = found["pairs"][0]["shares"].as_array().unwrap_or_else(|| panic!("{goal}: {found}"));
        assert!(shares.iter().any(|share| share.as_f64() > Some(0.1)), "{goal}: {found}");
        let check = &found["check"];
        assert_eq!((&check["feasible"], &check["optimal"]), (&json!(true), &json!(optimal)), "{goal}");
    }
}

#[test]
fn a_deadline_that_is_missed_is_named_by_its_job() {
    let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
    instance["cost_per_hour"] = json!([3.0, 0.5]);
    let job = &mut instance["jobs"][1];
    (job["id"], job["num_steps_remaining"], job["deadline_s"]) = (json!(70), json!(1000), json!(10.0));
    let (_dir, [file]) = files([("late.json", &instance.to_string())]);
    let found = ask(&["allocate", "--instance", &file, "--policy", "cost", "--json"]).json();
    let missed = found["shortfalls"].as_array().expect("shortfalls");
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert_eq!(keys(&missed[0]), ["gets", "job", "needs"]);
    assert_eq!((&missed[0]["job"], &missed[0]["needs"]), (&json!(70), &json!(100.0)));
}

#[test]
fn bad_instances_are_named_and_exit_with_2() {
    let wrong = SLIDE.replace("[12, 4]", "[0, 0]");
    let unknown = SLIDE.replace("num_workers", "num_wokers");
    let nan = SLIDE.replace("[12, 4]", "[12, NaN]");
    let text = SLIDE.replace("[12, 4]", "[12, \"4\"]");
    let twice = SLIDE.replace("k80", "v100");
    let (_dir, [slide, zero, unknown, nan, text, twice]) = files([
        ("slide.json", SLIDE),
        ("zero.json", &wrong),
        ("unknown.json", &unknown),
        ("nan.json", &nan),
        ("text.json", &text),
        ("twice.json", &twice),
    ]);
    let ask = |file, goal| ask(&["allocate", "--instance", file, "--policy", goal]);
    ask(&zero, "max-min").refused(&["zero.json", "job 1: throughputs"]);
    ask(&unknown, "max-min").refused(&["unknown.json", "num_wokers", "line 1"]);
    ask(&nan, "max-min").refused(&["nan.json", "jobs[1].throughputs[1] is NaN"]);
    ask(&text, "max-min").refused(&["text.json", "jobs[1].throughputs[1]: invalid type: string"]);
    ask(&twice, "max-min").refused(&["twice.json", "worker_types: v100 is there twice"]);
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
