//! When waiting tasks will start: the queue is simulated forward from a copy of the live state, several times, with run
//! times drawn anew each time, and what came out is given as a range. Where time is shared out in rounds, the rounds are
//! simulated too, and targets are solved for as long as that is cheap; two that share their devices slow each other. Whoever
//! is asked to stand still or to go on does so at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::convert::Infallible;
use warpyard_core::command::Standing;
use warpyard_core::engine::{Engine, Store};
use warpyard_core::event::{End, Event, How, StopWhy, Usage, What};
use warpyard_core::{
    AttemptId, Cluster, Command, PolicyDef, Rejected, Span, TaskId, TaskState, Time, WorkerId,
};

/// How much a forecast may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How often the queue is simulated.
    pub samples: u32,
    /// How many events each of these may take.
    pub events: u64,
    /// How often in each of these a slow solver is asked; after that its last answer stands.
    pub errands: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { samples: 20, events: 20_000, errands: 10 }
    }
}

/// When a task is expected to start, eight times in ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The earliest of all samples.
    pub from: Time,
    /// The latest of all samples.
    pub to: Time,
}

/// When each of these tasks will start; none for one that does not start within the limits in every sample.
///
/// `run_time` gives how long a task will run in one of the samples: the whole run for one that waits, what is left for
/// one that runs, in either case alone on its devices. Given the same answers, the forecast is the same.
pub fn forecast(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    tasks: &[TaskId],
    limits: Limits,
    mut run_time: impl FnMut(TaskId, u32) -> Span,
) -> Result<BTreeMap<TaskId, Option<Expected>>, Rejected> {
    let mut starts: BTreeMap<TaskId, Vec<Time>> = tasks.iter().map(|&t| (t, Vec::new())).collect();
    for sample in 0..limits.samples {
        let run = Ahead::from(cluster, policies, now, |task| run_time(task, sample))?;
        for (task, at) in run.until(limits, tasks) {
            starts.entry(task).or_default().push(at);
        }
    }
    let expected = |times: Vec<Time>| range(&times, limits.samples as usize);
    Ok(starts.into_iter().map(|(task, times)| (task, expected(times))).collect())
}

/// From the earliest to the latest. That is wider than eight samples in ten, because no sample knows what will arrive
/// later; measured (`benches/forecast.rs`) it holds about eight times in ten.
fn range(times: &[Time], samples: usize) -> Option<Expected> {
    let all = times.len() == samples;
    let (from, to) = (times.iter().min()?, times.iter().max()?);
    all.then_some(Expected { from: *from, to: *to })
}

/// One run of the queue into the future.
struct Ahead<F> {
    engine: Engine,
    now: Time,
    /// When attempts end; void where that is no longer so.
    ends: BinaryHeap<Reverse<(Time, AttemptId)>>,
    under_way: BTreeMap<AttemptId, UnderWay>,
    /// What is left of tasks that gave way.
    left: BTreeMap<TaskId, Span>,
    run_time: F,
}

/// An attempt that runs.
#[derive(Clone, Copy)]
struct UnderWay {
    worker: WorkerId,
    /// What was left of its task at `since`, in time alone on its devices.
    left: Span,
    since: Time,
    /// The part of its speed that those beside it leave it.
    speed: f64,
}

impl UnderWay {
    fn left_at(self, now: Time) -> Span {
        let done = now.since(self.since);
        self.left - if self.speed == 1.0 { done } else { Span::from_secs(done.secs() * self.speed) }
    }

    fn end(self) -> Time {
        let takes =
            if self.speed == 1.0 { self.left } else { Span::from_secs(self.left.secs() / self.speed) };
        self.since + takes
    }
}

/// Nobody gets nowhere for ever.
const SLOWEST: f64 = 1e-3;

impl<F: FnMut(TaskId) -> Span> Ahead<F> {
    fn from(
        cluster: &Cluster,
        policies: &'static [PolicyDef],
        now: Time,
        mut run_time: F,
    ) -> Result<Ahead<F>, Rejected> {
        let mut begun = Vec::new();
        for (worker, w) in cluster.workers() {
            for &task in w.tasks() {
                let live = &cluster.job(task.job).expect("a worker's task has a job").nodes
                    [task.node as usize]
                    .live[&task.index];
                let left = match cluster.state(task) {
                    Some(TaskState::Paused(a)) if a.pause.is_some() => continue,
                    Some(TaskState::Stopping(..)) => Span::ZERO,
                    _ => run_time(task),
                };
                begun.push((task.attempt(live.attempts), worker, left));
            }
        }
        let engine = Engine::new(cluster.clone(), policies, now)?;
        let (ends, under_way, left) = Default::default();
        let mut ahead = Ahead { engine, now, ends, under_way, left, run_time };
        begun.into_iter().for_each(|(attempt, worker, left)| ahead.begin(attempt, worker, left));
        ahead.pace();
        Ok(ahead)
    }

    fn begin(&mut self, attempt: AttemptId, worker: WorkerId, left: Span) {
        let begun = UnderWay { worker, left, since: self.now, speed: 1.0 };
        self.ends.push(Reverse((begun.end(), attempt)));
        self.under_way.insert(attempt, begun);
    }

    /// Has everyone go as fast as whoever shares their devices lets them.
    fn pace(&mut self) {
        let view = self.engine.cluster().view();
        if !view.shares().knows_pairs() {
            return;
        }
        for (attempt, run) in &mut self.under_way {
            let speed = view.speed_kept(attempt.task).max(SLOWEST);
            if speed != run.speed {
                *run = UnderWay { left: run.left_at(self.now), since: self.now, speed, ..*run };
                self.ends.push(Reverse((run.end(), *attempt)));
            }
        }
    }

