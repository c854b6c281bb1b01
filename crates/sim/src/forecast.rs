//! When waiting tasks will start: the queue is simulated forward from a copy of the live state, several times, with run
//! times drawn anew each time, and what came out is given as a range. Where time is shared out in rounds, the rounds are
//! simulated too, and targets are solved for as long as that is cheap; two that share their devices slow each other. Whoever
//! is asked to stand still or to go on does so at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, EventKind, StopReason, Usage};
use warpyard_core::store::Discard;
use warpyard_core::{
    AttemptId, Cluster, Command, PolicyDef, Rejection, Span, TaskId, TaskState, Time, WorkerId,
};

/// How much a forecast may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastBudget {
    /// How often the queue is simulated.
    pub samples: u32,
    /// How many events each of these may take.
    pub events: u64,
    /// How often in each of these a slow solver is asked; after that its last answer stands.
    pub errands: u32,
}

impl Default for ForecastBudget {
    fn default() -> ForecastBudget {
        ForecastBudget { samples: 20, events: 20_000, errands: 10 }
    }
}

/// When a task is expected to start, as far as that can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartForecast {
    /// Between two moments, eight times in ten.
    Range(ForecastRange),
    /// No range can be given.
    Unknown(UnknownStart),
}

impl StartForecast {
    /// The range, where there is one.
    pub fn range(&self) -> Option<&ForecastRange> {
        match self {
            StartForecast::Range(range) => Some(range),
            StartForecast::Unknown(_) => None,
        }
    }
}

/// The range in which a task is expected to start, eight times in ten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastRange {
    /// The earliest of all samples.
    pub from: Time,
    /// The latest of all samples.
    pub to: Time,
    /// The tasks whose ends let it start in most samples, the most frequent first.
    pub hinges_on: Vec<TaskId>,
    /// Tasks of unknown length that would let it start earlier than `to` if they ended; `from` assumes that they end now.
    pub sooner_after: Vec<TaskId>,
}

/// Why no range can be given for a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownStart {
    /// It may have to wait for one of these tasks, and nothing is known of how long they run.
    Lengths(Vec<TaskId>),
    /// More happens before its start than a forecast follows.
    TooFar,
    /// No end of a task that runs or waits would make room for it.
    NoEnd,
}

/// How many tasks a range is said to hinge on.
const HINGES: usize = 2;

/// When each of these tasks will start.
///
/// `run_time` gives how long a task will run in one of the samples: the whole run for one that waits, the rest of it for
/// one that runs, in either case alone on its devices; nothing where that is not known. Given the same answers, the
/// forecast is the same. A task of unknown length is taken never to end for the later end of a range and to end at once
/// for the earlier one, so that a range holds whenever it ends.
pub fn forecast(
    cluster: &Cluster,
    policies: &'static [PolicyDef],
    now: Time,
    tasks: &[TaskId],
    limits: ForecastBudget,
    mut run_time: impl FnMut(TaskId, u32) -> Option<Span>,
) -> Result<BTreeMap<TaskId, StartForecast>, Rejection> {
    let mut seen: BTreeMap<TaskId, TaskSamples> =
        tasks.iter().map(|&t| (t, TaskSamples::default())).collect();
    for sample in 0..limits.samples {
        let mut some_unknown = false;
        let draw = |task| {
            let drawn = run_time(task, sample);
            some_unknown |= drawn.is_none();
            drawn
        };
        let ran = Lookahead::from(cluster, policies, now, draw)?.until(limits, tasks);
        for (task, samples) in &mut seen {
            samples.add(*task, &ran);
        }
        if some_unknown && seen.values().any(|samples| samples.starts()) {
            let at_once = |task| Some(run_time(task, sample).unwrap_or(Span::ZERO));
            let ran = Lookahead::from(cluster, policies, now, at_once)?.until(limits, tasks);
            for (task, samples) in &mut seen {
                samples.at_best.extend(ran.started.get(task).map(|(at, _)| *at));
            }
        }
    }
    let samples = limits.samples as usize;
    Ok(seen.into_iter().map(|(task, seen)| (task, seen.expectation(samples))).collect())
}

/// What the samples say of one task.
#[derive(Default)]
struct TaskSamples {
    starts: Vec<Time>,
    /// The starts if tasks of unknown length ended at once.
    at_best: Vec<Time>,
    /// How often each task's end let it start.
    let_in_by: BTreeMap<TaskId, u32>,
    /// Tasks of unknown length that ran when it started, or when no more was to come.
    unknown: BTreeSet<TaskId>,
    too_far: bool,
    never: bool,
}

impl TaskSamples {
    /// Whether it started in every sample so far.
    fn starts(&self) -> bool {
        !self.too_far && !self.never
    }

