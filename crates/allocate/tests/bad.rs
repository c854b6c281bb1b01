//! Invalid instances are rejected with the job and the field named, before any solver sees them.

mod support;

use support::plain;
use warpyard_allocate::{GOALS, Instance, Options, PlacementModel, SolveError, goal};

fn refusal(change: impl Fn(&mut Instance)) -> String {
    let mut instance = plain(&[2, 4], &[&[1.0, 2.0], &[3.0, 1.0]]);
    change(&mut instance);
    let error = instance.validate().expect_err("refused");
    for goal in GOALS {
        let refused = goal.solve(&instance, Options::default()).expect_err("refused");
        assert!(matches!(refused, SolveError::Instance(_)), "{}: {refused}", goal.name);
    }
    error.to_string()
}

#[test]
fn invalid_numbers_are_named() {
    let nowhere = "job 1: throughputs: zero on every type it fits on";
    assert_eq!(refusal(|i| i.jobs[1].throughputs = vec![0.0, 0.0]), nowhere);
    assert_eq!(refusal(|i| (i.jobs[1].gpus, i.jobs[1].throughputs[1]) = (3, 0.0)), nowhere);
    let number = "is not a finite number of at least 0";
    assert_eq!(refusal(|i| i.jobs[0].throughputs[1] = -2.0), format!("job 0: throughputs: -2 {number}"));
    assert_eq!(refusal(|i| i.jobs[1].throughputs[0] = f64::NAN), format!("job 1: throughputs: NaN {number}"));
    assert_eq!(refusal(|i| i.jobs[1].steps = Some(-1.0)), format!("job 1: num_steps_remaining: -1 {number}"));
    assert_eq!(
        refusal(|i| i.jobs[0].age_s = f64::INFINITY),
        format!("job 0: time_since_start: inf {number}")
    );
    assert_eq!(refusal(|i| i.jobs[0].deadline_s = Some(-3.0)), format!("job 0: deadline_s: -3 {number}"));
    assert_eq!(
        refusal(|i| i.jobs[1].gpus = 5),
        "job 1: scale_factor: 5 GPUs is more than any type has (largest: 4 of type1)"
    );
    assert_eq!(
        refusal(|i| i.jobs[1].weight = 0.0),
        "job 1: priority_weight: 0 is not a finite number above 0"
    );
    assert_eq!(refusal(|i| i.jobs[1].id = 0), "job 0: id: used twice");
    assert_eq!(refusal(|i| i.types[1].name = "type0".into()), "worker_types: type0 is there twice");
    assert_eq!(
        refusal(|i| i.types.iter_mut().for_each(|t| t.count = 0)),
        "num_workers: there is no GPU of any type"
    );
}

/// Solvers multiply and divide these by one another: what comes of it must stay a number.
#[test]
fn out_of_range_numbers_are_named() {
    let reach = "is out of range; use 0 or a number between 1e-30 and 1e30";
    assert_eq!(refusal(|i| i.jobs[0].throughputs[1] = 1e308), format!("job 0: throughputs: 1e308 {reach}"));
    assert_eq!(refusal(|i| i.jobs[1].weight = 1e-300), format!("job 1: priority_weight: 1e-300 {reach}"));
    assert_eq!(
        refusal(|i| i.jobs[1].steps = Some(1e31)),
        format!("job 1: num_steps_remaining: 1e31 {reach}")
    );
    // What is just within reach comes to numbers, whatever is asked.
    let extreme = [1e-30, 1.0, 1e30];
    for fast in extreme {
        for slow in extreme {
            let mut instance = plain(&[2, 4], &[&[fast, slow], &[slow, fast], &[1.0, 0.0]]);
            instance.types.iter_mut().for_each(|t| t.cost_per_hour = Some(fast));
            for job in &mut instance.jobs {
                (job.steps, job.weight, job.age_s) = (Some(slow), fast, slow);
            }
            for goal in GOALS.iter().filter(|goal| goal.name != "hierarchical") {
                if let Ok(answer) = goal.solve(&instance, Options::default()) {
                    let all = answer.prices.iter().chain(&answer.normalised).chain([&answer.objective]);
                    assert!(all.into_iter().all(|x| x.is_finite()), "{}: {answer:?}", goal.name);
                }
            }
        }
    }
}

