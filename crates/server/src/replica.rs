//! The read replica: a copy of the engine's state that the replicator keeps up to date and that requests read concurrently.
//!
//! A read holds a shared lock while its answer is assembled; applying events takes the lock exclusively, a few events at a
//! time. The derived tables have one connection that writes, and a pool of connections for reads.

use crate::catch_up::{ReplicaError, catch_up};
use crate::change_feed::ChangeFeed;
use crate::clock::Clock;
use crate::job_index::JobIndex;
use crate::latency::LatencyHistograms;
use crate::repairs::Repairs;
use crate::store::{HistoryError, HistoryStore, Log, LogError, Sample};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Semaphore;
use warpyard_core::cluster::Effects;
use warpyard_core::engine::Engine;
use warpyard_core::policy::Policy;
use warpyard_core::{Cluster, Event, JobId, Time};
use warpyard_worker::agent::Lineage;

/// The most concurrent reads; each has a connection to the derived tables.
const READERS: usize = 8;

/// The most events that may wait to be entered in the derived tables.
const ENTER_AT_MOST: usize = 1_000;

/// Read replica: the state, its indexes and the derived tables.
pub(crate) struct ReadReplica {
    state: RwLock<ReplicaState>,
    tables: Mutex<HistoryWriter>,
    /// Whether events wait to be entered in the tables; read without the lock of the tables.
    behind: AtomicBool,
    /// Idle connections. There are as many as permits, so the holder of a permit always finds one.
    idle: Mutex<ConnectionPool>,
    permits: Arc<Semaphore>,
    notices: Arc<ChangeFeed>,
    measures: Arc<LatencyHistograms>,
    clock: Clock,
}

/// Pool of connections to the derived tables. The generation counts how often the tables were replaced: a connection to
/// tables that were set aside is not returned to the pool.
struct ConnectionPool {
    connections: Vec<Box<dyn HistoryStore>>,
    generation: u64,
}

/// The part of the replica that events change.
struct ReplicaState {
    engine: Engine,
    index: JobIndex,
}

/// Writer of the derived tables.
struct HistoryWriter {
    history: Box<dyn HistoryStore>,
    log_path: PathBuf,
    /// The lineage of the log.
    lineage: Option<Lineage>,
    repairs: Arc<Repairs>,
    /// Events that were applied to the state and are not in the tables yet.
    pending: Vec<Event>,
}

impl ReadReplica {
    /// A replica at the state of an engine; the tables are up to date with it.
    pub(crate) fn new(
        engine: Engine,
        history: Box<dyn HistoryStore>,
        log_path: PathBuf,
        lineage: Option<Lineage>,
        clock: Clock,
    ) -> Result<ReadReplica, LogError> {
        let idle = readers(&*history)?;
        let notices = Arc::new(ChangeFeed::starting_at(engine.cluster().seq()));
        let tables =
            HistoryWriter { history, log_path, lineage, repairs: Arc::default(), pending: Vec::new() };
        Ok(ReadReplica {
            state: RwLock::new(ReplicaState { index: JobIndex::of(engine.cluster()), engine }),
            tables: Mutex::new(tables),
            behind: AtomicBool::new(false),
            permits: Arc::new(Semaphore::new(idle.len())),
            idle: Mutex::new(ConnectionPool { connections: idle, generation: 0 }),
            notices,
            measures: Arc::default(),
            clock,
        })
    }

    /// Sets where repairs of damaged tables are noted.
    pub(crate) fn note_repairs_in(&self, repairs: Arc<Repairs>) {
        self.tables().repairs = repairs;
    }

    /// The feed of changes.
    pub(crate) fn notices(&self) -> &Arc<ChangeFeed> {
        &self.notices
    }

    /// The latency histograms.
    pub(crate) fn measures(&self) -> &Arc<LatencyHistograms> {
        &self.measures
    }

    /// The server's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The semaphore that limits concurrent reads.
    pub(crate) fn permits(&self) -> Arc<Semaphore> {
        self.permits.clone()
    }

