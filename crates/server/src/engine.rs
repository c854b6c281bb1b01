//! The engine thread and the handle to it.
//!
//! The engine thread owns the state and the log, and does nothing but turns. The replicator's thread applies the same events
//! to the read replica, which requests read concurrently. A caller reads its own writes: a read waits until the replica has
//! every event that was published before the read began.

use crate::clock::Clock;
use crate::event_logging;
use crate::latency::LatencyHistograms;
use crate::replica::{ReadReplica, Reader};
use crate::replicator::{Condition, Replicator, ReplicatorMessage};
use crate::store::{HistoryStore, Log, LogError};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select, unbounded};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use warpyard_core::command::TaskSelector;
use warpyard_core::engine::{CommandOutcome, Engine};
use warpyard_core::protocol::Assignments;
use warpyard_core::spec::env_size;
use warpyard_core::{AttemptId, Cluster, Command, Epoch, Event, JobId, Rejection, Store, Time, WorkerId};

/// The most commands of one turn: bounds how long the first of them waits for its answer.
const BATCH: usize = 2_000;

/// The most ended jobs in memory.
const ENDED_KEPT: usize = 10_000;

/// The most bytes of job specifications and environments of ended jobs in memory; beyond it the first that ended are
/// forgotten.
const ENDED_BYTES_KEPT: u64 = 256 << 20;

/// The most ended jobs that are forgotten in one turn.
const FORGET_AT_ONCE: usize = 200;

/// Handle to the engine thread and the read replica. Cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    requests: Sender<EngineRequest>,
    replicator: EventPublisher,
    replica: Arc<ReadReplica>,
    /// The number of the last event that the replica has.
    applied: watch::Receiver<u64>,
}

/// Channel to the replicator, and the number of the last event sent through it.
#[derive(Clone)]
struct EventPublisher {
    to: Sender<ReplicatorMessage>,
    seq: Arc<AtomicU64>,
}

impl EventPublisher {
    fn new(to: Sender<ReplicatorMessage>, replicator: &Replicator) -> EventPublisher {
        let seq = replicator.replica().read_cluster(Cluster::seq);
        EventPublisher { to, seq: Arc::new(AtomicU64::new(seq)) }
    }

    /// Publishes events: every read that begins after this sees them.
    fn publish(&self, events: Vec<Event>) {
        let count = events.len() as u64;
        let _stopped = self.to.send(ReplicatorMessage::Events(events));
        self.seq.fetch_add(count, Ordering::AcqRel);
    }

    fn stop(&self) {
        let _gone = self.to.send(ReplicatorMessage::Stop);
    }
}

enum EngineRequest {
    Command(Box<Command>, Option<oneshot::Sender<Result<CommandOutcome, Rejection>>>),
    /// Replaces how a worker is sent its assignments.
    Deliver(WorkerId, Deliver),
    Stop,
}

/// Sends assignments to a worker.
type Deliver = Box<dyn Fn(Assignments) + Send>;

/// The threads of an engine and its replicator.
pub struct EngineThreads {
    engine: JoinHandle<Result<(), LogError>>,
    replicator: JoinHandle<()>,
}

/// Calls a function when a thread ends, also by a panic: a server without an engine must not go on answering.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Error of a request to an engine that has stopped.
#[derive(Debug, thiserror::Error)]
#[error("the server is stopping")]
pub struct EngineStopped;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command was rejected.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The engine has stopped.
    #[error(transparent)]
    Stopped(#[from] EngineStopped),
}

impl EngineHandle {
    /// Starts both threads. `ended` is called when either ends, for whatever reason.
    pub fn start(
        engine: Engine,
        log: Log,
        replicator: Replicator,
        ended: impl Fn() + Clone + Send + 'static,
    ) -> (EngineHandle, EngineThreads) {
        let (requests, received) = unbounded();
        let (to_replicator, for_replicator) = unbounded();
        let to_replicator = EventPublisher::new(to_replicator, &replicator);
        let handle = EngineHandle {
            requests,
            replicator: to_replicator.clone(),
            replica: replicator.replica(),
            applied: replicator.applied(),
        };
        let (measures, clock) = (replicator.measures(), replicator.replica().clock().clone());
        let (engine_ended, replicator_ended) = (OnDrop(ended.clone()), OnDrop(ended));
        let turn = move || {
            let _notify = engine_ended;
            EngineThread::new(engine, log, received, to_replicator, measures, clock).run()
        };
        let follow = move || {
            let _notify = replicator_ended;
            replicator.run(&for_replicator);
        };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let threads = EngineThreads {
            engine: spawn("engine").spawn(turn).expect("a thread can be started"),
            replicator: spawn("replicator").spawn(follow).expect("a thread can be started"),
        };
        (handle, threads)
    }

