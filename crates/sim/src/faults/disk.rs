//! Simulated disk: batches of events and state snapshots, serialised as in the live store. What a crashing server leaves on it
//! is chosen beforehand; recovery reads it through the same serialisation and the core's own [`Cluster::restored`] and
//! [`Cluster::apply`].

use std::collections::VecDeque;
use warpyard_core::{Cluster, Epoch, Event, LogStore, PolicyChoice, Store, Time};

/// Snapshots kept, as the live store does.
const SNAPSHOTS_KEPT: usize = 2;

/// Fault of the next append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AppendFault {
    /// None: the batch is committed.
    #[default]
    None,
    /// The append fails, and the server learns it.
    Refused,
    /// Half of the batch reaches the disk, and the server crashes.
    Torn,
    /// The batch is committed, and the server crashes before it can acknowledge anything.
    CrashAfterCommit,
}

/// Failure of an append, on which the server stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreFailure {
    /// Nothing of the batch is committed.
    NotCommitted,
    /// The batch is committed, but nothing was acknowledged.
    Unacknowledged,
    /// The writer was deposed, or does not know the last event.
    Fenced,
}

/// Simulated disk.
#[derive(Default)]
pub(super) struct Disk {
    batches: VecDeque<Batch>,
    snapshots: Vec<Snapshot>,
    pub(super) next: AppendFault,
    /// Committed events that the reference state has yet to apply.
    pub(super) fresh: Vec<Event>,
    /// Number of the last committed event.
    seq: u64,
    /// Epoch of the current writer.
    epoch: Epoch,
    /// Injected bug: a batch stays in memory until the next one is written.
    pub(super) lazy: bool,
}

struct Batch {
    /// Number of its first event.
    first: u64,
    /// Number of events it should have; a torn batch has fewer.
    len: usize,
    events: Vec<Event>,
    /// Whether it is on disk.
    written: bool,
}

struct Snapshot {
    seq: u64,
    text: String,
}

impl Store for Disk {
    type Error = StoreFailure;

    fn append(&mut self, epoch: Epoch, after: u64, events: &[Event]) -> Result<(), StoreFailure> {
        if epoch != self.epoch || after != self.seq {
            return Err(StoreFailure::Fenced);
        }
        let next = std::mem::take(&mut self.next);
        let stored = match next {
            AppendFault::Refused => return Err(StoreFailure::NotCommitted),
            AppendFault::Torn => &events[..events.len() / 2],
            AppendFault::None | AppendFault::CrashAfterCommit => events,
        };
        self.batches.iter_mut().for_each(|b| b.written = true);
        let batch =
            Batch { first: self.seq + 1, len: events.len(), events: stored.to_vec(), written: !self.lazy };
        self.batches.push_back(batch);
        if next == AppendFault::Torn {
            return Err(StoreFailure::NotCommitted);
        }
        self.seq += events.len() as u64;
        self.fresh.extend_from_slice(events);
        if next == AppendFault::CrashAfterCommit { Err(StoreFailure::Unacknowledged) } else { Ok(()) }
    }
}

impl LogStore for Disk {
    fn claim(&mut self) -> Result<Epoch, StoreFailure> {
        self.epoch = Epoch(self.epoch.0 + 1);
        Ok(self.epoch)
    }

    fn last_seq(&self) -> Result<u64, StoreFailure> {
        Ok(self.seq)
    }

    fn read_from(&self, after: u64, take: &mut dyn FnMut(u64, Event)) -> Result<(), StoreFailure> {
        for batch in &self.batches {
            for (seq, event) in (batch.first..).zip(&batch.events).filter(|(seq, _)| *seq > after) {
                let text = serde_json::to_string(event).expect("an event is always JSON");
                take(seq, serde_json::from_str(&text).expect("an event reads back"));
            }
        }
        Ok(())
    }

    fn save_snapshot(&mut self, cluster: &Cluster, _: Time) -> Result<(), StoreFailure> {
        let text = serde_json::to_string(cluster).expect("a state is always JSON");
        self.snapshots.push(Snapshot { seq: cluster.seq(), text });
        if self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.remove(0);
        }
        Ok(())
    }

    /// Removes entire batches regardless of age: no reader here needs recent events that a snapshot includes.
    fn prune(&mut self, _: Time, _: u32) -> Result<usize, StoreFailure> {
        let mut pruned = 0;
        if self.snapshots.len() == SNAPSHOTS_KEPT {
            let needed_from = self.snapshots[0].seq;
            while self.batches.front().is_some_and(|b| b.first + (b.len as u64) <= needed_from + 1) {
                pruned += self.batches.pop_front().map_or(0, |batch| batch.len);
            }
        }
        Ok(pruned)
    }

    /// State after a crash of the server's machine: everything that is not on disk is lost.
    fn load_cluster(&mut self, policy: &PolicyChoice) -> Result<Cluster, StoreFailure> {
        self.batches.retain(|b| b.written && b.events.len() == b.len);
        let mut cluster = match self.snapshots.last() {
            None => Cluster::new(policy.clone()),
            Some(Snapshot { text, .. }) => {
                let read: Cluster = serde_json::from_str(text).expect("a snapshot reads back");
                read.restored()
            }
        };
        self.read_from(cluster.seq(), &mut |_, event| drop(cluster.apply(&event)))?;
        self.seq = cluster.seq();
        Ok(cluster)
    }
}

#[cfg(test)]
#[path = "../../../core/tests/contract/log_store.rs"]
mod contract;

#[cfg(test)]
mod tests {
    use super::{Disk, contract};

    #[test]
    fn the_simulated_disk_keeps_the_contract_of_a_log_store() {
        contract::holds(Disk::default, |disk| disk);
    }
}
