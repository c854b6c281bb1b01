//! Least average completion time: optimal among all orders where jobs need one GPU each, never worse with sharing, and
//! rejected where the scheduled runs are invalid.

#[path = "support/odd.rs"]
mod odd;
mod support;

use odd::{odd, odd_within, with_pairs};
use warpyard_allocate::{
    Certificate, CheckError, CheckReport, Instance, Job, Options, Profile, ScheduledRun, Shares, Solution,
    ThroughputTable, TypeAwareness, check, goal,
};

fn solved(instance: &Instance, sharing: bool) -> (Solution, CheckReport) {
    let (goal, options) = (goal("allox").expect("a goal"), Options { sharing, ..Options::default() });
    let answer = goal.solve(instance, options).expect("an answer");
    let checked = check(instance, goal, options, &answer).expect("it stands up to checking");
    (answer, checked)
}

/// The least average over every way to give jobs to GPUs; on a GPU the shortest goes first.
fn by_brute_force(instance: &Instance) -> f64 {
    let gpus: Vec<usize> = (instance.types.iter().enumerate())
        .flat_map(|(j, t)| std::iter::repeat_n(j, t.count as usize))
        .collect();
    let n = instance.jobs.len();
    let length =
        |m: usize, j: usize| instance.jobs[m].steps.expect("steps") / instance.jobs[m].throughputs[j];
    let average = |choice: usize| {
        let mut queues = vec![Vec::new(); gpus.len()];
        let mut rest = choice;
        for m in 0..n {
            queues[rest % gpus.len()].push(length(m, gpus[rest % gpus.len()]));
            rest /= gpus.len();
        }
        let total = |queue: &mut Vec<f64>| {
            queue.sort_by(f64::total_cmp);
            queue
                .iter()
                .scan(0.0, |now, length| {
                    *now += length;
                    Some(*now)
                })
                .sum::<f64>()
        };
        queues.iter_mut().map(total).sum::<f64>() / n as f64
    };
    (0..gpus.len().pow(n as u32)).map(average).fold(f64::INFINITY, f64::min)
}

#[test]
fn no_order_is_better_where_jobs_need_one_gpu() {
    for seed in 0..60 {
        let mut instance = odd_within(seed, 2, 5);
        instance.types.iter_mut().for_each(|t| t.count = t.count.min(2));
        instance.jobs.iter_mut().for_each(|job| job.gpus = 1);
        let ((ours, checked), best) = (solved(&instance, false), by_brute_force(&instance));
        assert!((ours.objective - best).abs() <= 1e-9 * best, "seed {seed}: ours {}, {best}", ours.objective);
        assert!(checked.gap.abs() <= 1e-9, "seed {seed}: {checked:?}");
    }
}

/// A bound is a bound: nothing is below it, also where jobs have to wait for several GPUs.
#[test]
fn wide_jobs_have_feasible_runs_and_a_bound() {
    for seed in 0..300 {
        let (answer, checked) = solved(&odd(seed), false);
        assert!(checked.bound.is_some_and(|bound| bound <= answer.objective * (1.0 + 1e-9)), "{checked:?}");
    }
}

#[test]
fn co_location_lowers_the_average_or_is_skipped() {
    let mut joined = 0;
    for seed in 0..300 {
        let instance = with_pairs(odd(seed), seed);
        let ((alone, _), (sharing, checked)) = (solved(&instance, false), solved(&instance, true));
        assert!(sharing.objective <= alone.objective, "seed {seed}");
        assert_eq!(checked.bound, None, "nothing is proved of a rule");
        assert_eq!(sharing.pairs.is_empty(), sharing.objective == alone.objective, "seed {seed}");
        joined += sharing.pairs.len();
    }
    assert!(joined > 100, "{joined}");
}

