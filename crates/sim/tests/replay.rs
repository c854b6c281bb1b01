//! What happened is simulated again from its events alone, and comes out as it was.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use warpyard_core::command::TaskSelector;
use warpyard_core::{Command, EnvId, Event, EventKind, JobId, Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::replay::{Fidelity, Recorder, Recording, ReplayError, ReplayPolicy};
use warpyard_sim::workload::{Estimate, Generator, Graphs, Shape, cluster};
use warpyard_sim::{Arrival, Setup, Sim, TimedInput};

/// A simulation stands in for what really happened: its events are all that is kept.
fn happened(policy: &str, asked: Vec<(f64, Command)>) -> Vec<Event> {
    let setup = Setup {
        workers: cluster("4xV100:16GiB,2xK80").unwrap(),
        policy: policy.parse().unwrap(),
        start_delay: Span::from_secs(0.7),
        ..Setup::default()
    };
    let workload = Generator {
        jobs: 120,
        gap: 40.0,
        gpus: vec![(1, 0.7), (2, 0.3)],
        gpu_memory: vec![(None, 2.0), (Some(5 << 30), 1.0)],
        timeouts: Estimate::LogNormal { median: 1.5, deviation: 0.5 },
        guesses: Estimate::Even { from: 0.5, to: 2.0 },
        priorities: 3,
        users: 3,
        preempt: warpyard_core::spec::Preempt::Freeze,
        graphs: Some(Graphs { shape: Shape::Random(0.3), fewest: 2, most: 4, share: 0.3 }),
        ..Generator::default()
    };
    let mut coming: Vec<TimedInput> =
        workload.generate(11).map(|job| TimedInput::Submission(Arrival::from(job), None)).collect();
    // A simulation has no other numbers than its own, from 1 on.
    for (number, coming) in (1..).zip(&mut coming) {
        if let TimedInput::Submission(_, id) = coming {
            *id = Some(JobId(number));
        }
    }
    coming.extend(asked.into_iter().map(|(at, command)| TimedInput::Command(Time::from_secs(at), command)));
    coming.sort_by_key(TimedInput::at);
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let events = Rc::new(RefCell::new(Vec::new()));
    let kept = events.clone();
    sim.watch(move |event| kept.borrow_mut().push(event.clone()));
    sim.feed_all(coming.into_iter());
    sim.run();
    // Workers had joined before anyone watched.
    let mut all: Vec<Event> = Vec::new();
    let mut state = warpyard_core::Cluster::new(policy.parse().unwrap());
    for worker in cluster("4xV100:16GiB,2xK80").unwrap() {
        for event in state.decide(Command::Join(worker), Time(0)).unwrap() {
            state.apply(&event);
            all.push(event);
        }
    }
    drop(sim);
    all.extend(Rc::try_unwrap(events).unwrap().into_inner());
    all
}

fn recorded(policy: &str, events: &[Event], since: f64) -> Recording {
    let mut recorder = Recorder::from_the_beginning(policy.parse().unwrap(), Time::from_secs(since));
    events.iter().for_each(|event| recorder.enter(event));
    recorder.finish()
}

fn agreement(recording: &Recording) -> Fidelity {
    let go_on = |_| ControlFlow::Continue(());
    recording.replay(&ReplayPolicy::AsRecorded, POLICIES, false, None, go_on).unwrap().agreement
}

#[track_caller]
fn exact(recording: &Recording) {
    let found = agreement(recording);
    assert!(found.starts > 50, "{found:?}");
    let wanted = Fidelity { starts: found.starts, same_place: found.starts, ..Fidelity::default() };
    assert_eq!(found, wanted);
}

/// What people do: hold, pause, cancel, change priorities, run again, drain, change the policy.
fn interventions() -> Vec<(f64, Command)> {
    vec![
        (2300.0, Command::Hold(JobId(60).into())),
        (2900.0, Command::Release(JobId(60).into())),
        (2350.0, Command::Cancel(TaskSelector::Job(JobId(61)))),
        (2360.0, Command::SetPriority(JobId(59), 9)),
        (2400.0, Command::Pause(JobId(58).into())),
        (3100.0, Command::Resume(JobId(58).into())),
        (1000.0, Command::SetPolicy("sjf".parse().unwrap())),
        (1500.0, Command::Drain { worker: warpyard_core::WorkerId(1), drained: true, reason: None }),
        (2500.0, Command::Drain { worker: warpyard_core::WorkerId(1), drained: false, reason: None }),
        (2600.0, Command::SetPolicy("short-first:beta=2".parse().unwrap())),
    ]
}

#[test]
fn every_policy_that_ran_starts_everything_when_it_did() {
    for policy in POLICIES.iter().map(|policy| policy.name) {
        let recording = recorded(policy, &happened(policy, Vec::new()), 0.0);
        assert_eq!((policy, agreement(&recording).max_error_s), (policy, 0.0));
        exact(&recording);
    }
}

#[test]
fn what_people_did_meanwhile_is_done_again() {
    let events = happened("backfill", interventions());
    let recording = recorded("backfill", &events, 0.0);
    exact(&recording);
    assert_eq!(recording.summary().policy_changes, ["sjf", "short-first:beta=2"]);
    assert!(recording.summary().user_commands >= 6, "{:?}", recording.summary());
    assert_eq!(recording.summary().machine_changes, 4, "two workers came, one was drained and taken back");
}

#[test]
fn it_may_begin_in_the_middle() {
    let events = happened("backfill", interventions());
    for since in [310.0, 1200.0, 2000.3, 2450.0, 2700.0] {
        let recording = recorded("backfill", &events, since);
        assert!(recording.summary().initial > 0, "{since}");
        exact(&recording);
    }
}

/// Every attempt that is there is measured now and then, and some use more memory than they requested.
fn measurements() -> Vec<(f64, Command)> {
    let workers = cluster("4xV100:16GiB,2xK80").unwrap();
    let measured = |nth: u64| {
        let attempt = |job| warpyard_core::TaskId { job: JobId(job), node: 0, index: 0 }.attempt(1);
        let used = move |job: u64| (3 + (nth / 4 + job) % 7) << 30;
        workers.iter().enumerate().map(move |(id, worker)| {
            let of = |job| worker.devices.iter().map(|device| (device.uuid.clone(), used(job))).collect();
            let used = (1..=120).map(|job| (attempt(job), of(job))).collect();
            (25.0 * nth as f64, Command::MeasuredMemory { worker: warpyard_core::WorkerId(id as u32), used })
        })
    };
    (1..=160).flat_map(measured).collect()
}

#[test]
fn memory_that_was_used_beyond_the_request_is_used_again() {
    let events = happened("backfill", measurements());
    let charges = events.iter().filter(|event| matches!(event.what, EventKind::MemoryCharged { .. })).count();
    assert!(charges > 20, "{charges}");
    for since in [0.0, 1200.0, 2000.3] {
        exact(&recorded("backfill", &events, since));
    }
}

#[test]
fn another_policy_gives_other_figures_of_the_same_jobs() {
    let events = happened("fifo", Vec::new());
    let recording = recorded("fifo", &events, 0.0);
    let under = ReplayPolicy::Fixed("sjf".parse().unwrap());
    let replayed = recording.replay(&under, POLICIES, false, None, |_| ControlFlow::Continue(())).unwrap();
    let as_it_was = recording.recorded(false);
    assert_eq!((replayed.report.jobs, replayed.report.finished), (as_it_was.jobs, as_it_was.finished));
    assert!(replayed.report.wait.average < as_it_was.wait.average, "short ones first");
    assert!(replayed.agreement.same_place < replayed.agreement.starts);
}

/// The same events, of jobs that each came with an environment that was kept before them all.
fn with_environments(events: Vec<Event>) -> Vec<Event> {
    let kept = EventKind::EnvKept { env: EnvId(0), vars: Default::default() };
    let mut all = vec![Event { at: Time(0), what: kept }];
    for Event { at, mut what } in events {
        if let EventKind::JobSubmitted { spec, .. } = &mut what {
            std::sync::Arc::make_mut(spec).env = Some(EnvId(0));
        }
        all.push(Event { at, what });
    }
    all
}

#[test]
fn a_log_whose_beginning_is_gone_is_replayed_as_far_as_it_goes() {
    let events = with_environments(happened("backfill", Vec::new()));
    let mut later = warpyard_core::Cluster::new("backfill".parse().unwrap());
    events.iter().for_each(|event| drop(later.apply(event)));
    let mut recorder = Recorder::from_what_is_left(&later, Time(0));
    let mut left = events.iter().skip(events.len() / 3).peekable();
    // Of jobs that came before what is left, more is told than how their attempts went.
    let at = left.peek().unwrap().at;
    let (job, until) = (JobId(1), at);
    let task = warpyard_core::TaskId { job, node: 0, index: 0 };
    let charged = EventKind::MemoryCharged { attempt: task.attempt(1), device: 0, bytes: 3 };
    for what in [EventKind::ClaimExtended { job, until }, EventKind::Progressed { task, steps: 3 }, charged] {
        recorder.enter(&Event { at, what });
    }
    left.for_each(|event| recorder.enter(event));
    let recording = recorder.finish();
    assert!(recording.summary().unknown > 0, "{:?}", recording.summary());
    assert!(agreement(&recording).starts > 50);
}

#[test]
fn whoever_has_seen_enough_stops_it() {
    let recording = recorded("fifo", &happened("fifo", Vec::new()), 0.0);
    let stopped =
        recording.replay(&ReplayPolicy::AsRecorded, POLICIES, false, None, |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(ReplayError::Stopped)), "it goes on");
}