    /// A reader of the state and the tables; the caller holds a permit.
    pub(crate) fn reader(&self) -> Reader<'_> {
        let state = self.state();
        Reader { replica: self, state, now: self.clock.now(), tables: OnceCell::new() }
    }

    /// A connection to up-to-date tables without the state's lock, so that a slow query delays no event; the caller holds a
    /// permit.
    pub(crate) fn connection_up_to_date(&self) -> impl Deref<Target = dyn HistoryStore> + '_ {
        self.enter_pending();
        self.connection()
    }

    /// Reads the cluster without a permit: for the replicator.
    pub(crate) fn read_cluster<T>(&self, read: impl FnOnce(&Cluster) -> T) -> T {
        read(self.state().engine.cluster())
    }

    /// Enters pending events in the tables.
    pub(crate) fn enter_pending(&self) {
        self.enter(self.state().engine.cluster());
    }

    /// Moves the write-ahead log of the derived tables into their file. Closing the writer would do so only if no reader's
    /// connection were left, which at the end of a process is chance.
    pub(crate) fn checkpoint(&self) {
        if let Err(e) = self.tables().history.checkpoint() {
            tracing::warn!("the write-ahead log of the history is left behind: {e}");
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, ReplicaState> {
        self.state.read().expect("applying an event does not panic")
    }

    /// The state under the exclusive lock.
    pub(crate) fn applying(&self) -> ReplicaWriter<'_> {
        ReplicaWriter { replica: self, state: self.state.write().expect("applying an event does not panic") }
    }

    fn tables(&self) -> MutexGuard<'_, HistoryWriter> {
        self.tables.lock().expect("nobody panics while entering events")
    }

    fn idle(&self) -> MutexGuard<'_, ConnectionPool> {
        self.idle.lock().expect("nobody panics while taking a connection")
    }

    fn connection(&self) -> PooledHistory<'_> {
        let mut idle = self.idle();
        let history = idle.connections.pop().expect("there are as many connections as permits");
        PooledHistory { history: Some(history), generation: idle.generation, replica: self }
    }

    /// Enters pending events in the tables; the cluster is the replica's.
    fn enter(&self, cluster: &Cluster) {
        if !self.behind.load(Ordering::Acquire) {
            return;
        }
        let mut tables = self.tables();
        if tables.enter(cluster) == EntryOutcome::Replaced {
            match readers(&*tables.history) {
                Ok(readers) => {
                    let mut idle = self.idle();
                    *idle = ConnectionPool { connections: readers, generation: idle.generation + 1 };
                }
                Err(e) => tracing::error!("the history that was made again cannot be read: {e}"),
            }
        }
        self.behind.store(false, Ordering::Release);
    }
}

/// Opens read-only connections.
fn readers(history: &dyn HistoryStore) -> Result<Vec<Box<dyn HistoryStore>>, LogError> {
    (0..READERS).map(|_| history.open_reader()).collect()
}

/// The state under the exclusive lock, while events are applied.
pub(crate) struct ReplicaWriter<'a> {
    replica: &'a ReadReplica,
    state: RwLockWriteGuard<'a, ReplicaState>,
}

impl ReplicaWriter<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        self.state.engine.cluster()
    }

    pub(crate) fn apply(&mut self, event: &Event) -> Effects {
        self.state.engine.follow(event)
    }

    /// Updates the indexes of jobs that events may have changed.
    pub(crate) fn index(&mut self, changed: &BTreeSet<JobId>) {
        let ReplicaState { engine, index } = &mut *self.state;
        changed.iter().for_each(|job| index.update(engine.cluster(), *job));
    }

    /// Queues applied events for the tables, which enter them before the next read; says whether the queue is full.
    pub(crate) fn enter_later(&self, events: &[Event]) -> bool {
        let mut tables = self.replica.tables();
        tables.pending.extend_from_slice(events);
        self.replica.behind.store(true, Ordering::Release);
        tables.pending.len() >= ENTER_AT_MOST
    }
}

/// A consistent read: the state at one moment, and derived tables that have all of its events.
pub struct Reader<'a> {
    replica: &'a ReadReplica,
    state: RwLockReadGuard<'a, ReplicaState>,
    now: Time,
    /// Taken when first needed, after pending events were entered: entering them may replace damaged tables.
    tables: OnceCell<PooledHistory<'a>>,
}