#[test]
fn type_blind_goals_have_runs_too() {
    let goal = goal("allox").expect("a goal");
    for seed in 0..60 {
        let instance = with_pairs(odd(seed), seed);
        for sharing in [false, true] {
            let options = Options { types: TypeAwareness::Blind, sharing, ..Options::default() };
            let answer = goal.solve(&instance, options).expect("an answer");
            check(&instance, goal, options, &answer).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// Two jobs on one GPU: the long one takes 10 s, the short one 1 s.
fn long_and_short() -> Instance {
    let mut instance = support::plain(&[1], &[&[1.0], &[10.0]]);
    instance.jobs.iter_mut().for_each(|job| job.steps = Some(10.0));
    instance
}

/// What checking says of an answer that was changed.
fn refused(
    instance: &Instance,
    sharing: bool,
    change: impl Fn(&mut Solution, &mut Vec<ScheduledRun>),
) -> CheckError {
    let mut answer = solved(instance, sharing).0;
    let Certificate::Queues { mut runs, proof } = answer.certificate.clone() else { panic!("no runs") };
    change(&mut answer, &mut runs);
    answer.certificate = Certificate::Queues { runs, proof };
    let options = Options { sharing, ..Options::default() };
    check(instance, goal("allox").expect("a goal"), options, &answer).expect_err("refused")
}

#[test]
fn infeasible_runs_are_rejected() {
    let instance = long_and_short();
    let (answer, _) = solved(&instance, false);
    assert!((answer.objective - 6.0).abs() < 1e-12, "{answer:?}");
    // With a second GPU both would start now: 5.5 s on average, half a second sooner.
    assert!((answer.prices[0] - 0.5).abs() < 1e-12, "{answer:?}");
    let refused = |change: &dyn Fn(&mut Solution, &mut Vec<ScheduledRun>)| refused(&instance, false, change);
    let at_once = |answer: &mut Solution, runs: &mut Vec<ScheduledRun>| {
        runs.iter_mut().for_each(|run| run.start_s = 0.0);
        answer.allocation = Shares::new(1, vec![0.5, 0.5]);
    };
    assert!(matches!(refused(&at_once), CheckError::Run { .. }));
    let overlapping = |_: &mut Solution, runs: &mut Vec<ScheduledRun>| {
        runs.iter_mut().filter(|run| run.jobs == [0]).for_each(|run| run.start_s = 0.5);
    };
    assert!(matches!(refused(&overlapping), CheckError::Gpus { .. }));
    let nobody = |_: &mut Solution, runs: &mut Vec<ScheduledRun>| drop(runs.pop());
    assert!(matches!(refused(&nobody), CheckError::Run { .. }));
    let other_way_round = |answer: &mut Solution, runs: &mut Vec<ScheduledRun>| {
        runs.iter_mut().for_each(|run| run.start_s = if run.jobs == [0] { 0.0 } else { 10.0 });
        answer.allocation = Shares::new(1, vec![1.0, 0.0]);
        answer.objective = 10.5;
    };
    assert!(matches!(refused(&other_way_round), CheckError::Unproved { .. }));
    let in_the_past = |answer: &mut Solution, runs: &mut Vec<ScheduledRun>| {
        runs.iter_mut().for_each(|run| run.start_s -= 100.0);
        answer.allocation = Shares::new(1, vec![0.0, 0.0]);
        answer.objective -= 100.0;
    };
    assert!(matches!(refused(&in_the_past), CheckError::Run { .. }));
    let never = |_: &mut Solution, runs: &mut Vec<ScheduledRun>| runs[1].start_s = f64::NAN;
    assert!(matches!(refused(&never), CheckError::Run { .. }));
}

#[test]
fn shares_that_do_not_match_the_runs_are_rejected() {
    let instance = long_and_short();
    for shares in [[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]] {
        let found =
            refused(&instance, false, |answer, _| answer.allocation = Shares::new(1, shares.to_vec()));
        assert!(matches!(found, CheckError::Run { .. }), "{shares:?}: {found}");
    }
    let (instance, changed) =
        (shared(), |answer: &mut Solution, share: f64| answer.pairs[0].shares[0] = share);
    for share in [0.0, 0.5] {
        let found = refused(&instance, true, |answer, _| changed(answer, share));
        assert!(matches!(found, CheckError::Run { .. }), "{share}: {found}");
    }
    let found = refused(&instance, true, |answer, _| answer.pairs.clear());
    assert!(matches!(found, CheckError::Run { .. }), "{found}");
}

/// The long and the short, which hardly slow each other.
fn shared() -> Instance {
    let mut instance = long_and_short();
    let profile = |job: &mut Job| Profile { name: format!("p{}", job.id), gpus: 1 };
    let [a, b] = [0, 1].map(|m| profile(&mut instance.jobs[m]));
    (instance.jobs[0].profile, instance.jobs[1].profile) = (Some(a.name.clone()), Some(b.name.clone()));
    let mut table = ThroughputTable::default();
    table.insert_pair("type0", a, b, [0.9, 9.0]);
    instance.pairs = Some(table);
    instance
}

/// A second is nothing after so long, but whoever runs then has GPUs of his own.
#[test]
fn a_short_late_run_needs_its_gpu_too() {
    let mut instance = long_and_short();
    instance.jobs[0].steps = Some(1e12);
    let found = refused(&instance, false, |answer, runs| {
        runs.iter_mut().for_each(|run| run.start_s = if run.jobs == [0] { 0.0 } else { 5e11 });
        answer.allocation = Shares::new(1, vec![1.0, 0.0]);
        answer.objective = 0.5 * (1e12 + 5e11 + 1.0);
    });
    assert!(matches!(found, CheckError::Gpus { .. }), "{found}");
}

#[test]
fn a_finished_job_holds_no_gpu() {
    let mut instance = long_and_short();
    instance.jobs[1].steps = Some(0.0);
    let (answer, _) = solved(&instance, false);
    assert_eq!((answer.objective, answer.allocation.flat()), (5.0, &[1.0, 0.0][..]));
    // Nor is it in the way of a wide one.
    let (answer, _) = solved(&one_type(2, &[(0.0, 1), (10.0, 2), (30.0, 1)]), false);
    assert_eq!(answer.allocation.flat(), [0.0, 1.0, 0.0], "{answer:?}");
}

/// Jobs of one type at one step a second, by their steps and GPUs.
fn one_type(gpus: u32, jobs: &[(f64, u32)]) -> Instance {
    let mut instance = support::plain(&[gpus], &vec![&[1.0][..]; jobs.len()]);
    for (job, (steps, gpus)) in instance.jobs.iter_mut().zip(jobs) {
        (job.steps, job.gpus) = (Some(*steps), *gpus);
    }
    instance
}

/// Two that end together leave room for a wide one at once: nobody narrow slips in between.
#[test]
fn simultaneous_ends_free_their_gpus_together() {
    // The second time they end together but for rounding.
    for speed in [1.0, 1.0 + 1e-15] {
        let mut instance = one_type(2, &[(10.0, 1), (10.0, 1), (20.0, 2), (30.0, 1)]);
        instance.jobs[1].throughputs[0] = speed;
        let (answer, _) = solved(&instance, false);
        let Certificate::Queues { runs, .. } = &answer.certificate else { panic!("no runs") };
        let wide = runs.iter().find(|run| run.jobs == [2]).expect("a run");
        assert!((wide.start_s - 10.0).abs() < 1e-9, "{runs:?}");
        assert!((answer.objective - 27.5).abs() < 1e-9, "{answer:?}");
    }
}
