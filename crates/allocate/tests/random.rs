//! Random instances: every solution is feasible and proved optimal by its own prices, and no usable capacity is left
//! idle. `exact` compares the objectives with independent solvers.

#[path = "support/odd.rs"]
mod odd;
mod support;

use odd::{odd, with_pairs};
use warpyard_allocate::{
    CheckError, Entities, EntityPolicy, GOALS, Instance, Options, Sense, Solution, ThroughputTable,
    TypeAwareness, check, goal,
};

#[test]
fn every_goal_is_feasible_and_proved_on_odd_instances() {
    let mut wrong = Vec::new();
    // In 1999 a type ran out within the slack of those stopped before; in 5118 a job stood a rounding past a kink; in
    // 6159 and 13810 hardly anything was left to the last stage; in 19349 a stage ended within rounding of the next; in
    // 21632, 31491, 81515 and 83093 answers to prices were so alike that their mix was not what it was taken for; in 86306
    // and 187696 a part of the mix was below zero.
    for seed in (0..150).chain([1999, 5118, 6159, 13810, 19349, 21632, 31491, 81515, 83093, 86306, 187_696]) {
        let instance = odd(seed);
        for goal in GOALS {
            let options = Options::default();
            let solved = goal.solve(&instance, options).map_err(|error| error.to_string());
            let checked = solved.and_then(|answer| {
                assert!(answer.allocation.flat().iter().chain(&answer.normalised).all(|x| x.is_finite()));
                check(&instance, goal, options, &answer).map_err(|error| error.to_string())
            });
            wrong.extend(checked.err().map(|error| format!("seed {seed}, {}: {error}", goal.name)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn type_blind_goals_are_proved_too() {
    let blind = Options { types: TypeAwareness::Blind, ..Options::default() };
    let names = ["max-min", "max-min-fill", "hierarchical", "finish-time", "makespan", "throughput", "cost"];
    for seed in 2000..2060 {
        let instance = odd(seed);
        for goal in names.map(|name| goal(name).expect("a goal")) {
            let answer =
                goal.solve(&instance, blind).unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            check(&instance, goal, blind, &answer)
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
        }
    }
}

#[test]
fn sharing_is_feasible_proved_and_never_worse() {
    let sharing = Options { sharing: true, ..Options::default() };
    for seed in 3000..3060 {
        let mut instance = with_pairs(odd(seed), seed);
        if seed % 2 == 0 {
            instance.jobs.iter_mut().for_each(|job| job.deadline_s = None);
        }
        for goal in [
            "max-min",
            "max-min-fill",
            "hierarchical",
            "finish-time",
            "makespan",
            "throughput",
            "cost",
            "strategy-proof",
        ]
        .map(|name| goal(name).expect("a goal"))
        {
            let answer =
                goal.solve(&instance, sharing).unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            check(&instance, goal, sharing, &answer)
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            assert_ne!(answer.certificate, warpyard_allocate::Certificate::Rule, "{}", goal.name);
            let alone = goal.solve(&instance, Options::default()).expect("an answer").objective;
            // With deadlines, more of them kept may leave less value.
            let deadlines = goal.name == "cost" && instance.jobs.iter().any(|job| job.deadline_s.is_some());
            // Nor is an organisation's total what its filling is about.
            let better = deadlines
                || goal.name == "hierarchical"
                || match goal.sense {
                    Sense::Max => answer.objective >= alone - 1e-6 * alone.abs(),
                    Sense::Min => answer.objective <= alone + 1e-6 * alone.abs(),
                };
            assert!(better, "seed {seed}, {}: {} sharing, {alone} alone", goal.name, answer.objective);
        }
    }
}

#[test]
fn isolated_shares_ignore_sharing() {
    let isolated = goal("isolated").expect("a goal");
    let instance = with_pairs(odd(3), 3);
    let solve = |sharing| isolated.solve(&instance, Options { sharing, ..Options::default() });
    assert_eq!(solve(true), solve(false));
}

/// Two that share do most of their work on the fast type and hardly any on the slow one; on the mean GPU they lose.
#[test]
fn type_blind_packing_sees_losing_pairs_too() {
    let mut instance = support::plain(&[1, 1], &[&[100.0, 1.0][..]; 3]);
    instance.jobs.iter_mut().for_each(|job| job.profile = Some("p".into()));
    let profile = odd::profile(&instance.jobs[0]);
    let mut table = ThroughputTable::default();
    table.insert_pair("type0", profile.clone(), profile.clone(), [80.0, 80.0]);
    table.insert_pair("type1", profile.clone(), profile, [0.1, 0.1]);
    instance.pairs = Some(table);
    for types in [TypeAwareness::Aware, TypeAwareness::Blind] {
        let options = Options { types, sharing: true, ..Options::default() };
        let answer = goal("gandiva").expect("a goal").solve(&instance, options).expect("an answer");
        assert_eq!(answer.pairs, [], "{types:?}");
    }
}

/// In 477 and 580 the simplex saw no end of what only breaks ties; in 2588 and 4190 one was stopped before having begun to
/// rise; in 778, 1453 and 1786 what the stopped gave back came to more than the proof allows; in 3479, 10119, 13971 and 21221
/// speeds that had been reached were given away for others that cost next to nothing.
#[test]
fn organisations_that_share_gpus_are_filled_and_proved_where_stages_are_close() {
    let (goal, sharing) =
        (goal("hierarchical").expect("a goal"), Options { sharing: true, ..Options::default() });
    for seed in [477, 580, 778, 1453, 1786, 2588, 3479, 4190, 10119, 13971, 21221] {
        let instance = with_pairs(odd(seed), seed);
        let answer = goal.solve(&instance, sharing).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        check(&instance, goal, sharing, &answer).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// One organisation of everyone, sharing fairly inside, is filled as everyone is without organisations.
#[test]
fn with_sharing_one_organisation_of_all_is_filled_level_by_level() {
    let sharing = Options { sharing: true, ..Options::default() };
    for seed in 3100..3130 {
        let mut instance = with_pairs(odd(seed), seed);
        let all = instance.jobs.iter().map(|job| job.id).collect();
        instance.entities = Some(Entities {
            weights: [("all".to_owned(), 2.0)].into(),
            policies: [("all".to_owned(), EntityPolicy::Fair)].into(),
            jobs: [("all".to_owned(), all)].into(),
            entities: Default::default(),
        });
        let solve = |name: &str| goal(name).expect("a goal").solve(&instance, sharing).expect("an answer");
        let (filled, nested) = (solve("max-min-fill"), solve("hierarchical"));
        for ((job, flat), level) in instance.jobs.iter().zip(&filled.normalised).zip(&nested.normalised) {
            let near = (flat - level).abs() <= 2e-4 * flat.max(1e-3);
            assert!(near, "seed {seed}, job {}: {flat} filled, {level} in an organisation", job.id);
        }
    }
}

/// Two organisations of one job each, one with three times the weight: filled as if they were equal, nobody could rise
/// either, and the prices are right; only the way there is not.
#[test]
fn a_filling_that_does_not_follow_the_tree_is_rejected() {
    for sharing in [false, true] {
        let mut instance = support::plain(&[1], &[&[2.0], &[5.0]]);
        instance.pairs = Some(Default::default());
        let named = |values: [f64; 2]| ["a", "b"].map(str::to_owned).into_iter().zip(values).collect();
        instance.entities = Some(Entities {
            weights: named([1.0, 3.0]),
            policies: [("a".to_owned(), EntityPolicy::Fair), ("b".to_owned(), EntityPolicy::Fifo)].into(),
            jobs: [("a".to_owned(), vec![0]), ("b".to_owned(), vec![1])].into(),
            entities: Default::default(),
        });
        let (options, nested) =
            (Options { sharing, ..Options::default() }, goal("hierarchical").expect("a goal"));
        let solve = |name: &str| goal(name).expect("a goal").solve(&instance, options).expect("an answer");
        check(&instance, nested, options, &solve("hierarchical")).expect("it follows the tree");
        let refused = check(&instance, nested, options, &solve("max-min-fill"));
        assert!(matches!(refused, Err(CheckError::Unproved { .. })), "sharing {sharing}: {refused:?}");
    }
}

#[test]
fn no_usable_capacity_is_left_idle() {
    for seed in 0..150 {
        let instance = odd(seed);
        for name in ["max-min", "max-min-fill", "finish-time", "makespan", "hierarchical"] {
            let answer = goal(name).expect("a goal").solve(&instance, Options::default());
            let answer = answer.unwrap_or_else(|error| panic!("seed {seed}, {name}: {error}"));
            assert_eq!(idle(&instance, &answer), None, "seed {seed}, {name}");
        }
    }
}

/// A type with something free and a job with time left that could use it.
fn idle(instance: &Instance, answer: &Solution) -> Option<(usize, usize)> {
    for (j, t) in instance.types.iter().enumerate() {
        let used: f64 = instance
            .jobs
            .iter()
            .zip(answer.allocation.rows())
            .map(|(job, x)| f64::from(job.gpus) * x[j])
            .sum();
        if used > f64::from(t.count) - 1e-6 {
            continue;
        }
        for (m, (job, x)) in instance.jobs.iter().zip(answer.allocation.rows()).enumerate() {
            if job.throughputs[j] > 0.0 && job.gpus <= t.count && x.iter().sum::<f64>() < 1.0 - 1e-6 {
                return Some((j, m));
            }
        }
    }
    None
}
