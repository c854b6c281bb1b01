//! Start forecasts by Monte Carlo simulation: the queue is simulated forward from a copy of the live state several times,
//! each time with newly sampled run times, and the starts found form a range. Under policies that share time in rounds the
//! rounds are simulated too, with a limited number of solves, and tasks that share devices slow each other. Pauses,
//! resumes and requeues take effect at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use warpyard_core::command::AttemptStatus;
use warpyard_core::engine::Engine;
use warpyard_core::event::{End, EndReason, EventKind, StopReason, Usage};
use warpyard_core::store::Discard;
use warpyard_core::{
    AttemptId, Cluster, Command, PolicyDef, Rejection, Span, TaskId, TaskState, Time, WorkerId,
};

/// Budget of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastBudget {
    /// Number of samples: simulations of the queue.
    pub samples: u32,
    /// Maximum number of events in each.
    pub events: u64,
    /// Maximum number of background solves in each; afterwards the last target stays in force.
    pub solves: u32,
}

impl Default for ForecastBudget {
    fn default() -> ForecastBudget {
        ForecastBudget { samples: 20, events: 20_000, solves: 10 }
    }
}

/// Forecast of a task's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartForecast {
    /// Range that holds eight times in ten.
    Range(ForecastRange),
    /// No range can be given, for this reason.
    Unknown(UnknownStart),
}

impl StartForecast {
    /// The range, if there is one.
    pub fn range(&self) -> Option<&ForecastRange> {
        match self {
            StartForecast::Range(range) => Some(range),
            StartForecast::Unknown(_) => None,
        }
    }
}

/// Range of start times that holds eight times in ten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastRange {
    /// Earliest start of all samples.
    pub from: Time,
    /// Latest start of all samples.
    pub to: Time,
    /// Tasks whose ends directly precede the start in most samples, the most frequent first.
    pub hinges_on: Vec<TaskId>,
    /// Tasks of unknown length whose end would let it start earlier than `to`; `from` assumes that they end now.
    pub sooner_after: Vec<TaskId>,
}

/// Reason there is no range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownStart {
    /// The start depends on one of these tasks, whose lengths are unknown.
    Lengths(Vec<TaskId>),
    /// The start lies beyond the budget's number of events.
    TooFar,
    /// No end of a running or queued task makes room for it.
    NoEnd,
}

/// Number of tasks listed in `hinges_on`.
const MAX_HINGES: usize = 2;

