//! Two tasks on one GPU, under a goal with `sharing`: who is put beside whom, how fast they then are, and what counts as
//! their time together.

use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::shares::Speed;
use warpyard_core::spec::{JobSpec, Needs, Preempt, TaskSpec};
use warpyard_core::{Command, JobId, TaskId, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::{Pace, Runs, Setup, Sim, Steps};

/// Steps a second alone.
const ALONE: f64 = 10.0;

fn speed(profile: &str, beside: Option<&str>, steps_per_second: f64) -> Speed {
    let (profile, kind) = (profile.to_owned(), "V100".to_owned());
    Speed { profile, gpus: 1, kind, steps_per_second, measured: false, beside: beside.map(str::to_owned) }
}

/// A worker with so many V100, and profiles `a`, `b`, `c` of which every two keep 0.8 of their speed; `d` shares with nobody.
fn yard(gpus: usize, policy: &str) -> Sim {
    yard_of(gpus, policy, false)
}

/// The same, whose GPUs may be given more than fits.
fn yard_of(gpus: usize, policy: &str, overcommit: bool) -> Sim {
    let device = |i: usize| DeviceInfo {
        uuid: format!("GPU-{i}"),
        kind: "V100".to_owned(),
        memory: 16,
        budget: 16,
        limit: None,
        overcommit,
        state: DeviceState::Usable,
    };
    let devices = (0..gpus).map(device).collect();
    let worker = WorkerInfo { name: "w".into(), devices, cpus: 8000, memory: 64, lease: None };
    let setup = Setup { workers: vec![worker], policy: policy.parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let names = ["a", "b", "c"];
    let pairs = names.into_iter().flat_map(|one| names.map(|other| speed(one, Some(other), 0.8 * ALONE)));
    let alone = ["a", "b", "c", "d"].map(|name| speed(name, None, ALONE));
    let speeds = alone.into_iter().chain(pairs).collect();
    sim.ask(Command::SetSpeeds { speeds, costs: BTreeMap::new() }).unwrap();
    sim
}

/// A task of a profile that takes 100 s alone.
fn submit(sim: &mut Sim, profile: &str, preempt: Preempt) -> JobId {
    let task = TaskSpec {
        name: "t".into(),
        needs: Needs { gpus: 1, ..Needs::default() },
        profile: Some(profile.to_owned()),
        steps: Some(1000),
        preempt,
        ..TaskSpec::default()
    };
    let kinds = |speed: f64| BTreeMap::from([("v100".to_owned(), speed)]);
    let beside = ["a", "b", "c"].map(|other| (other.to_owned(), kinds(0.8 * ALONE))).into();
    let pace = Arc::new(Pace { profile: profile.to_owned(), alone: kinds(ALONE), beside });
    let spec = JobSpec { name: profile.to_owned(), tasks: vec![task], ..JobSpec::default() };
    sim.submit("ann", spec, Runs::Steps(vec![Steps { steps: 1000.0, pace }])).unwrap()
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

/// Those that stay where they are take no part in the choice, and must not be taken for others in it.
/// On a GPU that may be given more than fits, a stranger is no reason to stay away.
#[test]
fn where_anyone_may_be_beside_anyone_nobody_is_asked() {
    let mut sim = yard_of(1, "max-min:sharing=true,round=10", true);
    let jobs = ["d", "a"].map(|profile| submit(&mut sim, profile, Preempt::None));
    for job in jobs {
        assert_eq!(sim.record(task(job)).unwrap().started, Some(Time(0)));
    }
}

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
