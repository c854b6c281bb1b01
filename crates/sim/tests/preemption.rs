//! What holds of every policy in which the less urgent give way: everything gets done, no work is lost or done twice, and
//! nobody takes turns.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use warpyard_core::event::{EventKind, Outcome, RequestedBy};
use warpyard_core::pool::Placement;
use warpyard_core::spec::{JobSpec, Needs, Preempt, TaskSpec, default_grace};
use warpyard_core::{AttemptId, DeviceId, Span, Time};
use warpyard_policies::POLICIES;
use warpyard_sim::random::Random;
use warpyard_sim::workload::cluster;
use warpyard_sim::{Arrival, RunModel, Setup, Sim};

const JOBS: u64 = 40;

fn arrivals(seed: u64) -> Vec<Arrival> {
    let mut random = Random::new(seed);
    let mut at = 0.0;
    let whole = |seconds: f64| Span::from_secs(seconds.round());
    let one = |_| {
        at += random.exponential(12.0);
        let length = whole(2.0 + random.exponential(25.0));
        let shares = random.below(3) > 0;
        let needs =
            Needs { gpus: 1, gpu_memory: shares.then(|| (1 + random.below(6)) << 30), ..Needs::default() };
        // What holds a whole device frees nothing by standing still.
        let preempt = match random.below(4) {
            0 => Preempt::None,
            1 | 2 if shares => Preempt::Freeze,
            3 => Preempt::Yield,
            _ => Preempt::Requeue,
        };
        let task = TaskSpec {
            name: "task".into(),
            needs,
            expected: Some(length),
            preempt,
            batch_time: Some(Span::from_secs(4.0)),
            item_time: Some(Span::from_secs(1.0)),
            grace: default_grace(),
            ..TaskSpec::default()
        };
        let priority = random.below(4) as i64;
        let spec = JobSpec { name: "job".into(), priority, tasks: vec![task], ..JobSpec::default() };
        Arrival {
            at: Time::from_secs(at),
            user: "ann".into(),
            spec: spec.into(),
            runs: RunModel::Constant(length),
        }
    };
    (0..JOBS).map(one).collect()
}

/// What was asked of attempts by the policy.
#[derive(Default)]
struct Asked {
    now: Time,
    paused: BTreeSet<AttemptId>,
    stood_still: BTreeSet<AttemptId>,
    resumed: BTreeSet<AttemptId>,
    counts: EventCounts,
}

/// How many were asked to give way, and of how many that was taken back at the same moment, before they had.
#[derive(Clone, Copy, Default)]
struct EventCounts {
    preemptions: u64,
    taken_back: u64,
}

impl Asked {
    fn hear(&mut self, at: Time, what: &EventKind) {
        if at != self.now {
            *self = Asked { now: at, counts: self.counts, ..Asked::default() };
        }
        match what {
            EventKind::PauseAsked { attempt, by: RequestedBy::Policy, .. } => {
                self.counts.preemptions += 1;
                assert!(
                    !self.resumed.contains(attempt),
                    "{attempt} was to go on and to stand still at {at:?}"
                );
                self.paused.insert(*attempt);
            }
            EventKind::Paused { attempt } => drop(self.stood_still.insert(*attempt)),
            EventKind::ResumeAsked { attempt } => {
                let asked_just_now = self.paused.contains(attempt);
                assert!(
                    !(asked_just_now && self.stood_still.contains(attempt)),
                    "{attempt} stood still and was to go on at {at:?}"
                );
                self.counts.taken_back += u64::from(asked_just_now);
                self.resumed.insert(*attempt);
            }
            EventKind::StopAsked { .. } => self.counts.preemptions += 1,
            _ => {}
        }
    }
}

