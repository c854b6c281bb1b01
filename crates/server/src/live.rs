//! The live engine: one thread that turns, and one that follows it.
//!
//! The first owns the state and the log, and does nothing but turns. The second applies the same events to a replica, which
//! requests read at the same time as one another. A caller who was told something finds it there, because a request waits
//! until the replica has every event that was published before it came.

use crate::clock::{Clock, system_now};
use crate::follower::{Follower, ToFollower};
use crate::lifecycle;
use crate::measures::Measures;
use crate::replica::{Reader, Replica};
use crate::store::{History, Log, LogError};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, never, select, unbounded};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use warpyard_core::command::Target;
use warpyard_core::engine::{Answer, Engine};
use warpyard_core::protocol::Assignments;
use warpyard_core::spec::env_size;
use warpyard_core::{Cluster, Command, Epoch, Event, JobId, Rejected, Store, Time, WorkerId};

/// How many commands one turn takes at most: bounds how long the first of them waits for its answer.
const BATCH: usize = 2_000;

/// How many ended jobs stay in memory.
const ENDED_KEPT: usize = 10_000;

/// How many bytes of job documents and environments ended jobs may keep in memory; then the first ended leave.
const ENDED_BYTES_KEPT: u64 = 256 << 20;

/// How many ended jobs leave the memory in one turn.
const FORGET_AT_ONCE: usize = 200;

/// A way to the engine and to the one that follows it. Cheap to clone.
#[derive(Clone)]
pub struct Live {
    asks: Sender<Ask>,
    follower: Published,
    replica: Arc<Replica>,
    /// How many events the replica has.
    applied: watch::Receiver<u64>,
}

/// The way to the follower, and how many events were sent along it.
#[derive(Clone)]
struct Published {
    to: Sender<ToFollower>,
    seq: Arc<AtomicU64>,
}

impl Published {
    fn new(to: Sender<ToFollower>, follower: &Follower) -> Published {
        let seq = follower.replica().look(Cluster::seq);
        Published { to, seq: Arc::new(AtomicU64::new(seq)) }
    }

    /// Sends events; whoever reads from now on finds them.
    fn publish(&self, events: Vec<Event>) {
        let count = events.len() as u64;
        let _stopped = self.to.send(ToFollower::Events(events));
        self.seq.fetch_add(count, Ordering::AcqRel);
    }

    fn stop(&self) {
        let _gone = self.to.send(ToFollower::Stop);
    }
}

enum Ask {
    Command(Box<Command>, Option<oneshot::Sender<Result<Answer, Rejected>>>),
    /// From now on a worker is told this way.
    Deliver(WorkerId, Deliver),
    Stop,
}

/// Who is told what should be on a worker.
type Deliver = Box<dyn Fn(Assignments) + Send>;

/// The two threads.
pub struct Threads {
    engine: JoinHandle<Result<(), LogError>>,
    follower: JoinHandle<()>,
}

