//! The one that follows the engine: the same events on a state of its own, for everything that may take a while.

use crate::clock::system_now;
use crate::events::Notices;
use crate::measures::Measures;
use crate::repairs::Repairs;
use crate::store::{History, Log, LogError, is_damage};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use warpyard_core::engine::Engine;
use warpyard_core::event::What;
use warpyard_core::policy::Policy;
use warpyard_core::pool::Placement;
use warpyard_core::{Cluster, Event, JobId, Span, TaskState, Time};
use warpyard_worker::agent::Lineage;

/// How many events may lie between two snapshots.
const SNAPSHOT_EVERY: u64 = 20_000;

/// How long events may wait before they are in the derived tables.
const ENTER_WITHIN: Duration = Duration::from_millis(200);

/// How many may wait.
const ENTER_AT_MOST: usize = 10_000;

/// How many events are pruned in one go.
const PRUNE_AT_ONCE: u32 = 2_000;

/// What the follower is sent.
pub(crate) enum ToFollower {
    Events(Vec<Event>),
    Look(Box<dyn FnOnce(&mut Follower) + Send>),
    WhenEnded(JobId, oneshot::Sender<()>),
    Stop,
}

/// The follower.
pub struct Follower {
    engine: Engine,
    history: History,
    log_path: PathBuf,
    /// The logs that numbered the jobs; a state is kept in no other log than theirs.
    lineage: Option<Lineage>,
    keep_events: Span,
    repairs: Arc<Repairs>,
    /// Events applied but not in the derived tables yet.
    pending: Vec<Event>,
    snapshot_at: u64,
    snapshot: Option<JoinHandle<()>>,
    waiting: BTreeMap<JobId, Vec<oneshot::Sender<()>>>,
    notices: Arc<Notices>,
    measures: Arc<Measures>,
}

impl Follower {
    /// A follower at the state of an engine, its tables caught up with the log.
    pub fn new(
        engine: Engine,
        mut history: History,
        log: &Log,
        log_path: PathBuf,
        keep_events: Span,
    ) -> Result<Follower, FollowerError> {
        if history.lacks_needs() {
            complete(&mut history, log)?;
        }
        catch_up(engine.cluster(), &mut history, log)?;
        let lineage = log.lineage().cloned();
        if let Some(lineage) = &lineage
            && history.origin()?.as_ref() != Some(lineage)
        {
            history.set_origin(lineage)?;
        }
        let snapshot_at = engine.cluster().seq();
        let (pending, snapshot, waiting) = Default::default();
        let notices = Arc::new(Notices::starting_at(snapshot_at));
        Ok(Follower {
            engine,
            history,
            log_path,
            lineage,
            keep_events,
            repairs: Arc::default(),
            pending,
            snapshot_at,
            snapshot,
            waiting,
            notices,
            measures: Arc::default(),
        })
    }

    /// Takes note of damage it finds here.
    pub(crate) fn note_repairs_in(&mut self, repairs: Arc<Repairs>) {
        self.repairs = repairs;
    }

    /// Where word of every change is left.
    pub(crate) fn notices(&self) -> Arc<Notices> {
        self.notices.clone()
    }

    /// How long things took.
    pub(crate) fn measures(&self) -> Arc<Measures> {
        self.measures.clone()
    }

    /// The state.
    pub fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// The policy in force, in this state.
    pub fn policy(&self) -> &dyn Policy {
        self.engine.policy()
    }

    /// The derived tables, up to date.
    pub fn history(&mut self) -> &History {
        self.enter_pending();
        &self.history
    }

    /// Makes the derived tables again from the log; gives how many events went in.
    pub fn rebuild(&mut self) -> Result<u64, FollowerError> {
        self.enter_pending();
        let log = Log::open_existing(&self.log_path)?;
        let mut first = None;
        log.each_event(0, |seq, event| {
            first.get_or_insert((seq, event.at));
        })?;
        let Some((seq, at)) = first else { return Ok(0) };
        self.history.clear(self.engine.cluster(), seq, at)?;
        catch_up(self.engine.cluster(), &mut self.history, &log)
    }

    pub(crate) fn run(mut self, inbox: &Receiver<ToFollower>) {
        loop {
            match inbox.recv_timeout(ENTER_WITHIN) {
                Ok(ToFollower::Events(events)) => self.follow(events),
                Ok(ToFollower::Look(look)) => look(&mut self),
                Ok(ToFollower::WhenEnded(job, tell)) => self.when_ended(job, tell),
                Ok(ToFollower::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.enter_pending(),
            }
        }
        self.enter_pending();
        self.take_snapshot();
        if let Some(thread) = self.snapshot.take() {
            let _failed = thread.join();
        }
    }

    fn follow(&mut self, events: Vec<Event>) {
        let mut left = Vec::new();
        for event in &events {
            if let What::Ended { attempt, .. } = &event.what
                && let Some((ending, _)) = self.cluster().view().attempt(attempt.task)
            {
                let Placement { worker, devices, .. } = &ending.placement;
                left.extend(devices.iter().map(|(index, _)| (*worker, *index)));
            }
            if let What::Placed { attempt, .. } = &event.what
                && let Some(TaskState::Ready { since }) = self.cluster().state(attempt.task)
            {
                self.measures.wait.saw(Duration::from_micros(event.at.since(since).0));
            }
            let effects = self.engine.follow(event);
            for job in effects.finished {
                for waiting in self.waiting.remove(&job).unwrap_or_default() {
                    let _gone = waiting.send(());
                }
            }
        }
        self.notices.leave(self.engine.cluster(), &events, &left);
        if let Some(last) = events.last() {
            self.measures.lag.saw(Duration::from_micros(system_now().since(last.at).0));
        }
        self.pending.extend(events);
        if self.pending.len() >= ENTER_AT_MOST {
            self.enter_pending();
        }
        let busy = self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished());
        if !busy && self.cluster().seq() - self.snapshot_at >= SNAPSHOT_EVERY {
            self.take_snapshot();
        }
    }

