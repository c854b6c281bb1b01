//! Catching up: entering events that the log has and the derived tables do not.

use crate::store::{HistoryError, HistoryStore, Log, LogError};
use warpyard_core::{Cluster, Event};

/// How many events are entered in one transaction.
const BATCH: usize = 10_000;

/// Why the derived tables could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The derived tables cannot be used.
    #[error(
        "the history cannot be used; if this goes on, move history.db away and start again: what the log has is entered anew"
    )]
    History(#[from] HistoryError),
}

/// Enters what the tables do not have yet; gives how many events went in.
pub(crate) fn catch_up(
    cluster: &Cluster,
    history: &mut dyn HistoryStore,
    log: &Log,
) -> Result<u64, ReplicaError> {
    in_batches(log, history.seq(), |events, last| history.enter(cluster, events, last))
}

/// Enters what jobs asked for in tables that did not keep it, for as many as the log still has.
pub(crate) fn enter_missing_needs(history: &mut dyn HistoryStore, log: &Log) -> Result<(), ReplicaError> {
    in_batches(log, 0, |events, _| history.enter_needs(events))?;
    Ok(history.needs_are_entered()?)
}

/// Hands over every event after a number, many at once, with the number of the last of them; gives how many they were.
fn in_batches(
    log: &Log,
    after: u64,
    mut enter: impl FnMut(&[Event], u64) -> Result<(), HistoryError>,
) -> Result<u64, ReplicaError> {
    let (mut count, mut last, mut batch, mut entered) = (0, after, Vec::new(), Ok(()));
    log.each_event(after, |seq, event| {
        batch.push(event);
        (count, last) = (count + 1, seq);
        if batch.len() >= BATCH {
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