/// Calls something at the end of a thread, also when that is a panic: a server whose engine is gone must not go on
/// answering.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The engine has stopped.
#[derive(Debug, thiserror::Error)]
#[error("the server is stopping")]
pub struct Stopped;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It was refused.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// There is nobody to carry it out.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Live {
    /// Starts both threads from a state. `ended` is called when either ends, for whatever reason.
    pub fn start(
        engine: Engine,
        log: Log,
        follower: Follower,
        ended: impl Fn() + Clone + Send + 'static,
    ) -> (Live, Threads) {
        let (asks, asked) = unbounded();
        let (to_follower, for_follower) = unbounded();
        let to_follower = Published::new(to_follower, &follower);
        let live = Live {
            asks,
            follower: to_follower.clone(),
            replica: follower.replica(),
            applied: follower.applied(),
        };
        let measures = follower.measures();
        let (engine_ended, follower_ended) = (AtEnd(ended.clone()), AtEnd(ended));
        let turn = move || {
            let _told = engine_ended;
            Turning::new(engine, log, asked, to_follower, measures).run()
        };
        let follow = move || {
            let _told = follower_ended;
            follower.run(&for_follower);
        };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let threads = Threads {
            engine: spawn("engine").spawn(turn).expect("a thread can be started"),
            follower: spawn("follower").spawn(follow).expect("a thread can be started"),
        };
        (live, threads)
    }

    /// Starts the follower, and `play` in place of the engine.
    pub(crate) fn staged(
        follower: Follower,
        ended: impl Fn() + Clone + Send + 'static,
        play: impl FnOnce(Stage) + Send + 'static,
    ) -> (Live, Threads) {
        let (asks, asked) = unbounded();
        let (to_follower, for_follower) = unbounded();
        let to_follower = Published::new(to_follower, &follower);
        let live = Live {
            asks,
            follower: to_follower.clone(),
            replica: follower.replica(),
            applied: follower.applied(),
        };
        let (played, follower_ended) = (AtEnd(ended.clone()), AtEnd(ended));
        let play = move || {
            let _told = played;
            play(Stage { asks: asked, follower: to_follower.clone() });
            to_follower.stop();
            Ok(())
        };
        let follow = move || {
            let _told = follower_ended;
            follower.run(&for_follower);
        };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let threads = Threads {
            engine: spawn("simulation").spawn(play).expect("a thread can be started"),
            follower: spawn("follower").spawn(follow).expect("a thread can be started"),
        };
        (live, threads)
    }

    /// Has a command carried out. What the answer says is on disk.
    pub async fn command(&self, command: Command) -> Result<Answer, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::Command(Box::new(command), Some(reply))).map_err(|_| Stopped)?;
        Ok(answer.await.map_err(|_| Stopped)??)
    }

    /// Hands a command over without waiting for what becomes of it.
    pub fn tell(&self, command: Command) {
        // It only fails when the engine has stopped, and then there is nobody to tell.
        let _stopped = self.asks.send(Ask::Command(Box::new(command), None));
    }

    /// Looks at the state, as it is after everything the caller was ever told.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reader<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.with_replica(move |replica| look(&replica.reader())).await
    }

    /// Looks at the derived tables alone, for as long as it takes.
    pub(crate) async fn read_history<T: Send + 'static>(
        &self,
        look: impl FnOnce(&History) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.with_replica(move |replica| look(&replica.connection_up_to_date())).await
    }

    /// Has something read the replica on a thread that may wait, once it has all that was published.
    async fn with_replica<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Replica) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let published = self.follower.seq.load(Ordering::Acquire);
        let mut applied = self.applied.clone();
        applied.has_changed().map_err(|_| Stopped)?;
        applied.wait_for(|applied| *applied >= published).await.map_err(|_| Stopped)?;
        let replica = self.replica.clone();
        let permit = replica.permits().acquire_owned().await.map_err(|_| Stopped)?;
        let look = move || {
            let seen = look(&replica);
            // Not before: who asked may be gone, but a connection is in use until here.
            drop(permit);
            seen
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(seen) => Ok(seen),
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Stopped),
            },
        }
    }

    /// Waits until a job has ended; at once if it has, or if there is no such job.
    pub async fn ended(&self, job: JobId) -> Result<(), Stopped> {
        self.over(Target::Job(job)).await
    }

    /// Waits until a job, or a part of one, is over.
    pub(crate) async fn over(&self, target: Target) -> Result<(), Stopped> {
        let (reply, answer) = oneshot::channel();
        self.follower.to.send(ToFollower::WhenOver(target, reply)).map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Says how a worker is told what should be on it; it is told at once.
    pub fn deliver_to(&self, worker: WorkerId, deliver: impl Fn(Assignments) + Send + 'static) {
        let _stopped = self.asks.send(Ask::Deliver(worker, Box::new(deliver)));
    }

    /// Ends the engine after what was asked before, and then the follower.
    pub fn stop(&self) {
        let _already = self.asks.send(Ask::Stop);
    }
}

/// What something that plays the engine has of it: those who ask, and the one that follows.
pub(crate) struct Stage {
    asks: Receiver<Ask>,
    follower: Published,
}

impl Stage {
    /// Tells the follower what happened.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        self.follower.publish(events);
    }

    /// Has what is asked within a while carried out; says whether to go on.
    pub(crate) fn attend(
        &self,
        wait: Duration,
        mut obey: impl FnMut(Command) -> Result<Answer, Rejected>,
    ) -> bool {
        let first = match self.asks.recv_timeout(wait) {
            Ok(ask) => Some(ask),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        for ask in first.into_iter().chain(self.asks.try_iter()) {
            match ask {
                Ask::Stop => return false,
                Ask::Deliver(..) => {}
                Ask::Command(command, reply) => {
                    let answer = obey(*command);
                    if let Some(reply) = reply {
                        let _gone = reply.send(answer);
                    }
                }
            }
        }
        true
    }
}

impl Threads {
    /// Waits for both; gives what stopped the engine, if something did.
    pub fn join(self) -> Result<(), LogError> {
        let result = self.engine.join().expect("the engine does not panic");
        self.follower.join().expect("the follower does not panic");
        result
    }
}

/// The log, and how long it took to keep something.
struct Timed<'a> {
    log: &'a mut Log,
    took: Option<Duration>,
}

impl Store for Timed<'_> {
    type Error = LogError;

    fn append(&mut self, epoch: Epoch, after: u64, events: &[Event]) -> Result<(), LogError> {
        let began = Instant::now();
        let kept = self.log.append(epoch, after, events);
        self.took = Some(began.elapsed());
        kept
    }
}