    fn when_ended(&mut self, job: JobId, tell: oneshot::Sender<()>) {
        if self.cluster().job(job).is_none_or(|j| j.finished.is_some()) {
            let _gone = tell.send(());
        } else {
            let waiting = self.waiting.entry(job).or_default();
            waiting.retain(|w| !w.is_closed());
            waiting.push(tell);
        }
    }

    fn enter_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.pending);
        match self.history.enter(self.engine.cluster(), &events, self.engine.cluster().seq()) {
            Ok(()) => {}
            Err(e) if is_damage(&e) => match self.replace_history(&e) {
                Ok(repair) => self.repairs.note(repair),
                Err(e) => tracing::error!("the history is damaged, and cannot be made again: {e}"),
            },
            Err(e) => tracing::error!(
                "the history cannot be written ({e}); `warpyard admin rebuild` makes it again"
            ),
        }
    }

    /// Sets damaged tables aside and makes them again from the log; gives what was done, in words.
    fn replace_history(&mut self, damage: &rusqlite::Error) -> Result<String, FollowerError> {
        let path = self.history.path().to_owned();
        // Closed first: SQLite removes what belongs to a file by its name, which is another file's from then on.
        self.history = History::open(Path::new(":memory:"))?;
        let repair = History::set_aside(&path, &damage.to_string()).map_err(|source| LogError::Sqlite {
            path: path.clone(),
            source: rusqlite::Error::ToSqlConversionFailure(source.into()),
        })?;
        self.history = History::open(&path)?;
        let log = Log::open_existing(&self.log_path)?;
        catch_up(self.engine.cluster(), &mut self.history, &log)?;
        if let Some(lineage) = &self.lineage {
            self.history.set_origin(lineage)?;
        }
        Ok(repair)
    }

    /// Keeps the state, beside everything else, and prunes what it makes needless.
    fn take_snapshot(&mut self) {
        if self.cluster().seq() == self.snapshot_at {
            return;
        }
        self.snapshot_at = self.cluster().seq();
        let (cluster, path, keep) = (self.cluster().clone(), self.log_path.clone(), self.keep_events);
        let lineage = self.lineage.clone();
        let save = move || {
            if let Err(e) = save(&cluster, &path, lineage.as_ref(), system_now() - keep) {
                tracing::warn!("no snapshot could be kept ({e}); the log grows until one can");
            }
        };
        self.snapshot = Some(
            thread::Builder::new().name("snapshot".into()).spawn(save).expect("a thread can be started"),
        );
    }
}

fn save(
    cluster: &Cluster,
    path: &Path,
    lineage: Option<&Lineage>,
    prune_before: Time,
) -> Result<(), LogError> {
    let body = serde_json::to_vec(cluster).expect("a state is always JSON");
    let log = Log::open_existing(path)?;
    if log.lineage() != lineage {
        let how = "was replaced by another log".to_owned();
        return Err(LogError::TakenAway { path: path.to_owned(), how, seq: cluster.seq() });
    }
    log.save_snapshot(cluster.seq(), system_now(), &body)?;
    while log.prune(prune_before, PRUNE_AT_ONCE)? > 0 {}
    Ok(())
}

/// Why the follower could not do something.
#[derive(Debug, thiserror::Error)]
pub enum FollowerError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The derived tables cannot be used.
    #[error(
        "the history cannot be used; if this goes on, move history.db away and start again: what the log has is entered anew"
    )]
    History(#[from] rusqlite::Error),
}

/// Enters what the tables do not have yet; gives how many events went in.
fn catch_up(cluster: &Cluster, history: &mut History, log: &Log) -> Result<u64, FollowerError> {
    in_batches(log, history.seq(), |events, last| history.enter(cluster, events, last))
}

/// Enters what jobs asked for in tables that did not keep it, for as many as the log still has.
fn complete(history: &mut History, log: &Log) -> Result<(), FollowerError> {
    in_batches(log, 0, |events, _| history.enter_needs(events))?;
    Ok(history.has_needs()?)
}

/// Hands over every event after a number, many at once, with the number of the last of them; gives how many they were.
fn in_batches(
    log: &Log,
    after: u64,
    mut enter: impl FnMut(&[Event], u64) -> rusqlite::Result<()>,
) -> Result<u64, FollowerError> {
    let (mut count, mut last, mut batch, mut entered) = (0, after, Vec::new(), Ok(()));
    log.each_event(after, |seq, event| {
        batch.push(event);
        (count, last) = (count + 1, seq);
        if batch.len() >= ENTER_AT_MOST {
            if entered.is_ok() {
                entered = enter(&batch, last);
            }
            batch.clear();
        }
    })?;
    entered?;
    if !batch.is_empty() {
        enter(&batch, last)?;
    }
    Ok(count)
}
