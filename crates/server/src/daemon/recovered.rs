//! The state that a server starts from: the log, claimed and read; the derived tables, checked and caught up.

use super::{DaemonError, Options};
use crate::catch_up::ReplicaError;
use crate::clock::Clock;
use crate::consistency::{self, ConsistencyError};
use crate::data::DataDir;
use crate::repairs::Repairs;
use crate::replicator::Replicator;
use crate::store::{HistoryError, HistoryStore, Log, SqliteHistory};
use std::sync::Arc;
use warpyard_core::engine::Engine;
use warpyard_core::{Cluster, LogStore, Span};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_worker::agent::Layout;

/// How long events are kept unless configured.
const KEEP_EVENTS: Span = Span(30 * 24 * 3600 * 1_000_000);

/// Everything of a data directory that the threads of a server start with.
pub(super) struct Recovered {
    pub(super) engine: Engine,
    pub(super) log: Log,
    pub(super) replicator: Replicator,
    pub(super) layout: Layout,
    pub(super) repairs: Arc<Repairs>,
    pub(super) clock: Clock,
    /// How many events were applied on top of a state snapshot.
    pub(super) replayed: u64,
}

impl Recovered {
    /// Reads a data directory that this process holds. Damage that can be repaired is, and noted.
    pub(super) fn from(data: &DataDir, options: &Options) -> Result<Recovered, DaemonError> {
        let mut log = Log::open(&data.path().join("log.db"))?;
        // Claimed before it is read: nothing that an earlier writer appends can come between the state and the first turn.
        let epoch = log.claim()?;
        // A policy that was chosen is set later, as an event, so that the log says which one ran from the beginning.
        let loaded = log.load(&default_policy())?;
        let keep = options.config.keep_events.map_or(KEEP_EVENTS, |k| Span(k.0));
        let clock = Clock::continuing(log.last_at()?);
        let repairs = Arc::new(Repairs::kept_in(data.path(), clock.clone()));
        loaded.repairs.iter().for_each(|repair| repairs.note(repair.clone()));
        let lineage = log.lineage().expect("a log that was loaded has an id").clone();
        let layout = Layout::new(data.path(), lineage);
        let replicator = replicator(&loaded.cluster, &log, &layout, keep, &repairs, &clock)?;
        let mut engine = build_engine(loaded.cluster, &clock)?;
        engine.write_as(epoch);
        Ok(Recovered { engine, log, replicator, layout, repairs, clock, replayed: loaded.replayed })
    }
}

/// An engine in a state, under the policy that the state names.
pub(crate) fn build_engine(cluster: Cluster, clock: &Clock) -> Result<Engine, DaemonError> {
    Engine::new(cluster, POLICIES, clock.now()).map_err(DaemonError::Policy)
}

/// A replicator at a state, its tables caught up with the log. Damaged tables are made again; a log that they are ahead of is
/// refused.
fn replicator(
    cluster: &Cluster,
    log: &Log,
    layout: &Layout,
    keep: Span,
    repairs: &Arc<Repairs>,
    clock: &Clock,
) -> Result<Replicator, DaemonError> {
    let path = layout.data().join("history.db");
    let checked = |history: Box<dyn HistoryStore>| {
        consistency::check(log, cluster, &*history, layout)?;
        let engine = build_engine(cluster.clone(), clock)?;
        Ok(Replicator::new(engine, history, log, log.path().to_owned(), keep, clock.clone())?)
    };
    let (history, set_aside) = SqliteHistory::open_or_set_aside(&path)?;
    set_aside.into_iter().for_each(|repair| repairs.note(repair));
    let replicator = match checked(Box::new(history)) {
        Err(
            DaemonError::Replica(ReplicaError::History(e @ HistoryError::Damaged(_)))
            | DaemonError::Consistency(ConsistencyError::History(e @ HistoryError::Damaged(_))),
        ) => {
            let aside = SqliteHistory::set_aside(&path, &e.to_string()).map_err(DaemonError::Runtime)?;
            repairs.note(aside);
            checked(Box::new(SqliteHistory::open(&path)?))?
        }
        made => made?,
    };
    replicator.note_repairs_in(repairs.clone());
    Ok(replicator)
}