/// The engine's thread.
struct Turning {
    engine: Engine,
    log: Log,
    clock: Clock,
    asks: Receiver<Ask>,
    follower: Published,
    /// How each worker is told what should be on it.
    mail: BTreeMap<WorkerId, Deliver>,
    /// Ended jobs in memory and what each takes, the first ended first.
    ended: VecDeque<(JobId, u64)>,
    /// What they take together.
    ended_bytes: u64,
    measures: Arc<Measures>,
    /// What came of errands run beside the loop, and where it is left.
    done: (Sender<Command>, Receiver<Command>),
}

impl Turning {
    fn new(
        engine: Engine,
        log: Log,
        asks: Receiver<Ask>,
        follower: Published,
        measures: Arc<Measures>,
    ) -> Turning {
        let ended = engine.cluster().jobs().iter().filter(|j| j.finished.is_some()).map(|j| j.id);
        let ended: Vec<_> = ended.collect();
        let (clock, mail, done) = (Clock::default(), BTreeMap::new(), unbounded());
        let (kept, ended_bytes) = (VecDeque::new(), 0);
        let mut turning =
            Turning { engine, log, clock, asks, follower, mail, ended: kept, ended_bytes, measures, done };
        turning.keep_ended(&ended);
        turning
    }

    /// Notes jobs that ended and how much memory they take.
    fn keep_ended(&mut self, jobs: &[JobId]) {
        for &id in jobs {
            let cluster = self.engine.cluster();
            let Some(job) = cluster.job(id) else { continue };
            let env = job.spec.env.and_then(|env| cluster.env(env)).map_or(0, |env| env_size(env));
            self.ended.push_back((id, job.spec.size() + env));
            self.ended_bytes += job.spec.size() + env;
        }
    }

    /// Turns until it is told to stop or cannot go on; the follower ends with it either way.
    fn run(mut self) -> Result<(), LogError> {
        let ended = self.turn_until_stopped();
        self.follower.stop();
        ended
    }

    fn turn_until_stopped(&mut self) -> Result<(), LogError> {
        let mut stopping = false;
        while !stopping {
            let (commands, replies) = self.gather(&mut stopping);
            let now = self.clock.now();
            let began = Instant::now();
            let mut timed = Timed { log: &mut self.log, took: None };
            let turned = self.engine.turn(commands, now, &mut timed)?;
            if let Some(took) = timed.took {
                self.measures.commit.saw(took);
                self.measures.plan.saw(began.elapsed().saturating_sub(took));
            }
            lifecycle::log(self.engine.cluster(), &turned.events);
            self.keep_ended(&turned.finished);
            if !turned.events.is_empty() {
                self.send_on_errand(now);
            }
            let assigned = turned.events.iter().any(|event| event.what.concerns_workers());
            if !turned.events.is_empty() {
                self.follower.publish(turned.events);
            }
            for (reply, answer) in replies.into_iter().zip(turned.answers) {
                if let Some(reply) = reply {
                    let _gone = reply.send(answer);
                }
            }
            for (&worker, deliver) in &self.mail {
                if assigned || self.engine.inbox().has_gap(worker) {
                    deliver(self.engine.assignments(worker));
                }
            }
        }
        Ok(())
    }

    /// Has what takes long done on a thread of its own; what comes of it is a command for a later turn.
    fn send_on_errand(&mut self, now: Time) {
        if let Some(errand) = self.engine.errand(now) {
            let done = self.done.0.clone();
            let run = move || {
                // It only fails when the engine has stopped, and then nobody waits for it.
                let _stopped = done.send(errand());
            };
            thread::Builder::new().name("errand".into()).spawn(run).expect("a thread can be started");
        }
    }

    /// Waits for something to do, then takes all there is.
    #[expect(clippy::type_complexity, reason = "two lists that belong together for the length of one turn")]
    fn gather(
        &mut self,
        stopping: &mut bool,
    ) -> (Vec<Command>, Vec<Option<oneshot::Sender<Result<Answer, Rejected>>>>) {
        let (mut commands, mut replies) = (Vec::new(), Vec::new());
        let (mail, engine) = (&mut self.mail, &self.engine);
        let mut take = |ask| match ask {
            Ask::Deliver(worker, deliver) => {
                deliver(engine.assignments(worker));
                mail.insert(worker, deliver);
            }
            Ask::Command(command, reply) => {
                commands.push(*command);
                replies.push(reply);
            }
            Ask::Stop => *stopping = true,
        };
        let due = self.engine.next_deadline();
        let wait = due.map_or_else(never, |at| after(Duration::from_micros(at.since(system_now()).0)));
        select! {
            recv(self.asks) -> ask => take(ask.unwrap_or(Ask::Stop)),
            recv(self.done.1) -> command => {
                let command = command.expect("a sender is kept here");
                take(Ask::Command(Box::new(command), None));
            }
            recv(wait) -> _ => {}
        }
        for ask in self.asks.try_iter().take(BATCH) {
            take(ask);
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