    /// Starts the replicator, and `simulate` in place of the engine thread.
    pub(crate) fn simulated(
        replicator: Replicator,
        ended: impl Fn() + Clone + Send + 'static,
        simulate: impl FnOnce(SimulatedEngine) + Send + 'static,
    ) -> (EngineHandle, EngineThreads) {
        let (requests, received) = unbounded();
        let (to_replicator, for_replicator) = unbounded();
        let to_replicator = EventPublisher::new(to_replicator, &replicator);
        let handle = EngineHandle {
            requests,
            replicator: to_replicator.clone(),
            replica: replicator.replica(),
            applied: replicator.applied(),
        };
        let (simulation_ended, replicator_ended) = (OnDrop(ended.clone()), OnDrop(ended));
        let simulate = move || {
            let _notify = simulation_ended;
            simulate(SimulatedEngine { requests: received, replicator: to_replicator.clone() });
            to_replicator.stop();
            Ok(())
        };
        let follow = move || {
            let _notify = replicator_ended;
            replicator.run(&for_replicator);
        };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let threads = EngineThreads {
            engine: spawn("simulation").spawn(simulate).expect("a thread can be started"),
            replicator: spawn("replicator").spawn(follow).expect("a thread can be started"),
        };
        (handle, threads)
    }

    /// Executes a command. What the answer says is committed.
    pub async fn command(&self, command: Command) -> Result<CommandOutcome, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .send(EngineRequest::Command(Box::new(command), Some(reply)))
            .map_err(|_| EngineStopped)?;
        Ok(answer.await.map_err(|_| EngineStopped)??)
    }

    /// Sends a command without waiting for its answer.
    pub fn tell(&self, command: Command) {
        // It only fails when the engine has stopped, which its threads report.
        let _stopped = self.requests.send(EngineRequest::Command(Box::new(command), None));
    }

    /// Reads the replica, with every event that was published before this call.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader<'_>) -> T + Send + 'static,
    ) -> Result<T, EngineStopped> {
        self.with_replica(move |replica| query(&replica.reader())).await
    }

    /// Reads the derived tables without holding the state: a slow query delays no event.
    pub(crate) async fn read_history<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn HistoryStore) -> T + Send + 'static,
    ) -> Result<T, EngineStopped> {
        self.with_replica(move |replica| query(&*replica.connection_up_to_date())).await
    }

    /// Reads on a blocking thread, once the replica has every event that was published before this call.
    async fn with_replica<T: Send + 'static>(
        &self,
        query: impl FnOnce(&ReadReplica) -> T + Send + 'static,
    ) -> Result<T, EngineStopped> {
        let published = self.replicator.seq.load(Ordering::Acquire);
        let mut applied = self.applied.clone();
        applied.has_changed().map_err(|_| EngineStopped)?;
        applied.wait_for(|applied| *applied >= published).await.map_err(|_| EngineStopped)?;
        let replica = self.replica.clone();
        let permit = replica.permits().acquire_owned().await.map_err(|_| EngineStopped)?;
        let run = move || {
            let result = query(&replica);
            // Not before: the caller may be gone, but its database connection is in use until here.
            drop(permit);
            result
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(result) => Ok(result),
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(EngineStopped),
            },
        }
    }

    /// The server's clock.
    pub(crate) fn clock(&self) -> &Clock {
        self.replica.clock()
    }

    /// Waits until a job, or a part of one, is over.
    pub(crate) async fn over(&self, target: TaskSelector) -> Result<(), EngineStopped> {
        self.when(Condition::Over(target)).await
    }

    /// Waits until an attempt is not the latest of its task any more, or the task is over.
    pub(crate) async fn superseded(&self, attempt: AttemptId) -> Result<(), EngineStopped> {
        self.when(Condition::Superseded(attempt)).await
    }

    async fn when(&self, condition: Condition) -> Result<(), EngineStopped> {
        let (reply, answer) = oneshot::channel();
        self.replicator.to.send(ReplicatorMessage::When(condition, reply)).map_err(|_| EngineStopped)?;
        answer.await.map_err(|_| EngineStopped)
    }

    /// Sets how a worker is sent its assignments, and sends the current ones.
    pub fn deliver_to(&self, worker: WorkerId, deliver: impl Fn(Assignments) + Send + 'static) {
        let _stopped = self.requests.send(EngineRequest::Deliver(worker, Box::new(deliver)));
    }

    /// Stops the engine after the requests sent before, and then the replicator.
    pub fn stop(&self) {
        let _already = self.requests.send(EngineRequest::Stop);
    }
}

