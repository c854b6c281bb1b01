//! The store of a run: batches of events and snapshots, as text, the way the live store has them. What a server that
//! dies leaves in it is chosen beforehand; recovery reads it through the same serialisation and the core's own
//! [`Cluster::restored`] and [`Cluster::apply`].

use std::collections::VecDeque;
use warpyard_core::{Cluster, Epoch, Event, LogStore, PolicyChoice, Store, Time};

/// Snapshots kept, as the live store does.
const SNAPSHOTS_KEPT: usize = 2;

/// What happens to the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AppendFault {
    /// It is kept.
    #[default]
    Kept,
    /// It is not, and the server learns of it.
    Refused,
    /// Half of it reaches the disk, and the server is gone.
    Torn,
    /// It is kept, and the server is gone before it can say anything.
    KeptUnsaid,
}

/// The server stops here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreFailure {
    /// Nothing of the batch is kept.
    NotKept,
    /// All of it is, and nobody was told.
    Unsaid,
    /// The writer was replaced, or does not know of the last event.
    Fenced,
}

#[derive(Default)]
pub(super) struct Disk {
    batches: VecDeque<Batch>,
    snapshots: Vec<Snapshot>,
    pub(super) next: AppendFault,
    /// Events that were kept and that the truth has not learned of yet.
    pub(super) fresh: Vec<Event>,
    /// The number of the last event kept.
    seq: u64,
    /// The epoch of the writer in office.
    epoch: Epoch,
    /// Whether batches stay in memory until the next one comes: what a store must never do.
    pub(super) lazy: bool,
}

struct Batch {
    /// The number of its first event.
    first: u64,
    /// How many events it should have; one that was torn has fewer.
    whole: usize,
    events: Vec<Event>,
    /// Whether it has reached the disk.
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
            AppendFault::Refused => return Err(StoreFailure::NotKept),
            AppendFault::Torn => &events[..events.len() / 2],
            AppendFault::Kept | AppendFault::KeptUnsaid => events,
        };
        self.batches.iter_mut().for_each(|b| b.written = true);
        let batch =
            Batch { first: self.seq + 1, whole: events.len(), events: stored.to_vec(), written: !self.lazy };
        self.batches.push_back(batch);
        if next == AppendFault::Torn {
            return Err(StoreFailure::NotKept);
        }
        self.seq += events.len() as u64;
        self.fresh.extend_from_slice(events);
        if next == AppendFault::KeptUnsaid { Err(StoreFailure::Unsaid) } else { Ok(()) }
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

    /// Removes whole batches, however old: nobody here asks for young events that a snapshot includes.
    fn prune(&mut self, _: Time, _: u32) -> Result<usize, StoreFailure> {
        let mut pruned = 0;
        if self.snapshots.len() == SNAPSHOTS_KEPT {
            let needed_from = self.snapshots[0].seq;
            while self.batches.front().is_some_and(|b| b.first + (b.whole as u64) <= needed_from + 1) {
                pruned += self.batches.pop_front().map_or(0, |batch| batch.whole);
            }
        }
        Ok(pruned)
    }

    /// The state after the server's machine lost its memory: what had not reached the disk is gone.
    fn load_cluster(&mut self, policy: &PolicyChoice) -> Result<Cluster, StoreFailure> {
        self.batches.retain(|b| b.written && b.events.len() == b.whole);
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
