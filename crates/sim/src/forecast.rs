//! When waiting tasks will start: the queue is simulated forward from a copy of the live state, several times, with run
//! times drawn anew each time, and what came out is given as a range.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::convert::Infallible;
use warpyard_core::command::Standing;
use warpyard_core::engine::{Engine, Store};
use warpyard_core::event::{End, Event, How, Usage, What};
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
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { samples: 20, events: 20_000 }
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
/// one that runs. Given the same answers, the forecast is the same.
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
        for (task, at) in run.until(limits.events, tasks) {
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
    ends: BinaryHeap<Reverse<(Time, AttemptId, WorkerId)>>,
    run_time: F,
}

impl<F: FnMut(TaskId) -> Span> Ahead<F> {
    fn from(
        cluster: &Cluster,
        policies: &'static [PolicyDef],
        now: Time,
        mut run_time: F,
    ) -> Result<Ahead<F>, Rejected> {
        let mut ends = BinaryHeap::new();
        for (worker, w) in cluster.workers() {
            for &task in w.tasks() {
                let live = &cluster.job(task.job).expect("a worker's task has a job").nodes
                    [task.node as usize]
                    .live[&task.index];
                let left = match cluster.state(task) {
                    Some(TaskState::Paused(_)) => continue,
                    Some(TaskState::Stopping(..)) => Span::ZERO,
                    _ => run_time(task),
                };
                ends.push(Reverse((now + left, task.attempt(live.attempts), worker)));
            }
        }
        let engine = Engine::new(cluster.clone(), policies, now)?;
        Ok(Ahead { engine, now, ends, run_time })
    }

    /// Runs until all of these tasks have started, nothing more happens, or too much has; gives when each started.
    fn until(mut self, events: u64, tasks: &[TaskId]) -> Vec<(TaskId, Time)> {
        let mut missing: BTreeSet<TaskId> = tasks.iter().copied().collect();
        let mut started = Vec::new();
        let before = self.engine.cluster().seq();
        let mut batch = self.without_leases();
        while !missing.is_empty() && self.engine.cluster().seq() - before < events {
            let Ok(turned) = self.engine.turn(batch, self.now, &mut Nowhere);
            for event in turned.events {
                if let What::Placed { attempt, placement } = event.what {
                    let end = self.now + (self.run_time)(attempt.task);
                    self.ends.push(Reverse((end, attempt, placement.worker)));
                    if missing.remove(&attempt.task) {
                        started.push((attempt.task, self.now));
                    }
                }
            }
            batch = self.next_ends();
            if batch.is_empty() {
                break;
            }
        }
        started
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

    /// Goes to the next moment at which something ends; what ends then.
    fn next_ends(&mut self) -> Vec<Command> {
        let Some(&Reverse((at, ..))) = self.ends.peek() else { return Vec::new() };
        self.now = self.now.max(at);
        let mut batch = Vec::new();
        while let Some(&Reverse((_, attempt, worker))) = self.ends.peek().filter(|e| e.0.0 <= self.now) {
            self.ends.pop();
            let over = Standing::Over(End { how: How::Exited(0), usage: Usage::default() });
            let (attempts, devices) = ([(attempt, over)].into(), BTreeMap::new());
            batch.push(Command::Report { worker, attempts, devices });
        }
        batch
    }
}

/// Keeps nothing.
struct Nowhere;

impl Store for Nowhere {
    type Error = Infallible;

    fn append(&mut self, _: &[Event]) -> Result<(), Infallible> {
        Ok(())
    }
}
