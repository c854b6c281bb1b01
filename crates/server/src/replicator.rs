//! The replicator: a thread that applies the engine's events to the read replica, wakes requests that wait for them, and
//! takes state snapshots.

use crate::catch_up::{ReplicaError, catch_up, enter_missing_needs};
use crate::change_feed::ChangeFeed;
use crate::clock::Clock;
use crate::job_index::changed_by;
use crate::latency::LatencyHistograms;
use crate::repairs::Repairs;
use crate::replica::ReadReplica;
use crate::store::{HistoryStore, Log, LogError};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use warpyard_core::command::TaskSelector;
use warpyard_core::engine::Engine;
use warpyard_core::event::EventKind;
use warpyard_core::pool::Placement;
use warpyard_core::{AttemptId, Cluster, Event, JobId, Span, TaskState, Time};
use warpyard_worker::agent::Lineage;

/// The least events between two state snapshots; as many as there are jobs where those are more, since a snapshot costs as
/// much as it has jobs.
const SNAPSHOT_EVERY: u64 = 20_000;

/// The longest that events wait before they are in the derived tables.
const ENTER_WITHIN: Duration = Duration::from_millis(200);

/// The most events applied under one exclusive lock.
const APPLY_AT_ONCE: usize = 200;

/// The most events pruned in one transaction.
const PRUNE_AT_ONCE: u32 = 2_000;

/// A message to the replicator.
pub(crate) enum ReplicatorMessage {
    Events(Vec<Event>),
    When(Condition, oneshot::Sender<()>),
    Stop,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// That a job, or a part of one, is over.
    Over(TaskSelector),
    /// That an attempt is not the latest of its task any more, or the task is over.
    Superseded(AttemptId),
}

impl Condition {
    fn job(self) -> JobId {
        match self {
            Condition::Over(target) => target.job(),
            Condition::Superseded(attempt) => attempt.task.job,
        }
    }

    fn holds(self, cluster: &Cluster) -> bool {
        match self {
            Condition::Over(target) => is_over(cluster, target),
            Condition::Superseded(attempt) => is_superseded(cluster, attempt),
        }
    }
}

/// The thread that keeps the read replica up to date.
pub struct Replicator {
    replica: Arc<ReadReplica>,
    log_path: PathBuf,
    /// The lineage of the log: a state snapshot is saved in no other log.
    lineage: Option<Lineage>,
    keep_events: Span,
    snapshot_at: u64,
    snapshot: Option<JoinHandle<()>>,
    waiting: BTreeMap<JobId, Vec<(Condition, oneshot::Sender<()>)>>,
    /// The number of the last applied event; closed when the replicator ends.
    applied: watch::Sender<u64>,
}

impl Replicator {
    /// A replicator at the state of an engine; the tables catch up with the log.
    pub fn new(
        engine: Engine,
        mut history: Box<dyn HistoryStore>,
        log: &Log,
        log_path: PathBuf,
        keep_events: Span,
        clock: Clock,
    ) -> Result<Replicator, ReplicaError> {
        if history.lacks_needs() {
            enter_missing_needs(&mut *history, log)?;
        }
        catch_up(engine.cluster(), &mut *history, log)?;
        let lineage = log.lineage().cloned();
        if let Some(lineage) = &lineage
            && history.origin()?.as_ref() != Some(lineage)
        {
            history.set_origin(lineage)?;
        }
        let snapshot_at = engine.cluster().seq();
        let replica = Arc::new(ReadReplica::new(engine, history, log_path.clone(), lineage.clone(), clock)?);
        let (snapshot, waiting) = Default::default();
        let applied = watch::Sender::new(snapshot_at);
        Ok(Replicator { replica, log_path, lineage, keep_events, snapshot_at, snapshot, waiting, applied })
    }

    /// Sets where repairs of damaged tables are noted.
    pub(crate) fn note_repairs_in(&self, repairs: Arc<Repairs>) {
        self.replica.note_repairs_in(repairs);
    }

    /// The feed of changes.
    pub(crate) fn notices(&self) -> Arc<ChangeFeed> {
        self.replica.notices().clone()
    }

    /// The latency histograms.
    pub(crate) fn measures(&self) -> Arc<LatencyHistograms> {
        self.replica.measures().clone()
    }

    /// The replica that it keeps up to date.
    pub(crate) fn replica(&self) -> Arc<ReadReplica> {
        self.replica.clone()
    }

    /// Subscribes to the number of the last applied event.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    pub(crate) fn run(mut self, inbox: &Receiver<ReplicatorMessage>) {
        loop {
            match inbox.recv_timeout(ENTER_WITHIN) {
                Ok(ReplicatorMessage::Events(events)) => self.follow(&events),
                Ok(ReplicatorMessage::When(condition, notify)) => self.notify_when(condition, notify),
                Ok(ReplicatorMessage::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.enter_pending(),
            }
        }
        self.enter_pending();
        self.take_snapshot();
        if let Some(thread) = self.snapshot.take() {
            let _failed = thread.join();
        }
        self.replica.checkpoint();
    }