/// Forecasts the start of each of these tasks.
///
/// `run_time` samples how long a task runs alone on its devices: its whole run if it waits, the rest if it runs; `None` if
/// nothing is known. The forecast is a function of its answers. A task of unknown length never ends for the upper end of a
/// range and ends at once for the lower end, so that the range holds whenever it ends.
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
        if some_unknown && seen.values().any(|samples| samples.always_starts()) {
            // A second simulation of the same sample, in which tasks of unknown length end at once, gives the lower end.
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

/// Samples of one task's start.
#[derive(Default)]
struct TaskSamples {
    starts: Vec<Time>,
    /// Starts if tasks of unknown length ended at once.
    at_best: Vec<Time>,
    /// How often each task's end directly preceded the start.
    unblocked_by: BTreeMap<TaskId, u32>,
    /// Tasks of unknown length that were running at the end of a sample.
    unknown: BTreeSet<TaskId>,
    too_far: bool,
    never: bool,
}

impl TaskSamples {
    /// Whether it started in every sample so far.
    fn always_starts(&self) -> bool {
        !self.too_far && !self.never
    }

    fn add(&mut self, task: TaskId, ran: &SampleOutcome) {
        self.unknown.extend(&ran.unknown);
        match ran.started.get(&task) {
            Some((at, after)) => {
                self.starts.push(*at);
                after.iter().for_each(|task| *self.unblocked_by.entry(*task).or_default() += 1);
            }
            None if ran.cut_off => self.too_far = true,
            None => self.never = true,
        }
    }

    /// Range from the earliest to the latest sample. It is wider than eight samples in ten because no sample contains the jobs
    /// yet to arrive; as measured in `tests/calibration.rs`, it holds about eight times in ten.
    fn expectation(self, samples: usize) -> StartForecast {
        let (from, to) = (self.starts.iter().min(), self.starts.iter().max());
        match (from, to) {
            (Some(&from), Some(&to)) if self.starts.len() == samples => {
                let best = self.at_best.into_iter().min().unwrap_or(from).min(from);
                let mut hinges: Vec<_> = self.unblocked_by.into_iter().collect();
                hinges.sort_by_key(|(task, times)| (Reverse(*times), *task));
                let unknown = self.unknown.into_iter().filter(|_| best < from);
                StartForecast::Range(ForecastRange {
                    from: best,
                    to,
                    hinges_on: hinges.into_iter().map(|(task, _)| task).take(MAX_HINGES).collect(),
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

/// Result of one simulation of the queue.
struct SampleOutcome {
    /// Start of each task, and the task whose end directly preceded it.
    started: BTreeMap<TaskId, (Time, Option<TaskId>)>,
    /// Tasks of unknown length that were still running.
    unknown: Vec<TaskId>,
    /// Whether the budget ran out.
    cut_off: bool,
}

/// One simulation of the queue into the future.
struct Lookahead<F> {
    engine: Engine,
    now: Time,
    /// Ends of attempts. An entry is obsolete if it is not the attempt's current end: entries cannot be removed.
    ends: BinaryHeap<Reverse<(Time, AttemptId)>>,
    running: BTreeMap<AttemptId, RunningAttempt>,
    /// Remaining run time of preempted tasks, where known.
    left: BTreeMap<TaskId, Option<Span>>,
    /// Task that ended last.
    last_ended: Option<TaskId>,
    run_time: F,
}

/// Running attempt.
#[derive(Clone, Copy)]
struct RunningAttempt {
    worker: WorkerId,
    /// Remaining run time at `since`, alone on its devices; `None` if unknown.
    left: Option<Span>,
    since: Time,
    /// Fraction of its speed that it retains beside others.
    speed: f64,
}

impl RunningAttempt {
    fn left_at(self, now: Time) -> Option<Span> {
        let done = now.since(self.since);
        let done = if self.speed == 1.0 { done } else { Span::from_secs(done.secs() * self.speed) };
        Some(self.left? - done)
    }

    /// Its end; `None` if its length is unknown.
    fn end(self) -> Option<Time> {
        let left = self.left?;
        Some(self.since + if self.speed == 1.0 { left } else { Span::from_secs(left.secs() / self.speed) })
    }
}

/// Lower limit of the retained speed, so that every attempt of known length ends.
const MIN_SPEED: f64 = 1e-3;

impl<F: FnMut(TaskId) -> Option<Span>> Lookahead<F> {
    fn from(
        cluster: &Cluster,
        policies: &'static [PolicyDef],
        now: Time,
        mut run_time: F,
    ) -> Result<Lookahead<F>, Rejection> {
        let mut started = Vec::new();
        for (worker, w) in cluster.workers() {
            for &task in w.tasks() {
                let live = &cluster.job(task.job).expect("a worker's task has a job").nodes
                    [task.node as usize]
                    .live[&task.index];
                let left = match cluster.state(task) {
                    // Frozen: it makes no progress until it is resumed, and then `resume` samples its run time.
                    Some(TaskState::Paused(a)) if a.pause.is_some() => continue,
                    Some(TaskState::Stopping(..)) => Some(Span::ZERO),
                    _ => run_time(task),
                };
                started.push((task.attempt(live.attempts), worker, left));
            }
        }
        let engine = Engine::new(cluster.clone(), policies, now)?;
        let (ends, running, left) = Default::default();
        let mut ahead = Lookahead { engine, now, ends, running, left, last_ended: None, run_time };
        started.into_iter().for_each(|(attempt, worker, left)| ahead.start(attempt, worker, left));
        ahead.update_speeds();
        Ok(ahead)
    }

    fn start(&mut self, attempt: AttemptId, worker: WorkerId, left: Option<Span>) {
        let attempt_run = RunningAttempt { worker, left, since: self.now, speed: 1.0 };
        self.ends.extend(attempt_run.end().map(|end| Reverse((end, attempt))));
        self.running.insert(attempt, attempt_run);
    }

    /// Updates the speed of every attempt to the tasks it shares devices with.
    fn update_speeds(&mut self) {
        let view = self.engine.cluster().view();
        if !view.shares().knows_pairs() {
            return;
        }
        for (attempt, run) in &mut self.running {
            let speed = view.speed_kept(attempt.task).max(MIN_SPEED);
            if speed != run.speed {
                *run = RunningAttempt { left: run.left_at(self.now), since: self.now, speed, ..*run };
                self.ends.extend(run.end().map(|end| Reverse((end, *attempt))));
            }
        }
    }

    /// Simulates until all of these tasks have started, nothing more can happen, or the budget is used up.
    fn until(mut self, limits: ForecastBudget, tasks: &[TaskId]) -> SampleOutcome {
        let mut missing: BTreeSet<TaskId> = tasks.iter().copied().collect();
        let mut started = BTreeMap::new();
        let before = self.engine.cluster().seq();
        let mut solves = limits.solves;
        let mut batch = self.without_leases();
        batch.extend(self.confirm_requests());
        let (mut turns, mut cut_off) = (0, false);
        while !missing.is_empty() {
            // Turns are counted as well as events: a round in which nothing changes has no event, and rounds go on for
            // ever where no end is known.
            turns += 1;
            if turns > limits.events || self.engine.cluster().seq() - before >= limits.events {
                cut_off = true;
                break;
            }
            let Ok(outcome) = self.engine.turn(batch, self.now, &mut Discard);
            batch = Vec::new();
            for event in outcome.events {
                if let EventKind::Placed { attempt, .. } = &event.what
                    && missing.remove(&attempt.task)
                {
                    started.insert(attempt.task, (self.now, self.last_ended));
                }
                batch.extend(self.answer(event.what));
            }
            self.update_speeds();
            if batch.is_empty()
                && solves > 0
                && let Some(solve) = self.engine.background_solve(self.now)
            {
                solves -= 1;
                batch.push(solve());
            }
            // Time passes only when neither the workers nor the policy has anything left to do now: a plan may ask for
            // another at once.
            let plans_again = self.engine.next_deadline().is_some_and(|at| at <= self.now);
            if batch.is_empty() && !plans_again {
                let Some(next) = self.next_moment() else { break };
                self.now = self.now.max(next);
                batch = self.due_ends();
            }
        }
        let unknown = self.running.iter().filter(|(_, run)| run.left.is_none());
        SampleOutcome { started, unknown: unknown.map(|(attempt, _)| attempt.task).collect(), cut_off }
    }

    /// The report by which a worker would answer an event, if it would.
    fn answer(&mut self, event: EventKind) -> Option<Command> {
        match event {
            EventKind::Placed { attempt, placement } => {
                let left = self.left.remove(&attempt.task);
                let left = left.unwrap_or_else(|| (self.run_time)(attempt.task));
                self.start(attempt, placement.worker, left);
                // Only rounds distinguish a running attempt from a placed one; elsewhere the report would be a wasted turn.
                self.has_rounds().then(|| report(placement.worker, attempt, AttemptStatus::Running))
            }
            EventKind::StopAsked { attempt, why: StopReason::Requeued } => self.requeue(attempt),
            EventKind::PauseAsked { attempt, .. } => self.freeze(attempt),
            EventKind::ResumeAsked { attempt } => self.resume(attempt),
            _ => None,
        }
    }

    /// Stops an attempt that is to be requeued; the remaining run time of its task is kept.
    fn requeue(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.running.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(ended(run.worker, attempt, EndReason::Stopped))
    }

    /// Freezes an attempt.
    fn freeze(&mut self, attempt: AttemptId) -> Option<Command> {
        let run = self.running.remove(&attempt)?;
        self.left.insert(attempt.task, run.left_at(self.now));
        Some(report(run.worker, attempt, AttemptStatus::Frozen))
    }

    /// Resumes a frozen attempt.
    fn resume(&mut self, attempt: AttemptId) -> Option<Command> {
        let (on, _) = self.engine.cluster().view().attempt(attempt.task)?;
        let worker = on.placement.worker;
        let left = self.left.remove(&attempt.task).unwrap_or_else(|| (self.run_time)(attempt.task));
        self.start(attempt, worker, left);
        Some(report(worker, attempt, AttemptStatus::Running))
    }

    /// Carries out what was requested of attempts before the forecast and is not confirmed yet.
    fn confirm_requests(&mut self) -> Vec<Command> {
        let (mut batch, rounds) = (Vec::new(), self.has_rounds());
        for attempt in self.running.keys().copied().collect::<Vec<_>>() {
            match self.engine.cluster().state(attempt.task) {
                Some(TaskState::Running(a)) if a.pause.is_some() => batch.extend(self.freeze(attempt)),
                Some(TaskState::Placed(a)) if rounds => {
                    batch.push(report(a.placement.worker, attempt, AttemptStatus::Running));
                }
                // Of the frozen attempts only those with a resume request are in `running`.
                Some(TaskState::Paused(a)) => {
                    batch.push(report(a.placement.worker, attempt, AttemptStatus::Running));
                }
                _ => {}
            }
        }
        batch
    }

    /// Whether the policy shares time in rounds, so that it matters which placed attempts run.
    fn has_rounds(&self) -> bool {
        self.engine.cluster().shares().round_until().is_some()
    }

    /// Next end of an attempt or of a round.
    fn next_moment(&self) -> Option<Time> {
        let end = self.ends.peek().map(|&Reverse((at, ..))| at);
        let round = self.engine.cluster().view().shares().round_until().filter(|until| *until > self.now);
        // Without running attempts no further round can change anything.
        match (end, round) {
            (None, round) => round.filter(|_| !self.running.is_empty()),
            (Some(end), round) => Some(round.map_or(end, |round| end.min(round))),
        }
    }

    /// Removes the leases: nobody reports in a forecast, so every lease would expire.
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

    /// Ends of attempts that are due. Entries of attempts that were preempted or changed speed since are skipped.
    fn due_ends(&mut self) -> Vec<Command> {
        let mut batch = Vec::new();
        while let Some(&Reverse((at, attempt))) = self.ends.peek().filter(|e| e.0.0 <= self.now) {
            self.ends.pop();
            if let Some(run) = self.running.get(&attempt).copied().filter(|run| run.end() == Some(at)) {
                self.running.remove(&attempt);
                self.last_ended = Some(attempt.task);
                batch.push(ended(run.worker, attempt, EndReason::Exited(0)));
            }
        }
        batch
    }
}

fn ended(worker: WorkerId, attempt: AttemptId, how: EndReason) -> Command {
    report(worker, attempt, AttemptStatus::Over(End { how, usage: Usage::default() }))
}

fn report(worker: WorkerId, attempt: AttemptId, standing: AttemptStatus) -> Command {
    Command::Report { worker, attempts: [(attempt, standing)].into(), devices: BTreeMap::new() }
}