#[test]
fn invalid_measurements_are_named() {
    let table = |alone: &str| {
        let text = format!(r#"{{"type0": {{"('a', 2)": {{"null": {alone}}}}}}}"#);
        serde_json::from_str(&text).expect("a table")
    };
    assert_eq!(
        refusal(|i| i.pairs = Some(table("-1.5"))),
        "pair_throughputs: -1.5 for ('a', 2) alone on type0 is not a finite number of at least 0"
    );
    assert_eq!(
        refusal(|i| i.pairs = Some(table("1e40"))),
        "pair_throughputs: ('a', 2) alone on type0: 1e40 is out of range; use 0 or a number between 1e-30 and 1e30"
    );
}

#[test]
fn unknown_fields_are_refused() {
    let text = r#"{"worker_types": ["k80"], "num_workers": [1], "jobs": [{"id": 0, "throughputs": [1.0], "colour": 3}]}"#;
    let error = serde_json::from_str::<Instance>(text).expect_err("refused").to_string();
    assert!(error.contains("unknown field `colour`"), "{error}");
    let text = r#"{"worker_types": ["k80"], "num_workers": [1, 2], "jobs": []}"#;
    let error = serde_json::from_str::<Instance>(text).expect_err("refused").to_string();
    assert!(error.contains("num_workers: 2 entries for 1 worker types"), "{error}");
    let error = serde_json::from_str::<Instance>("null").expect_err("refused").to_string();
    assert!(error.contains("expected an instance: an object with worker_types"), "{error}");
}

#[test]
fn missing_fields_are_named() {
    let instance = plain(&[1], &[&[1.0]]);
    let error =
        |name: &str| goal(name).expect("a goal").solve(&instance, Options::default()).expect_err("refused");
    assert_eq!(error("makespan").to_string(), "job 0: num_steps_remaining: missing, and makespan needs it");
    assert_eq!(error("cost").to_string(), "cost_per_hour: missing, and cost needs it");
    assert_eq!(error("hierarchical").to_string(), "entities: missing, and hierarchical needs it");
}

#[test]
fn more_kinds_of_jobs_than_are_solved_in_time_are_refused() {
    let rows: Vec<[f64; 1]> = (0..201).map(|m| [1.0 + f64::from(m)]).collect();
    let mut instance = plain(&[1], &rows.iter().map(|row| &row[..]).collect::<Vec<_>>());
    instance.pairs = Some(Default::default());
    let solve = |instance: &Instance, sharing: bool| {
        goal("strategy-proof").expect("a goal").solve(instance, Options { sharing, ..Options::default() })
    };
    assert_eq!(
        solve(&instance, true).expect_err("refused").to_string(),
        "strategy-proof with sharing takes 200 kinds of jobs at most, and there are 201; leave sharing out, or follow \
         another goal"
    );
    solve(&instance, false).expect("it may be left out");
    instance.jobs.iter_mut().for_each(|job| job.throughputs[0] = 1.0);
    solve(&instance, true).expect("however many jobs of few kinds");
}

#[test]
fn an_instance_without_jobs_is_solved() {
    let mut instance = plain(&[2, 4], &[]);
    instance.types.iter_mut().for_each(|t| t.cost_per_hour = Some(1.0));
    instance.entities = Some(Default::default());
    for goal in GOALS {
        let answer =
            goal.solve(&instance, Options::default()).unwrap_or_else(|e| panic!("{}: {e}", goal.name));
        assert_eq!(answer.normalised, Vec::<f64>::new());
        assert!(answer.objective.is_finite(), "{}: {}", goal.name, answer.objective);
        warpyard_allocate::check(&instance, goal, Options::default(), &answer).expect(goal.name);
    }
}

#[test]
fn unmeetable_deadlines_are_named_and_the_others_met() {
    let mut instance = plain(&[1, 1], &[&[1.0, 2.0], &[3.0, 1.0], &[1.0, 1.0]]);
    instance.types.iter_mut().for_each(|t| t.cost_per_hour = Some(1.0));
    for (job, left) in instance.jobs.iter_mut().zip([100.0, 100.0, 1e6]) {
        (job.steps, job.deadline_s) = (Some(500.0), Some(left));
    }
    let answer = goal("cost").expect("a goal").solve(&instance, Options::default()).expect("an answer");
    let missed: Vec<usize> = answer.shortfalls.iter().map(|s| s.job).collect();
    assert_eq!(missed, [0, 1, 2]);
    // Of the 10.0005 steps a second they need the two GPUs can do five, and those are never the third job's.
    let total: f64 = answer.shortfalls.iter().map(|s| s.needed - s.achieved).sum();
    assert!((total - 5.0005).abs() < 1e-6, "{total}");
}

#[test]
fn a_job_wider_than_a_machine_runs_at_its_speed_when_spread() {
    let text = |spread: &str| {
        format!(
            r#"{{"worker_types": ["slow", "fast"], "num_workers": [4, 4], "gpus_per_server": [4, 1],
                "jobs": [{{"id": 0, "scale_factor": 2, "throughputs": [4, 10], "unconsolidated_throughputs": {spread}}}]}}"#
        )
    };
    let solve = |spread: &str, placement_model: PlacementModel| {
        let instance: Instance = serde_json::from_str(&text(spread)).expect("an instance");
        let (goal, options) =
            (goal("throughput").expect("a goal"), Options { placement_model, ..Options::default() });
        let answer = goal.solve(&instance, options).map_err(|error| error.to_string())?;
        warpyard_allocate::check(&instance, goal, options, &answer).expect("it stands up to checking");
        Ok::<f64, String>(answer.objective)
    };
    assert_eq!(solve("[3, 2]", PlacementModel::Ignored), Ok(10.0));
    assert_eq!(solve("[3, 2]", PlacementModel::Modelled), Ok(4.0), "on the slow machine, which holds both");
    let refused = |spread: &str| solve(spread, PlacementModel::Modelled).expect_err("it makes no sense");
    assert_eq!(refused("[3]"), "job 0: throughputs: 1 entries for 2 worker types");
    assert!(refused("[3, -1]").starts_with("job 0: unconsolidated_throughputs: -1"));
}
