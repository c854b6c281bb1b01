//! What the live server asks of the simulator: when a task will start, and what would start it now.

use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::spec::{JobSpec, Needs, Preempt, TaskSpec, WaitMode};
use warpyard_core::{DeviceId, JobId, Span, TaskId, TaskState, Time, WorkerId};
use warpyard_policies::POLICIES;
use warpyard_sim::{
    ForecastBudget, RequestChange, RunModel, Setup, Sim, StartForecast, UnknownStart, find_counterfactual,
    forecast,
};

const GIB: u64 = 1 << 30;

fn yard(policy: &str, devices: &[(&str, u64)], lease: Option<Span>) -> Sim {
    Sim::new(setup(policy, devices, lease), POLICIES).unwrap()
}

fn setup(policy: &str, devices: &[(&str, u64)], lease: Option<Span>) -> Setup {
    let device = |(i, &(kind, gib)): (usize, &(&str, u64))| DeviceInfo {
        uuid: format!("GPU-{i}"),
        kind: kind.into(),
        memory: gib * GIB,
        budget: gib * GIB,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let devices = devices.iter().enumerate().map(device).collect();
    let worker = WorkerInfo {
        name: "w".into(),
        devices,
        cpus: 8000,
        memory: 64 * GIB,
        lease,
        ..WorkerInfo::default()
    };
    let policy = policy.parse().unwrap();
    Setup { workers: vec![worker], policy, start_delay: Span::ZERO, forget: false, ..Setup::default() }
}

fn secs(s: u64) -> Span {
    Span(s * 1_000_000)
}

fn submit(sim: &mut Sim, needs: Needs, timeout: u64) -> TaskId {
    let task = TaskSpec { name: "t".into(), needs, timeout: Some(secs(timeout)), ..TaskSpec::default() };
    let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
    let job: JobId = sim.submit("ann", spec, RunModel::Constant(secs(timeout))).unwrap();
    TaskId { job, node: 0, index: 0 }
}

fn gpus(gpus: u16) -> Needs {
    Needs { gpus, ..Needs::default() }
}

fn memory(gib: u64) -> Needs {
    Needs { gpu_memory: Some(gib * GIB), ..gpus(1) }
}

/// A task that takes a GPU whole, and saves and exits when asked.
fn saves(sim: &mut Sim, takes: u64) -> TaskId {
    let task = TaskSpec {
        name: "t".into(),
        needs: gpus(1),
        preempt: Preempt::Requeue,
        timeout: Some(secs(takes)),
        ..TaskSpec::default()
    };
    let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
    let job = sim.submit("ann", spec, RunModel::Constant(secs(takes))).unwrap();
    TaskId { job, node: 0, index: 0 }
}

#[test]
fn a_forecast_knows_that_time_is_shared_in_rounds() {
    let mut sim = yard("max-min:round=60", &[("V100", 16)], None);
    let tasks = [saves(&mut sim, 600), saves(&mut sim, 600)];
    sim.run_until(Time(secs(20).0));
    let waits = tasks.into_iter().find(|task| sim.cluster().view().attempt(*task).is_none()).unwrap();
    let limits = ForecastBudget { samples: 3, events: 1000, solves: 3 };
    let expected =
        forecast(sim.cluster(), POLICIES, sim.now(), &[waits], limits, |_, _| Some(secs(580))).unwrap();
    let (from, to) = expected[&waits].range().map(|range| (range.from, range.to)).expect("a start");
    // Whoever runs has ten minutes to go, but makes way at the round's end.
    assert!(from >= Time(secs(60).0) && to <= Time(secs(125).0), "{from:?} to {to:?}");
    sim.run_until(Time(secs(130).0));
    let really = sim.record(waits).and_then(|record| record.started).expect("it started");
    assert!(from <= really && really <= to + secs(1), "{really:?} of {from:?} to {to:?}");
}

/// What was placed and is not known to run yet makes way at the round's end as well.
#[test]
fn a_forecast_knows_that_what_was_just_placed_will_run() {
    let setup = setup("max-min:round=60", &[("V100", 16)], None);
    let mut sim = Sim::new(Setup { start_delay: secs(5), ..setup }, POLICIES).unwrap();
    let [first, second] = [saves(&mut sim, 600), saves(&mut sim, 600)];
    sim.run_until(Time(secs(2).0));
    assert!(matches!(sim.cluster().state(first), Some(TaskState::Placed(_))));
    let limits = ForecastBudget { samples: 1, events: 1000, solves: 3 };
    let expected =
        forecast(sim.cluster(), POLICIES, sim.now(), &[second], limits, |_, _| Some(secs(600))).unwrap();
    assert_eq!(expected[&second].range().map(|range| range.from), Some(Time(secs(60).0)));
}

/// When the first three GPUs are free, one of the small ones is kept for the second short task, until a long one begins
/// beside the first: beside both it suits the second, too, and the wide task may have the others.
#[test]
fn a_place_that_is_kept_may_move_by_what_starts_behind_it_and_a_forecast_knows() {
    let mut sim = yard("sjf", &[("A100", 17), ("V100", 16), ("V100", 16)], None);
    submit(&mut sim, gpus(3), 10);
    let scope = vec![DeviceId { worker: WorkerId(0), index: 0 }];
    submit(&mut sim, Needs { cpus: 8000, scope, ..memory(2) }, 20);
    let second = submit(&mut sim, Needs { cpus: 8000, ..memory(2) }, 30);
    let wide = submit(&mut sim, gpus(2), 100);
    submit(&mut sim, memory(2), 200);
    sim.run_until(Time(secs(1).0));
    let left = |task: TaskId| sim.cluster().view().spec(task).and_then(|(_, spec)| spec.timeout).unwrap();
    let limits = ForecastBudget { samples: 1, events: 1000, solves: 0 };
    let tasks = [second, wide];
    let expected = forecast(sim.cluster(), POLICIES, Time(0), &tasks, limits, |task, _| Some(left(task)))
        .expect("a forecast");
    let expected = tasks.map(|task| expected[&task].range().map(|range| range.from.secs()));
    assert_eq!(expected, [Some(30.0), Some(10.0)]);
    sim.run();
    let really = tasks.map(|task| sim.record(task).and_then(|record| record.started).map(Time::secs));
    assert_eq!(really, expected);
}

/// A task that states its memory and can be frozen.
fn turn(sim: &mut Sim, gib: u64, takes: u64) -> TaskId {
    let task = TaskSpec {
        name: "t".into(),
        needs: memory(gib),
        preempt: Preempt::Freeze,
        timeout: Some(secs(takes)),
        ..TaskSpec::default()
    };
    let spec = JobSpec { name: "j".into(), tasks: vec![task], ..JobSpec::default() };
    let job = sim.submit("ann", spec, RunModel::Constant(secs(takes))).unwrap();
    TaskId { job, node: 0, index: 0 }
}

/// The second begins when the first stands still; the third finds memory only once the second, having taken turns with the
/// first, has ended.
#[test]
fn a_forecast_knows_that_tasks_stand_still_between_their_turns() {
    let mut sim = yard("max-min:round=60", &[("V100", 16)], None);
    let tasks = [turn(&mut sim, 6, 600), turn(&mut sim, 6, 90), turn(&mut sim, 8, 600)];
    for at in [20, 75, 130] {
        sim.run_until(Time(secs(at).0));
        let waits = tasks.into_iter().filter(|task| sim.cluster().view().attempt(*task).is_none());
        let waits: Vec<TaskId> = waits.collect();
        assert_eq!(waits.len(), if at < 60 { 2 } else { 1 }, "at {at} s");
        let left = |task: TaskId| {
            let view = sim.cluster().view();
            let ran = view.under_way(task, sim.now()).map_or(Span::ZERO, |on| on.as_ready.ran);
            view.spec(task).and_then(|(_, spec)| spec.timeout).unwrap() - ran
        };
        let limits = ForecastBudget { samples: 2, events: 1000, solves: 9 };
        let expected =
            forecast(sim.cluster(), POLICIES, sim.now(), &waits, limits, |t, _| Some(left(t))).unwrap();
        let begins =
            |task: TaskId| expected.get(&task).and_then(|start| Some(start.range()?.from.secs().round()));
        let second = if at < 60 { Some(60.0) } else { None };
        assert_eq!(tasks.map(begins), [None, second, Some(210.0)], "at {at} s");
    }
    sim.run_until(Time(secs(220).0));
    let started =
        |task: TaskId| sim.record(task).and_then(|record| record.started).map(|at| at.secs().round());
    assert_eq!(tasks.map(started), [Some(0.0), Some(60.0), Some(210.0)]);
}

#[test]
fn a_forecast_follows_the_queue() {
    let mut sim = yard("fifo", &[("V100", 16)], Some(secs(15)));
    let running = submit(&mut sim, gpus(1), 100);
    let first = submit(&mut sim, gpus(1), 50);
    let second = submit(&mut sim, gpus(1), 10);
    sim.run_until(Time(secs(40).0));
    let left = |task: TaskId, _| Some(if task == running { secs(60) } else { secs(50) });
    let limits = ForecastBudget { samples: 3, events: 1000, solves: 3 };
    let expected = forecast(sim.cluster(), POLICIES, sim.now(), &[first, second], limits, left).unwrap();
    assert_eq!(range(&expected[&first]), Some((100, 100)));
    assert_eq!(range(&expected[&second]), Some((150, 150)), "no lease runs out in a forecast");
}

#[test]
fn a_forecast_is_the_range_of_all_samples() {
    let mut sim = yard("fifo", &[("V100", 16)], None);
    let running = submit(&mut sim, gpus(1), 1000);
    let waiting = submit(&mut sim, gpus(1), 10);
    let limits = ForecastBudget { samples: 11, events: 1000, solves: 3 };
    let drawn = |_, sample: u32| Some(secs(100 + 10 * u64::from(sample)));
    let expected = forecast(sim.cluster(), POLICIES, sim.now(), &[waiting], limits, drawn).unwrap();
    assert_eq!(range(&expected[&waiting]), Some((100, 200)));
    assert_eq!(expected[&waiting].range().unwrap().hinges_on, [running]);
}

/// The range of a forecast in whole seconds.
fn range(expected: &StartForecast) -> Option<(u64, u64)> {
    expected.range().map(|range| (range.from.0 / 1_000_000, range.to.0 / 1_000_000))
}

#[test]
fn a_start_behind_a_task_of_unknown_length_is_unknown_and_names_that_task() {
    let mut sim = yard("fifo", &[("V100", 16), ("V100", 16)], None);
    let endless = submit(&mut sim, gpus(1), 1000);
    let known = submit(&mut sim, gpus(1), 100);
    let [one, two] = [submit(&mut sim, gpus(1), 10), submit(&mut sim, gpus(2), 10)];
    let limits = ForecastBudget { samples: 3, events: 1000, solves: 3 };
    let left = |task: TaskId, _| (task != endless).then(|| secs(if task == known { 100 } else { 10 }));
    let expected = forecast(sim.cluster(), POLICIES, sim.now(), &[one, two], limits, left).unwrap();
    assert_eq!(range(&expected[&one]), Some((0, 100)), "at the latest when the other GPU is free");
    assert_eq!(expected[&one].range().unwrap().sooner_after, [endless]);
    assert_eq!(expected[&two], StartForecast::Unknown(UnknownStart::Lengths(vec![endless])));
}

/// Rounds go on for ever where no end is known; a forecast does not.
#[test]
fn a_forecast_of_rounds_ends_where_no_length_is_known() {
    let mut sim = yard("max-min:round=60", &[("V100", 16)], None);
    let tasks = [saves(&mut sim, 600), saves(&mut sim, 600)];
    sim.run_until(Time(secs(20).0));
    let waits = tasks.into_iter().find(|task| sim.cluster().view().attempt(*task).is_none()).unwrap();
    let limits = ForecastBudget { samples: 2, events: 1000, solves: 3 };
    let expected = forecast(sim.cluster(), POLICIES, sim.now(), &[waits], limits, |_, _| None).unwrap();
    let (_, to) = range(&expected[&waits]).expect("a round is known to end");
    assert!(to <= 125, "{to}");
}

#[test]
fn what_does_not_start_within_the_limits_has_no_forecast() {
    let mut sim = yard("fifo", &[("V100", 16)], None);
    let tasks: Vec<_> = (0..50).map(|_| submit(&mut sim, gpus(1), 10)).collect();
    let limits = ForecastBudget { samples: 2, events: 30, solves: 3 };
    let expected =
        forecast(sim.cluster(), POLICIES, sim.now(), &tasks, limits, |_, _| Some(secs(10))).unwrap();
    assert!(expected[&tasks[1]].range().is_some());
    assert_eq!(expected[&tasks[49]], StartForecast::Unknown(UnknownStart::TooFar));
}

fn change(sim: &Sim, task: TaskId) -> Option<RequestChange> {
    find_counterfactual(sim.cluster(), POLICIES, sim.now(), task).unwrap().map(|(change, _)| change)
}

#[test]
fn less_memory_would_start_it_now() {
    let mut sim = yard("backfill", &[("A100", 24)], None);
    submit(&mut sim, memory(9), 100);
    let task = submit(&mut sim, memory(24), 100);
    assert_eq!(change(&sim, task), Some(RequestChange::GpuMemory(15 * GIB)));
    let far = submit(&mut sim, memory(23), 500);
    assert_eq!(change(&sim, far), None, "the room is kept for the one before it");
}

#[test]
fn a_shorter_promise_would_start_it_now() {
    let mut sim = yard("backfill", &[("V100", 16), ("V100", 16)], None);
    submit(&mut sim, gpus(1), 100);
    submit(&mut sim, gpus(2), 100);
    let task = submit(&mut sim, gpus(1), 500);
    sim.run_until(Time(secs(40).0));
    assert_eq!(change(&sim, task), Some(RequestChange::Timeout(secs(60))));
}

#[test]
fn fewer_devices_other_types_or_another_mode_would_start_it_now() {
    let mut sim = yard("hybrid", &[("V100", 16), ("V100", 16), ("K80", 16)], None);
    let first = DeviceId { worker: WorkerId(0), index: 0 };
    submit(&mut sim, Needs { scope: vec![first], ..gpus(1) }, 100);
    let two = submit(&mut sim, Needs { gpu_types: vec!["V100".into()], ..gpus(2) }, 100);
    assert_eq!(change(&sim, two), Some(RequestChange::OrType("K80".into())));
    let three = submit(&mut sim, gpus(3), 100);
    assert_eq!(change(&sim, three), Some(RequestChange::Gpus(2)));
    let mode = Needs { preferred: vec![first], wait_mode: WaitMode::Queue, ..gpus(1) };
    let queues = submit(&mut sim, mode, 100);
    assert_eq!(change(&sim, queues), Some(RequestChange::Schedule));
    let runs = submit(&mut sim, gpus(1), 100);
    assert_eq!(change(&sim, runs), None, "it runs already");
}

#[test]
fn an_excerpt_of_the_head_of_the_queue_forecasts_what_the_whole_does() {
    let mut sim = yard("fifo", &[("V100", 16)], None);
    let tasks: Vec<_> = (0..40).map(|_| submit(&mut sim, gpus(1), 60)).collect();
    let limits = ForecastBudget { samples: 2, events: 5_000, solves: 0 };
    let ahead = |cluster| forecast(cluster, POLICIES, sim.now(), &tasks[..10], limits, |_, _| Some(secs(60)));
    let excerpt = sim.cluster().excerpt(tasks[..12].iter().map(|task| task.job));
    assert_eq!(excerpt.jobs().len(), 12);
    assert_eq!(ahead(&excerpt), ahead(sim.cluster()));
    let all = sim.cluster().excerpt(tasks.iter().map(|task| task.job));
    assert_eq!(all, *sim.cluster(), "an excerpt of everything is everything");
    assert_eq!(sim.cluster().saved().restored(), *sim.cluster(), "what is saved is all there is to know");
}