/// The engine's side of the channels, for a simulation that takes the engine's place.
pub(crate) struct SimulatedEngine {
    requests: Receiver<EngineRequest>,
    replicator: EventPublisher,
}

impl SimulatedEngine {
    /// Publishes simulated events.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        self.replicator.publish(events);
    }

    /// Executes the commands that arrive within `wait`; returns whether to continue.
    pub(crate) fn execute_commands(
        &self,
        wait: Duration,
        mut execute: impl FnMut(Command) -> Result<CommandOutcome, Rejection>,
    ) -> bool {
        let first = match self.requests.recv_timeout(wait) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        for request in first.into_iter().chain(self.requests.try_iter()) {
            match request {
                EngineRequest::Stop => return false,
                EngineRequest::Deliver(..) => {}
                EngineRequest::Command(command, reply) => {
                    let answer = execute(*command);
                    if let Some(reply) = reply {
                        let _gone = reply.send(answer);
                    }
                }
            }
        }
        true
    }
}

impl EngineThreads {
    /// Waits for both threads; returns the error that stopped the engine, if there was one.
    pub fn join(self) -> Result<(), LogError> {
        let result = self.engine.join().expect("the engine does not panic");
        self.replicator.join().expect("the replicator does not panic");
        result
    }
}

/// The log, measuring how long the last commit took.
struct TimedStore<'a> {
    log: &'a mut Log,
    took: Option<Duration>,
}

impl Store for TimedStore<'_> {
    type Error = LogError;

    fn append(&mut self, epoch: Epoch, after: u64, events: &[Event]) -> Result<(), LogError> {
        let began = Instant::now();
        let kept = self.log.append(epoch, after, events);
        self.took = Some(began.elapsed());
        kept
    }
}

/// State of the engine thread.
struct EngineThread {
    engine: Engine,
    log: Log,
    clock: Clock,
    requests: Receiver<EngineRequest>,
    replicator: EventPublisher,
    /// Delivery of assignments, by worker.
    deliveries: BTreeMap<WorkerId, Deliver>,
    /// Ended jobs in memory with the bytes each takes, the first that ended first.
    ended: VecDeque<(JobId, u64)>,
    /// The bytes they take together.
    ended_bytes: u64,
    measures: Arc<LatencyHistograms>,
    /// Results of background solves, as commands for a later turn.
    done: (Sender<Command>, Receiver<Command>),
}

impl EngineThread {
    fn new(
        engine: Engine,
        log: Log,
        requests: Receiver<EngineRequest>,
        replicator: EventPublisher,
        measures: Arc<LatencyHistograms>,
        clock: Clock,
    ) -> EngineThread {
        let ended = engine.cluster().jobs().iter().filter(|j| j.finished.is_some()).map(|j| j.id);
        let ended: Vec<_> = ended.collect();
        let (deliveries, done) = (BTreeMap::new(), unbounded());
        let (kept, ended_bytes) = (VecDeque::new(), 0);
        let mut thread = EngineThread {
            engine,
            log,
            clock,
            requests,
            replicator,
            deliveries,
            ended: kept,
            ended_bytes,
            measures,
            done,
        };
        thread.keep_ended(&ended);
        thread
    }

