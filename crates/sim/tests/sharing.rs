//! Two tasks on one GPU, under a goal with `sharing`: who is put beside whom, how fast they then are, and what counts as
//! their time together.

use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::shares::Speed;
use warpyard_core::spec::{JobSpec, Needs, Preempt, TaskSpec};
use warpyard_core::{Command, JobId, Span, TaskId, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{ForecastBudget, RunModel, Setup, Sim, SimReport, StepSpeeds, StepWork, forecast};

/// Steps a second alone.
const ALONE: f64 = 10.0;

/// The part of that which two keep beside one another.
const KEPT: f64 = 0.8;

fn speed(kind: &str, profile: &str, beside: Option<&str>, steps_per_second: f64) -> Speed {
    let (profile, kind) = (profile.to_owned(), kind.to_owned());
    Speed { profile, gpus: 1, kind, steps_per_second, measured: false, beside: beside.map(str::to_owned) }
}

/// A worker with so many V100, and profiles `a`, `b`, `c` of which every two keep 0.8 of their speed; `d` shares with nobody.
fn yard(gpus: usize, policy: &str) -> Sim {
    yard_of(gpus, policy, false, &every_two())
}

/// Every two of `a`, `b` and `c`, and the part of its speed that the first keeps beside the second.
fn every_two() -> Vec<(&'static str, &'static str, f64)> {
    let names = ["a", "b", "c"];
    names.into_iter().flat_map(|one| names.map(|other| (one, other, KEPT))).collect()
}

/// The same with other pairs known, on GPUs that may or may not be given more than fits.
fn yard_of(gpus: usize, policy: &str, overcommit: bool, pairs: &[(&str, &str, f64)]) -> Sim {
    yard_with(&vec!["V100"; gpus], policy, overcommit, pairs)
}

/// The same with GPUs of these types, on which everyone is as fast.
fn yard_with(gpus: &[&str], policy: &str, overcommit: bool, pairs: &[(&str, &str, f64)]) -> Sim {
    let device = |(i, kind): (usize, &&str)| DeviceInfo {
        uuid: format!("GPU-{i}"),
        kind: (*kind).to_owned(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit,
        state: DeviceState::Usable,
    };
    let devices = gpus.iter().enumerate().map(device).collect();
    let worker = WorkerInfo { name: "w".into(), devices, cpus: 8000, memory: 64, ..WorkerInfo::default() };
    let setup = Setup { workers: vec![worker], policy: policy.parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let on_each = |kind: &&str| {
        let pairs = pairs.iter().map(|(one, other, kept)| speed(kind, one, Some(other), kept * ALONE));
        let alone = ["a", "b", "c", "d"].map(|name| speed(kind, name, None, ALONE));
        alone.into_iter().chain(pairs).collect::<Vec<_>>()
    };
    let speeds = gpus.iter().flat_map(on_each).collect();
    sim.execute(Command::SetSpeeds { speeds, costs: BTreeMap::new() }).unwrap();
    sim
}

/// A task of a profile that takes 100 s alone.
fn submit(sim: &mut Sim, profile: &str, preempt: Preempt) -> JobId {
    submit_that_keeps(sim, profile, preempt, KEPT)
}

/// The same, which keeps so much of its speed beside whomever it is.
fn submit_that_keeps(sim: &mut Sim, profile: &str, preempt: Preempt, kept: f64) -> JobId {
    let task = TaskSpec {
        name: "t".into(),
        needs: Needs { gpus: 1, ..Needs::default() },
        profile: Some(profile.to_owned()),
        steps: Some(1000),
        preempt,
        ..TaskSpec::default()
    };
    let kinds = |speed: f64| ["v100", "k80"].map(|kind| (kind.to_owned(), speed)).into();
    let beside = ["a", "b", "c"].map(|other| (other.to_owned(), kinds(kept * ALONE))).into();
    let speeds = Arc::new(StepSpeeds { profile: profile.to_owned(), alone: kinds(ALONE), beside });
    let spec = JobSpec { name: profile.to_owned(), tasks: vec![task], ..JobSpec::default() };
    sim.submit("ann", spec, RunModel::Steps(vec![StepWork { steps: 1000.0, speeds }])).unwrap()
}

fn task(job: JobId) -> TaskId {
    TaskId { job, node: 0, index: 0 }
}

fn ended(sim: &Sim, job: JobId) -> f64 {
    sim.record(task(job)).unwrap().ended.unwrap().secs()
}

#[test]
fn two_that_get_on_share_a_gpu_and_are_done_sooner() {
    for (sharing, last) in [("true", 125.0), ("false", 200.0)] {
        let mut sim = yard(1, &format!("max-min:sharing={sharing},round=10"));
        let jobs = ["a", "b"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
        sim.run();
        let latest = jobs.map(|job| ended(&sim, job)).into_iter().fold(0.0, f64::max);
        assert!((latest - last).abs() < 5.0, "sharing={sharing}: the last ended at {latest}");
    }
}

#[test]
fn a_new_task_goes_beside_one_that_may_not_be_moved_without_waiting_for_a_round() {
    let mut sim = yard(1, "max-min:sharing=true,round=1000");
    let first = submit(&mut sim, "a", Preempt::None);
    sim.run_until(Time::from_secs(20.0));
    let second = submit(&mut sim, "b", Preempt::None);
    sim.run_until(Time::from_secs(21.0));
    assert_eq!(sim.cluster().view().beside(task(second)), Some(task(first)));
    sim.run();
    // 20 s alone and 80 s of work at 0.8; then the other alone with what is left.
    assert!((ended(&sim, first) - 120.0).abs() < 1.0, "{}", ended(&sim, first));
    assert!((ended(&sim, second) - 140.0).abs() < 1.0, "{}", ended(&sim, second));
}

#[test]
fn nobody_is_put_beside_one_of_whom_that_is_not_known() {
    let mut sim = yard(1, "max-min:sharing=true,round=10");
    let jobs = ["a", "d", "d"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    for second in 1..290 {
        sim.run_until(Time::from_secs(f64::from(second)));
        assert!(jobs.iter().all(|job| sim.cluster().view().beside(task(*job)).is_none()), "at {second} s");
    }
    sim.run();
    assert!(jobs.iter().all(|job| sim.record(task(*job)).unwrap().ended.is_some()));
}

/// `a` and `c` were both seen beside `b`, and never beside one another.
#[test]
fn two_that_were_never_seen_together_are_tried_and_then_known() {
    let told = [("a", "b", 0.9), ("b", "a", 0.9), ("c", "b", 0.9), ("b", "c", 0.9)];
    let mut sim = yard_of(1, "max-min:sharing=true,round=10", false, &told);
    let jobs = ["a", "c"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    sim.run_until(Time::from_secs(5.0));
    assert_eq!(sim.cluster().view().beside(task(jobs[0])), Some(task(jobs[1])));
    let known =
        |sim: &Sim, one: &str, other: &str| sim.cluster().shares().speed_beside(one, other, 1, "v100");
    assert_eq!(known(&sim, "a", "c"), None, "it was estimated");
    sim.run_until(Time::from_secs(25.0));
    for (one, other) in [("a", "c"), ("c", "a")] {
        let known = known(&sim, one, other).expect("measured by the end of a round");
        assert!(known.measured && known.steps_per_second == KEPT * ALONE, "{known:?}");
    }
    sim.run();
    assert!(jobs.iter().all(|job| (ended(&sim, *job) - 125.0).abs() < 5.0), "both run at 0.8 throughout");
}

/// They are estimated to get on and do not: as soon as that is known each is alone again.
#[test]
fn what_was_estimated_wrongly_is_put_right_by_measurement() {
    let told = [("a", "b", 0.9), ("b", "a", 0.9), ("c", "b", 0.9), ("b", "c", 0.9)];
    let mut sim = yard_of(1, "max-min:sharing=true,round=10", false, &told);
    let jobs = ["a", "c"].map(|profile| submit_that_keeps(&mut sim, profile, Preempt::Requeue, 0.3));
    sim.run_until(Time::from_secs(5.0));
    assert_eq!(sim.cluster().view().beside(task(jobs[0])), Some(task(jobs[1])));
    for second in 30..150 {
        sim.run_until(Time::from_secs(f64::from(second)));
        assert!(jobs.iter().all(|job| sim.cluster().view().beside(task(*job)).is_none()), "at {second} s");
    }
}

/// `c` was found not to fit beside `b`; whether it fits beside `a` is not found out at the cost of `a`.
#[test]
fn who_does_not_fit_beside_someone_is_tried_beside_nobody_new() {
    let told = [
        ("a", "b", 0.9),
        ("b", "a", 0.9),
        ("c", "b", 0.0),
        ("b", "c", 0.0),
        ("c", "d", 0.9),
        ("d", "c", 0.9),
    ];
    let mut sim = yard_of(1, "max-min:sharing=true,round=10", false, &told);
    let jobs = ["a", "c"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    for second in 1..190 {
        sim.run_until(Time::from_secs(f64::from(second)));
        assert!(jobs.iter().all(|job| sim.cluster().view().beside(task(*job)).is_none()), "at {second} s");
    }
}

/// Two share the GPU and have 80 s of work each left; a third that gets on with nobody waits for both.
#[test]
fn a_forecast_knows_that_two_that_share_are_slower() {
    let mut sim = yard(1, "max-min:sharing=true,round=1000");
    let [first, second] = ["a", "b"].map(|profile| submit(&mut sim, profile, Preempt::None));
    sim.run_until(Time::from_secs(25.0));
    assert_eq!(sim.cluster().view().beside(task(first)), Some(task(second)));
    let waits = task(submit(&mut sim, "d", Preempt::None));
    let limits = ForecastBudget { samples: 2, events: 1000, solves: 3 };
    let left = |task: TaskId, _| Some(Span::from_secs(if task == waits { 100.0 } else { 80.0 }));
    let expected = forecast(sim.cluster(), POLICIES, sim.now(), &[waits], limits, left).unwrap();
    let expected = expected[&waits].range().expect("a start").from.secs();
    assert!((expected - 125.0).abs() < 0.1, "expected at {expected}: 80 s of work at 0.8 from 25 s on");
    sim.run();
    let really = sim.record(waits).and_then(|record| record.started).expect("it started").secs();
    assert!((really - expected).abs() < 1.0, "expected at {expected}, really {really}");
}

/// Five on three GPUs: whoever takes all types for equal gives everyone, and every two, as much of each as there is of it.
#[test]
fn a_blind_goal_with_sharing_prefers_no_type() {
    for goal in ["max-min", "makespan", "finish-time"] {
        let policy = format!("{goal}:types=blind,sharing=true,round=10");
        let mut sim = yard_with(&["K80", "V100", "V100"], &policy, false, &every_two());
        for profile in ["a", "a", "b", "c", "d"] {
            submit(&mut sim, profile, Preempt::Requeue);
        }
        sim.run_until(Time(1));
        let target = sim.cluster().shares().target().expect("a target");
        assert_eq!(target.kinds, ["k80", "v100"]);
        let shares = target.rows.iter().map(|row| &row.shares);
        let all: Vec<_> = shares.chain(target.pairs.iter().map(|pair| &pair.shares)).collect();
        assert!(!target.pairs.is_empty() && target.rows.len() == 5, "{goal}: {target:?}");
        assert!(all.iter().all(|shares| (shares[1] - 2.0 * shares[0]).abs() < 1e-9), "{goal}: {all:?}");
    }
}

/// On a GPU that may be given more than fits, a stranger is no reason to stay away.
#[test]
fn where_anyone_may_be_beside_anyone_nobody_is_asked() {
    let mut sim = yard_of(1, "max-min:sharing=true,round=10", true, &every_two());
    let jobs = ["d", "a"].map(|profile| submit(&mut sim, profile, Preempt::None));
    for job in jobs {
        assert_eq!(sim.record(task(job)).unwrap().started, Some(Time(0)));
    }
}

/// Those that stay where they are take no part in the choice, and must not be taken for others in it.
#[test]
fn two_share_among_many_that_may_not_be_moved() {
    let mut sim = yard(5, "max-min:sharing=true,round=10");
    for _ in 0..4 {
        submit(&mut sim, "d", Preempt::None);
    }
    let jobs = ["a", "b"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    sim.run_until(Time::from_secs(50.0));
    assert_eq!(sim.cluster().view().beside(task(jobs[0])), Some(task(jobs[1])));
    sim.run();
    // Once the others have ended there is a GPU for each.
    let latest = jobs.map(|job| ended(&sim, job)).into_iter().fold(0.0, f64::max);
    assert!(latest < 126.0, "the last ended at {latest}");
}

/// Two of 100 s each at 0.8 on one GPU: it is in use for 125 s, not for 250.
#[test]
fn a_gpu_that_two_have_is_in_use_once() {
    let mut sim = yard(1, "max-min:sharing=true,round=10");
    let jobs = ["a", "b"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    sim.run();
    let used = jobs.map(|job| sim.record(task(job)).unwrap().gpu_seconds);
    assert!((used[0] - 62.5).abs() < 3.0 && (used[1] - 62.5).abs() < 3.0, "{used:?}");
    let report = SimReport::of(&sim, 0, 0.0, false);
    assert!((0.97..=1.0).contains(&report.utilisation), "{}", report.utilisation);
}

#[test]
fn where_a_gpu_is_free_nobody_shares() {
    let mut sim = yard(2, "max-min:sharing=true,round=10");
    let jobs = ["a", "b"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    sim.run();
    assert!(jobs.iter().all(|job| (ended(&sim, *job) - 100.0).abs() < 1.0));
}

/// Three that all get on, on one GPU: each is on it two thirds of the time, whoever it is beside.
#[test]
fn time_together_is_shared_out_as_promised() {
    let mut sim = yard(1, "max-min:sharing=true,round=3");
    let jobs = ["a", "b", "c"].map(|profile| submit(&mut sim, profile, Preempt::Requeue));
    sim.run_until(Time::from_secs(120.0));
    let (view, now) = (sim.cluster().view(), sim.now());
    for job in jobs {
        let (had, shared) = (view.had(task(job), "v100", now), view.shared(task(job), "v100", now));
        assert!((had.secs() - 80.0).abs() < 6.0, "{job} had {} of 120 s", had.secs());
        assert!((shared.time.secs() - had.secs()).abs() < 6.0, "{job} shared {}", shared.time.secs());
        assert!(
            (shared.lost.secs() - 0.2 * shared.time.secs()).abs() < 0.1,
            "{job} lost {}",
            shared.lost.secs()
        );
    }
    for pair in view.shares().pairs(now) {
        let together: f64 = pair.had.iter().map(|had| had.secs()).sum();
        assert!((together - 40.0).abs() < 8.0, "{:?} had {together} of 120 s together", pair.tasks);
    }
    sim.run();
    let last = jobs.map(|job| ended(&sim, job)).into_iter().fold(0.0, f64::max);
    assert!(last < 200.0, "three of 100 s with 1.6 done at once take 187.5 s, not {last}");
}