/// Runs a workload; gives what was asked.
fn run(policy: &str, seed: u64) -> EventCounts {
    let mut workers = cluster("2xV100:16GiB/1").unwrap();
    for worker in &mut workers {
        worker.devices[0].limit = Some(1 + (seed % 2) as u16);
    }
    let setup = Setup { workers, policy: policy.parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let arrivals = arrivals(seed);
    let lengths: BTreeMap<u64, f64> = (1..).zip(&arrivals).map(|(job, a)| (job, length(a))).collect();
    let asked = Rc::new(RefCell::new(Asked::default()));
    let hears = asked.clone();
    sim.watch(move |event| hears.borrow_mut().hear(event.at, &event.what));
    sim.feed(arrivals.into_iter());
    sim.run();
    assert_eq!(sim.records().len() as u64, JOBS);
    for record in sim.records() {
        assert_eq!(record.outcome, Some(Outcome::Succeeded), "{policy} seed {seed}: {record:?}");
        let length = lengths[&record.task.job.0];
        assert!((record.ran.secs() - length).abs() < 1e-4, "{policy} seed {seed}: {length} s in {record:?}");
    }
    drop(sim);
    Rc::into_inner(asked).expect("the simulation is gone").into_inner().counts
}

fn length(arrival: &Arrival) -> f64 {
    match &arrival.runs {
        RunModel::Constant(length) => length.secs(),
        RunModel::PerNode(_) | RunModel::Recorded(_) | RunModel::Steps(_) => {
            unreachable!("every job here has one length")
        }
    }
}

/// Each arrival makes room for itself at most once, by having at most as many give way as share a device.
#[test]
fn nobody_takes_turns_and_nothing_is_lost() {
    let mut most = 0;
    for policy in ["srtf", "srtf:behind=nobody", "wsjf:granularity=batch", "wsjf:by=ratio,granularity=item"] {
        for seed in 0..100 {
            let EventCounts { preemptions, taken_back } = run(policy, seed);
            assert_eq!(taken_back, 0, "{policy} seed {seed}");
            assert!(preemptions <= JOBS * (1 + seed % 2), "{policy} seed {seed}: {preemptions} gave way");
            most = most.max(preemptions);
        }
    }
    assert!(most > 5, "hardly anyone gave way: {most}");
}

/// A task sinks a few levels in its life, and only then, or for an arrival, does anyone give way. Where one who was asked
/// ends at once and leaves room for two, another who was asked for the second may go on.
#[test]
fn sinking_is_bounded_by_levels() {
    let mut most = 0;
    for seed in 0..400 {
        let EventCounts { preemptions, .. } = run("las:quantum=5,factor=3", seed);
        assert!(preemptions <= JOBS * 5 * (1 + seed % 2), "seed {seed}: {preemptions} gave way");
        most = most.max(preemptions);
    }
    assert!(most > 5, "hardly anyone gave way: {most}");
}

/// Rounds of 10 s, items of 7 s: whoever is asked to give way at 10 s does so at 14 s, and nothing of its work is lost.
#[test]
fn a_task_that_yields_gives_way_between_two_items() {
    let workers = cluster("1xV100:16GiB").unwrap();
    let setup = Setup { workers, policy: "max-min:round=10".parse().unwrap(), ..Setup::default() };
    let mut sim = Sim::new(setup, POLICIES).unwrap();
    let parted = Rc::new(RefCell::new(Vec::new()));
    let notes = parted.clone();
    sim.watch(move |event| match &event.what {
        EventKind::StopAsked { .. } => notes.borrow_mut().push(("asked", event.at.secs())),
        EventKind::Ended { .. } => notes.borrow_mut().push(("ended", event.at.secs())),
        _ => {}
    });
    for _ in 0..2 {
        let task = TaskSpec {
            name: "task".into(),
            needs: Needs { gpus: 1, ..Needs::default() },
            expected: Some(Span::from_secs(20.0)),
            preempt: Preempt::Yield,
            item_time: Some(Span::from_secs(7.0)),
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: "job".into(), tasks: vec![task], ..JobSpec::default() };
        sim.submit("ann", spec, RunModel::Constant(Span::from_secs(20.0))).unwrap();
    }
    sim.run();
    assert_eq!(parted.borrow()[..2], [("asked", 10.0), ("ended", 14.0)]);
    let ended: Vec<f64> = sim.records().iter().filter_map(|record| Some(record.ended?.secs())).collect();
    assert_eq!(ended.iter().copied().fold(0.0, f64::max), 40.0, "{ended:?}");
}

/// Tasks that state their memory and can be frozen, by their devices: who runs there.
#[derive(Default)]
struct Turns {
    on: BTreeMap<AttemptId, Placement>,
    running: BTreeMap<DeviceId, AttemptId>,
    stood_still: u64,
}

impl Turns {
    fn hear(&mut self, what: &EventKind, takes_turns: impl Fn(AttemptId) -> bool) {
        match what {
            EventKind::Placed { attempt, placement } if takes_turns(*attempt) => {
                self.on.insert(*attempt, placement.clone());
                self.runs(*attempt);
            }
            EventKind::ResumeAsked { attempt } => self.runs(*attempt),
            EventKind::Paused { attempt } => {
                self.stood_still += 1;
                self.rests(*attempt);
            }
            EventKind::Ended { attempt, .. } => self.rests(*attempt),
            _ => {}
        }
    }

    fn runs(&mut self, attempt: AttemptId) {
        for device in self.on[&attempt].device_ids() {
            let other = self.running.insert(device, attempt).filter(|other| *other != attempt);
            assert_eq!(other, None, "{attempt} has the time of {device:?} too");
        }
    }

    fn rests(&mut self, attempt: AttemptId) {
        self.running.retain(|_, running| *running != attempt);
    }
}

/// Of those that take turns one at most runs on a GPU; everything gets done, and no work is lost, whatever else there is.
#[test]
fn at_a_rounds_end_everyone_gives_way_as_they_allow() {
    let mut stood_still = 0;
    for (seed, policy) in
        (0..60).zip(["max-min:round=7", "finish-time:round=9", "max-min:round=5,restart=1"].iter().cycle())
    {
        let mut workers = cluster("2xV100:16GiB/1,1xK80:12GiB").unwrap();
        workers[0].devices[0].limit = (seed % 2 == 0).then_some(1);
        let setup = Setup { workers, policy: policy.parse().unwrap(), ..Setup::default() };
        let mut sim = Sim::new(setup, POLICIES).unwrap();
        let arrivals = arrivals(seed);
        let specs: Vec<TaskSpec> = arrivals.iter().map(|arrival| arrival.spec.tasks[0].clone()).collect();
        let lengths: Vec<f64> = arrivals.iter().map(length).collect();
        let turns = Rc::new(RefCell::new(Turns::default()));
        let hears = turns.clone();
        let frozen = specs.clone();
        sim.watch(move |event| {
            hears.borrow_mut().hear(&event.what, |attempt| {
                frozen[attempt.task.job.0 as usize - 1].preempt == Preempt::Freeze
            });
        });
        sim.feed(arrivals.into_iter());
        sim.run();
        assert_eq!(sim.records().len() as u64, JOBS);
        for record in sim.records() {
            assert_eq!(record.outcome, Some(Outcome::Succeeded), "{policy} seed {seed}: {record:?}");
            let (spec, length) =
                (&specs[record.task.job.0 as usize - 1], lengths[record.task.job.0 as usize - 1]);
            let ran = record.ran.secs();
            assert!((ran - length).abs() < 1e-4, "{policy} seed {seed}: {length} s in {record:?}");
            if matches!(spec.preempt, Preempt::None | Preempt::Freeze) {
                assert_eq!(record.attempts, 1, "{policy} seed {seed}: {record:?}");
            }
            match spec.preempt {
                Preempt::None => assert_eq!(record.preemptions, 0, "{policy} seed {seed}: {record:?}"),
                _ => assert!(record.preemptions + 1 >= record.attempts, "{policy} seed {seed}: {record:?}"),
            }
        }
        stood_still += turns.borrow().stood_still;
    }
    assert!(stood_still > 100, "hardly anyone stood still: {stood_still}");
}