impl Reader<'_> {
    /// The state.
    pub fn cluster(&self) -> &Cluster {
        self.state.engine.cluster()
    }

    /// When the request began to read: one moment for all of its answer.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The indexes of the jobs in memory.
    pub(crate) fn index(&self) -> &JobIndex {
        &self.state.index
    }

    /// The policy in force, which has observed this state.
    pub fn policy(&self) -> &dyn Policy {
        self.state.engine.policy()
    }

    /// The derived tables, up to date.
    pub fn history(&self) -> &dyn HistoryStore {
        self.replica.enter(self.cluster());
        &**self.tables.get_or_init(|| self.replica.connection())
    }

    /// The latency histograms.
    pub(crate) fn measures(&self) -> Arc<LatencyHistograms> {
        self.replica.measures.clone()
    }

    /// Stores a sample of utilisation.
    pub(crate) fn keep_sample(&self, at: Time, sample: &Sample) -> Result<(), HistoryError> {
        self.replica.tables().history.keep_sample(at, sample)
    }

    /// Rebuilds the derived tables from the log; returns how many attempts they have then.
    pub(crate) fn rebuild(&self) -> Result<u64, ReplicaError> {
        self.replica.enter(self.cluster());
        let mut tables = self.replica.tables();
        tables.rebuild(self.cluster())?;
        Ok(tables.history.rows()?)
    }
}

/// A connection taken from the pool; returned to it when dropped.
struct PooledHistory<'a> {
    history: Option<Box<dyn HistoryStore>>,
    generation: u64,
    replica: &'a ReadReplica,
}

impl Deref for PooledHistory<'_> {
    type Target = dyn HistoryStore;

    fn deref(&self) -> &Self::Target {
        self.history.as_deref().expect("it is given back when it is dropped")
    }
}

impl Drop for PooledHistory<'_> {
    fn drop(&mut self) {
        let mut idle = self.replica.idle();
        // Where the tables were replaced meanwhile, there are enough without it.
        if idle.generation == self.generation {
            idle.connections.extend(self.history.take());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum EntryOutcome {
    All,
    /// Events are in new tables, because the old ones were damaged.
    Replaced,
}

impl HistoryWriter {
    fn enter(&mut self, cluster: &Cluster) -> EntryOutcome {
        let events = std::mem::take(&mut self.pending);
        if events.is_empty() {
            return EntryOutcome::All;
        }
        match self.history.enter(cluster, &events, cluster.seq()) {
            Ok(()) => {}
            Err(e @ HistoryError::Damaged(_)) => match self.replace(cluster, &e) {
                Ok(repair) => {
                    self.repairs.note(repair);
                    return EntryOutcome::Replaced;
                }
                Err(e) => tracing::error!("the history is damaged, and cannot be made again: {e}"),
            },
            Err(e) => tracing::error!(
                "the history cannot be written ({e}); `warpyard admin rebuild` makes it again"
            ),
        }
        EntryOutcome::All
    }

    /// Sets damaged tables aside and rebuilds them from the log; returns a description of the repair.
    fn replace(&mut self, cluster: &Cluster, damage: &HistoryError) -> Result<String, ReplicaError> {
        let repair = self.history.replace_damaged(damage)?;
        let log = Log::open_existing(&self.log_path)?;
        catch_up(cluster, &mut *self.history, &log)?;
        if let Some(lineage) = &self.lineage {
            self.history.set_origin(lineage)?;
        }
        Ok(repair)
    }

    fn rebuild(&mut self, cluster: &Cluster) -> Result<(), ReplicaError> {
        let log = Log::open_existing(&self.log_path)?;
        let mut first = None;
        log.each_event(0, |seq, event| {
            first.get_or_insert((seq, event.at));
        })?;
        let Some((seq, at)) = first else { return Ok(()) };
        self.history.clear(cluster, seq, at)?;
        catch_up(cluster, &mut *self.history, &log)?;
        Ok(())
    }
}