    fn follow(&mut self, events: &[Event]) {
        let mut many_wait = false;
        for events in events.chunks(APPLY_AT_ONCE) {
            many_wait = self.apply(events);
        }
        if let Some(last) = events.last() {
            self.replica
                .measures()
                .lag
                .observe(Duration::from_micros(self.replica.clock().now().since(last.at).0));
        }
        if many_wait {
            self.enter_pending();
        }
        let busy = self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished());
        if !busy && self.is_snapshot_due() {
            self.take_snapshot();
        }
    }

    /// Applies a few events atomically for readers; says whether the queue of the derived tables is full.
    fn apply(&mut self, events: &[Event]) -> bool {
        let replica = self.replica.clone();
        let mut applying = replica.applying();
        let (mut left, mut touched) = (Vec::new(), BTreeSet::new());
        for event in events {
            if let EventKind::Ended { attempt, .. } = &event.what
                && let Some((ending, _)) = applying.cluster().view().attempt(attempt.task)
            {
                let Placement { worker, devices, .. } = &ending.placement;
                left.extend(devices.iter().map(|(index, _)| (*worker, *index)));
            }
            if let EventKind::Placed { attempt, .. } = &event.what
                && let Some(TaskState::Ready { since }) = applying.cluster().state(attempt.task)
            {
                replica.measures().wait.observe(Duration::from_micros(event.at.since(since).0));
            }
            let effects = applying.apply(event);
            touched.extend(changed_by(event, &effects));
        }
        applying.index(&touched);
        let many_wait = applying.enter_later(events);
        let seq = applying.cluster().seq();
        touched.into_iter().for_each(|job| self.notify_waiters(applying.cluster(), job));
        replica.notices().leave(applying.cluster(), events, &left);
        drop(applying);
        self.applied.send_replace(seq);
        many_wait
    }

    /// Wakes the requests whose condition on a job holds now.
    fn notify_waiters(&mut self, cluster: &Cluster, job: JobId) {
        let Some(waiting) = self.waiting.remove(&job) else { return };
        let (over, open): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(condition, _)| condition.holds(cluster));
        for (_, notify) in over {
            let _gone = notify.send(());
        }
        if !open.is_empty() {
            self.waiting.insert(job, open);
        }
    }

    fn notify_when(&mut self, condition: Condition, notify: oneshot::Sender<()>) {
        if self.replica.read_cluster(|cluster| condition.holds(cluster)) {
            let _gone = notify.send(());
        } else {
            let waiting = self.waiting.entry(condition.job()).or_default();
            waiting.retain(|(_, notify)| !notify.is_closed());
            waiting.push((condition, notify));
        }
    }

    fn enter_pending(&self) {
        self.replica.enter_pending();
    }

    fn is_snapshot_due(&self) -> bool {
        let (seq, jobs) = self.replica.read_cluster(|cluster| (cluster.seq(), cluster.jobs().len() as u64));
        seq - self.snapshot_at >= SNAPSHOT_EVERY.max(jobs)
    }

    /// Saves a state snapshot on a thread of its own, and prunes events that it makes redundant.
    fn take_snapshot(&mut self) {
        let cluster = self.replica.read_cluster(Cluster::saved);
        if cluster.seq() == self.snapshot_at {
            return;
        }
        self.snapshot_at = cluster.seq();
        let (path, keep) = (self.log_path.clone(), self.keep_events);
        let (lineage, now) = (self.lineage.clone(), self.replica.clock().now());
        let save = move || {
            if let Err(e) = save(&cluster, &path, lineage.as_ref(), now, now - keep) {
                tracing::warn!("no snapshot could be kept ({e}); the log grows until one can");
            }
        };
        self.snapshot = Some(
            thread::Builder::new().name("snapshot".into()).spawn(save).expect("a thread can be started"),
        );
    }
}

/// Whether a task is over or has a later attempt; a task that memory no longer holds is over.
fn is_superseded(cluster: &Cluster, AttemptId { task, number }: AttemptId) -> bool {
    let Some(job) = cluster.job(task.job) else { return true };
    let Some((node, _)) = job.node(task.node) else { return true };
    node.done.of(task.index).is_some()
        || node.live.get(&task.index).is_some_and(|live| live.attempts > number)
}

/// Whether every selected task is over; a job that memory no longer holds is.
fn is_over(cluster: &Cluster, target: TaskSelector) -> bool {
    let Some(job) = cluster.job(target.job()) else { return true };
    match target {
        TaskSelector::Job(_) => job.finished.is_some(),
        TaskSelector::Node(n) => job.nodes[n.node as usize].is_done(),
        TaskSelector::Task(t) => job.nodes[t.node as usize].done.of(t.index).is_some(),
        TaskSelector::Range { node, start, end } => {
            let ended = job.nodes[node.node as usize].done.0.values();
            ended.map(|ended| ended.within(start..end).len()).sum::<u64>() == u64::from(end - start)
        }
    }
}

fn save(
    cluster: &Cluster,
    path: &Path,
    lineage: Option<&Lineage>,
    now: Time,
    prune_before: Time,
) -> Result<(), LogError> {
    let body = serde_json::to_vec(cluster).expect("a state is always JSON");
    let log = Log::open_existing(path)?;
    if log.lineage() != lineage {
        let how = "was replaced by another log".to_owned();
        return Err(LogError::TakenAway { path: path.to_owned(), how, seq: cluster.seq() });
    }
    log.save_snapshot(cluster.seq(), now, &body)?;
    while log.prune(prune_before, PRUNE_AT_ONCE)? > 0 {}
    Ok(())
}