    /// Runs until all of these tasks have started, nothing more happens, or too much has; gives when each started.
    fn until(mut self, limits: Limits, tasks: &[TaskId]) -> Vec<(TaskId, Time)> {
        let mut missing: BTreeSet<TaskId> = tasks.iter().copied().collect();
        let mut started = Vec::new();
        let before = self.engine.cluster().seq();
        let mut errands = limits.errands;
        let mut batch = self.without_leases();
        batch.extend(self.as_asked());
        while !missing.is_empty() && self.engine.cluster().seq() - before < limits.events {
            let Ok(turned) = self.engine.turn(batch, self.now, &mut Nowhere);
            batch = Vec::new();
            for event in turned.events {
                match event.what {
                    What::Placed { attempt, placement } => {
                        let left = self.left.remove(&attempt.task);
                        let left = left.unwrap_or_else(|| (self.run_time)(attempt.task));
                        self.begin(attempt, placement.worker, left);
                        if self.has_rounds() {
                            batch.push(says(placement.worker, attempt, Standing::Running));
                        }
                        if missing.remove(&attempt.task) {
                            started.push((attempt.task, self.now));
                        }
                    }
                    What::StopAsked { attempt, why: StopWhy::Requeued } => {
                        batch.extend(self.give_way(attempt))
                    }
                    What::PauseAsked { attempt, .. } => batch.extend(self.stand_still(attempt)),
                    What::ResumeAsked { attempt } => batch.extend(self.go_on(attempt)),
                    _ => {}
                }
            }
            self.pace();
            if batch.is_empty()
                && errands > 0
                && let Some(errand) = self.engine.errand(self.now)
            {
                errands -= 1;
                batch.push(errand());
            }
            // A plan may ask for another before anything else happens.
            let again = self.engine.next_deadline().is_some_and(|at| at <= self.now);
            if batch.is_empty() && !again {
                let Some(next) = self.next_moment() else { break };
                self.now = self.now.max(next);
                batch = self.ends_now();
            }
        }
        started
    }

    /// An attempt that was asked to save and exit has done so; what is left of its task is kept.
    fn give_way(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.under_way.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(over(run.worker, attempt, How::Stopped))
    }

    /// An attempt that was asked to stand still does.
    fn stand_still(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.under_way.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(says(run.worker, attempt, Standing::Frozen))
    }

    /// One that stood still goes on.
    fn go_on(&mut self, attempt: AttemptId) -> Option<Command> {
        let (on, _) = self.engine.cluster().view().attempt(attempt.task)?;
        let worker = on.placement.worker;
        let left = self.left.remove(&attempt.task).unwrap_or_else(|| (self.run_time)(attempt.task));
        self.begin(attempt, worker, left);
        Some(says(worker, attempt, Standing::Running))
    }

    /// What was asked of attempts before, and has not been heard of yet, happens now.
    fn as_asked(&mut self) -> Vec<Command> {
        let (mut batch, rounds) = (Vec::new(), self.has_rounds());
        for attempt in self.under_way.keys().copied().collect::<Vec<_>>() {
            match self.engine.cluster().state(attempt.task) {
                Some(TaskState::Running(a)) if a.pause.is_some() => batch.extend(self.stand_still(attempt)),
                Some(TaskState::Placed(a)) if rounds => {
                    batch.push(says(a.placement.worker, attempt, Standing::Running));
                }
                // Of those that stand still, only who is to go on is under way.
                Some(TaskState::Paused(a)) => {
                    batch.push(says(a.placement.worker, attempt, Standing::Running));
                }
                _ => {}
            }
        }
        batch
    }

    /// Whether it matters who runs, not only who has a place.
    fn has_rounds(&self) -> bool {
        self.engine.cluster().shares().round_until().is_some()
    }

    /// When something ends next, or a round does.
    fn next_moment(&self) -> Option<Time> {
        let end = self.ends.peek().map(|&Reverse((at, ..))| at);
        let round = self.engine.cluster().view().shares().round_until().filter(|until| *until > self.now);
        // Rounds in which nobody runs begin nothing.
        end.map(|end| round.map_or(end, |round| end.min(round)))
    }

    /// Nobody reports in a forecast, so nobody may be missed.
    fn without_leases(&self) -> Vec<Command> {
        let online = self.engine.cluster().workers().filter(|(_, w)| w.online && w.info.lease.is_some());
        online
            .map(|(_, w)| {
                let mut info = w.info.clone();
                info.lease = None;
                Command::Join(info)
            })
            .collect()
    }

    /// What ends by now; what gave way before, or goes at another speed since, does not end when that was noted.
    fn ends_now(&mut self) -> Vec<Command> {
        let mut batch = Vec::new();
        while let Some(&Reverse((at, attempt))) = self.ends.peek().filter(|e| e.0.0 <= self.now) {
            self.ends.pop();
            if let Some(run) = self.under_way.get(&attempt).copied().filter(|run| run.end() == at) {
                self.under_way.remove(&attempt);
                batch.push(over(run.worker, attempt, How::Exited(0)));
            }
        }
        batch
    }
}

fn over(worker: WorkerId, attempt: AttemptId, how: How) -> Command {
    says(worker, attempt, Standing::Over(End { how, usage: Usage::default() }))
}

fn says(worker: WorkerId, attempt: AttemptId, standing: Standing) -> Command {
    Command::Report { worker, attempts: [(attempt, standing)].into(), devices: BTreeMap::new() }
}

/// Keeps nothing.
struct Nowhere;

impl Store for Nowhere {
    type Error = Infallible;

    fn append(&mut self, _: u64, _: &[Event]) -> Result<(), Infallible> {
        Ok(())
    }
}