    fn add(&mut self, task: TaskId, ran: &SampleOutcome) {
        self.unknown.extend(&ran.unknown);
        match ran.started.get(&task) {
            Some((at, after)) => {
                self.starts.push(*at);
                after.iter().for_each(|task| *self.let_in_by.entry(*task).or_default() += 1);
            }
            None if ran.cut_off => self.too_far = true,
            None => self.never = true,
        }
    }

    /// From the earliest to the latest. That is wider than eight samples in ten, because no sample knows what will arrive
    /// later; measured (`tests/calibration.rs`) it holds about eight times in ten.
    fn expectation(self, samples: usize) -> StartForecast {
        let (from, to) = (self.starts.iter().min(), self.starts.iter().max());
        match (from, to) {
            (Some(&from), Some(&to)) if self.starts.len() == samples => {
                let best = self.at_best.into_iter().min().unwrap_or(from).min(from);
                let mut hinges: Vec<_> = self.let_in_by.into_iter().collect();
                hinges.sort_by_key(|(task, times)| (Reverse(*times), *task));
                let unknown = self.unknown.into_iter().filter(|_| best < from);
                StartForecast::Range(ForecastRange {
                    from: best,
                    to,
                    hinges_on: hinges.into_iter().map(|(task, _)| task).take(HINGES).collect(),
                    sooner_after: unknown.collect(),
                })
            }
            _ if !self.unknown.is_empty() => {
                StartForecast::Unknown(UnknownStart::Lengths(self.unknown.into_iter().collect()))
            }
            _ if self.too_far => StartForecast::Unknown(UnknownStart::TooFar),
            _ => StartForecast::Unknown(UnknownStart::NoEnd),
        }
    }
}

/// What one run of the queue into the future came to.
struct SampleOutcome {
    /// When each task started, and the task whose end came last before that.
    started: BTreeMap<TaskId, (Time, Option<TaskId>)>,
    /// Tasks of unknown length that still run.
    unknown: Vec<TaskId>,
    /// Whether more happened than may.
    cut_off: bool,
}

/// One run of the queue into the future.
struct Lookahead<F> {
    engine: Engine,
    now: Time,
    /// When attempts end; void where that is no longer so.
    ends: BinaryHeap<Reverse<(Time, AttemptId)>>,
    under_way: BTreeMap<AttemptId, RunningAttempt>,
    /// What is left of tasks that gave way, as far as that is known.
    left: BTreeMap<TaskId, Option<Span>>,
    /// The task that ended last.
    ended: Option<TaskId>,
    run_time: F,
}

/// An attempt that runs.
#[derive(Clone, Copy)]
struct RunningAttempt {
    worker: WorkerId,
    /// What was left of its task at `since`, in time alone on its devices; nothing where that is not known.
    left: Option<Span>,
    since: Time,
    /// The part of its speed that those beside it leave it.
    speed: f64,
}

impl RunningAttempt {
    fn left_at(self, now: Time) -> Option<Span> {
        let done = now.since(self.since);
        let done = if self.speed == 1.0 { done } else { Span::from_secs(done.secs() * self.speed) };
        Some(self.left? - done)
    }

    /// When it ends; never, as far as is known, where its length is not.
    fn end(self) -> Option<Time> {
        let left = self.left?;
        Some(self.since + if self.speed == 1.0 { left } else { Span::from_secs(left.secs() / self.speed) })
    }
}

/// Nobody gets nowhere for ever.
const SLOWEST: f64 = 1e-3;

impl<F: FnMut(TaskId) -> Option<Span>> Lookahead<F> {
    fn from(
        cluster: &Cluster,
        policies: &'static [PolicyDef],
        now: Time,
        mut run_time: F,
    ) -> Result<Lookahead<F>, Rejection> {
        let mut begun = Vec::new();
        for (worker, w) in cluster.workers() {
            for &task in w.tasks() {
                let live = &cluster.job(task.job).expect("a worker's task has a job").nodes
                    [task.node as usize]
                    .live[&task.index];
                let left = match cluster.state(task) {
                    Some(TaskState::Paused(a)) if a.pause.is_some() => continue,
                    Some(TaskState::Stopping(..)) => Some(Span::ZERO),
                    _ => run_time(task),
                };
                begun.push((task.attempt(live.attempts), worker, left));
            }
        }
        let engine = Engine::new(cluster.clone(), policies, now)?;
        let (ends, under_way, left) = Default::default();
        let mut ahead = Lookahead { engine, now, ends, under_way, left, ended: None, run_time };
        begun.into_iter().for_each(|(attempt, worker, left)| ahead.begin(attempt, worker, left));
        ahead.pace();
        Ok(ahead)
    }