    /// Notes jobs that ended and the memory each takes.
    fn keep_ended(&mut self, jobs: &[JobId]) {
        for &id in jobs {
            let cluster = self.engine.cluster();
            let Some(job) = cluster.job(id) else { continue };
            let env = job.spec.env.and_then(|env| cluster.env(env)).map_or(0, |env| env_size(env));
            self.ended.push_back((id, job.spec.size() + env));
            self.ended_bytes += job.spec.size() + env;
        }
    }

    /// Runs turns until it is stopped or a commit fails; the replicator ends with it either way.
    fn run(mut self) -> Result<(), LogError> {
        let ended = self.turn_until_stopped();
        self.replicator.stop();
        ended
    }

    fn turn_until_stopped(&mut self) -> Result<(), LogError> {
        let mut stopping = false;
        while !stopping {
            let (commands, replies) = self.gather(&mut stopping);
            let now = self.clock.now();
            let began = Instant::now();
            let mut timed = TimedStore { log: &mut self.log, took: None };
            let turned = self.engine.turn(commands, now, &mut timed)?;
            if let Some(took) = timed.took {
                self.measures.commit.observe(took);
                self.measures.plan.observe(began.elapsed().saturating_sub(took));
            }
            event_logging::log(self.engine.cluster(), &turned.events);
            self.keep_ended(&turned.finished);
            if !turned.events.is_empty() {
                self.start_background_solve(now);
            }
            let to_notify: Vec<WorkerId> = self.engine.workers_to_notify(&turned).collect();
            if !turned.events.is_empty() {
                self.replicator.publish(turned.events);
            }
            for (reply, answer) in replies.into_iter().zip(turned.answers) {
                if let Some(reply) = reply {
                    let _gone = reply.send(answer);
                }
            }
            for worker in to_notify {
                if let Some(deliver) = self.deliveries.get(&worker) {
                    deliver(self.engine.assignments(worker));
                }
            }
        }
        Ok(())
    }

    /// Runs a background solve on a thread of its own; its result is a command for a later turn.
    fn start_background_solve(&mut self, now: Time) {
        if let Some(solve) = self.engine.background_solve(now) {
            let done = self.done.0.clone();
            let run = move || {
                // It only fails when the engine has stopped, and then the result is not needed.
                let _stopped = done.send(solve());
            };
            thread::Builder::new().name("solver".into()).spawn(run).expect("a thread can be started");
        }
    }

    /// Waits for a request, a solve or the next deadline, then takes all requests there are, up to a batch.
    #[expect(clippy::type_complexity, reason = "two lists that belong together for the length of one turn")]
    fn gather(
        &mut self,
        stopping: &mut bool,
    ) -> (Vec<Command>, Vec<Option<oneshot::Sender<Result<CommandOutcome, Rejection>>>>) {
        let (mut commands, mut replies) = (Vec::new(), Vec::new());
        let (deliveries, engine) = (&mut self.deliveries, &self.engine);
        let mut accept = |request| match request {
            EngineRequest::Deliver(worker, deliver) => {
                deliver(engine.assignments(worker));
                deliveries.insert(worker, deliver);
            }
            EngineRequest::Command(command, reply) => {
                commands.push(*command);
                replies.push(reply);
            }
            EngineRequest::Stop => *stopping = true,
        };
        let due = self.engine.next_deadline();
        let wait = self.clock.timer_if(due);
        select! {
            recv(self.requests) -> request => accept(request.unwrap_or(EngineRequest::Stop)),
            recv(self.done.1) -> command => {
                let command = command.expect("a sender is kept here");
                accept(EngineRequest::Command(Box::new(command), None));
            }
            recv(wait) -> _ => {}
        }
        for request in self.requests.try_iter().take(BATCH) {
            accept(request);
        }
        for _ in 0..FORGET_AT_ONCE {
            if self.ended.len() <= ENDED_KEPT && self.ended_bytes <= ENDED_BYTES_KEPT {
                break;
            }
            let Some((job, bytes)) = self.ended.pop_front() else { break };
            self.ended_bytes -= bytes;
            commands.push(Command::Forget(job));
            replies.push(None);
        }
        (commands, replies)
    }
}

#[cfg(test)]
mod tests;