    fn begin(&mut self, attempt: AttemptId, worker: WorkerId, left: Option<Span>) {
        let begun = RunningAttempt { worker, left, since: self.now, speed: 1.0 };
        self.ends.extend(begun.end().map(|end| Reverse((end, attempt))));
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
                *run = RunningAttempt { left: run.left_at(self.now), since: self.now, speed, ..*run };
                self.ends.extend(run.end().map(|end| Reverse((end, *attempt))));
            }
        }
    }

    /// Runs until all of these tasks have started, nothing more happens, or too much has.
    fn until(mut self, limits: ForecastBudget, tasks: &[TaskId]) -> SampleOutcome {
        let mut missing: BTreeSet<TaskId> = tasks.iter().copied().collect();
        let mut started = BTreeMap::new();
        let before = self.engine.cluster().seq();
        let mut errands = limits.errands;
        let mut batch = self.without_leases();
        batch.extend(self.as_asked());
        // Rounds in which nothing changes are no events, and may go on for ever where no end is known.
        let (mut turns, mut cut_off) = (0, false);
        while !missing.is_empty() {
            turns += 1;
            if turns > limits.events || self.engine.cluster().seq() - before >= limits.events {
                cut_off = true;
                break;
            }
            let Ok(turned) = self.engine.turn(batch, self.now, &mut Discard);
            batch = Vec::new();
            for event in turned.events {
                match event.what {
                    EventKind::Placed { attempt, placement } => {
                        let left = self.left.remove(&attempt.task);
                        let left = left.unwrap_or_else(|| (self.run_time)(attempt.task));
                        self.begin(attempt, placement.worker, left);
                        if self.has_rounds() {
                            batch.push(says(placement.worker, attempt, AttemptStatus::Running));
                        }
                        if missing.remove(&attempt.task) {
                            started.insert(attempt.task, (self.now, self.ended));
                        }
                    }
                    EventKind::StopAsked { attempt, why: StopReason::Requeued } => {
                        batch.extend(self.give_way(attempt))
                    }
                    EventKind::PauseAsked { attempt, .. } => batch.extend(self.stand_still(attempt)),
                    EventKind::ResumeAsked { attempt } => batch.extend(self.go_on(attempt)),
                    _ => {}
                }
            }
            self.pace();
            if batch.is_empty()
                && errands > 0
                && let Some(errand) = self.engine.background_solve(self.now)
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
        let unknown = self.under_way.iter().filter(|(_, run)| run.left.is_none());
        SampleOutcome { started, unknown: unknown.map(|(attempt, _)| attempt.task).collect(), cut_off }
    }

    /// An attempt that was asked to save and exit has done so; what is left of its task is kept.
    fn give_way(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.under_way.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(over(run.worker, attempt, EndReason::Stopped))
    }

    /// An attempt that was asked to stand still does.
    fn stand_still(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.under_way.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(says(run.worker, attempt, AttemptStatus::Frozen))
    }

    /// One that stood still goes on.
    fn go_on(&mut self, attempt: AttemptId) -> Option<Command> {
        let (on, _) = self.engine.cluster().view().attempt(attempt.task)?;
        let worker = on.placement.worker;
        let left = self.left.remove(&attempt.task).unwrap_or_else(|| (self.run_time)(attempt.task));
        self.begin(attempt, worker, left);
        Some(says(worker, attempt, AttemptStatus::Running))
    }

    /// What was asked of attempts before, and has not been heard of yet, happens now.
    fn as_asked(&mut self) -> Vec<Command> {
        let (mut batch, rounds) = (Vec::new(), self.has_rounds());
        for attempt in self.under_way.keys().copied().collect::<Vec<_>>() {
            match self.engine.cluster().state(attempt.task) {
                Some(TaskState::Running(a)) if a.pause.is_some() => batch.extend(self.stand_still(attempt)),
                Some(TaskState::Placed(a)) if rounds => {
                    batch.push(says(a.placement.worker, attempt, AttemptStatus::Running));
                }
                // Of those that stand still, only who is to go on is under way.
                Some(TaskState::Paused(a)) => {
                    batch.push(says(a.placement.worker, attempt, AttemptStatus::Running));
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
        match (end, round) {
            (None, round) => round.filter(|_| !self.under_way.is_empty()),
            (Some(end), round) => Some(round.map_or(end, |round| end.min(round))),
        }
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
            if let Some(run) = self.under_way.get(&attempt).copied().filter(|run| run.end() == Some(at)) {
                self.under_way.remove(&attempt);
                self.ended = Some(attempt.task);
                batch.push(over(run.worker, attempt, EndReason::Exited(0)));
            }
        }
        batch
    }
}

fn over(worker: WorkerId, attempt: AttemptId, how: EndReason) -> Command {
    says(worker, attempt, AttemptStatus::Over(End { how, usage: Usage::default() }))
}

fn says(worker: WorkerId, attempt: AttemptId, standing: AttemptStatus) -> Command {
    Command::Report { worker, attempts: [(attempt, standing)].into(), devices: BTreeMap::new() }
}
