//! The store of a run: batches of events and snapshots, as text, the way the live store has them. What a server that
//! dies leaves in it is chosen beforehand; recovery reads it through the same serialisation and the core's own
//! [`Cluster::restored`] and [`Cluster::apply`].

use std::collections::VecDeque;
use warpyard_core::engine::Store;
use warpyard_core::{Cluster, Event, PolicyChoice};

/// Snapshots kept, as the live store does.
const SNAPSHOTS_KEPT: usize = 2;

/// What happens to the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Next {
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
pub(super) enum Stop {
    /// Nothing of the batch is kept.
    NotKept,
    /// All of it is, and nobody was told.
    Unsaid,
}

#[derive(Default)]
pub(super) struct Disk {
    batches: VecDeque<Batch>,
    snapshots: Vec<Snapshot>,
    pub(super) next: Next,
    /// Events that were kept and that the truth has not learned of yet.
    pub(super) fresh: Vec<Event>,
    /// The number of the last event kept.
    seq: u64,
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
    type Error = Stop;

    fn append(&mut self, after: u64, events: &[Event]) -> Result<(), Stop> {
        assert_eq!(after, self.seq, "an engine goes on from what the disk has");
        let next = std::mem::take(&mut self.next);
        let stored = match next {
            Next::Refused => return Err(Stop::NotKept),
            Next::Torn => &events[..events.len() / 2],
            Next::Kept | Next::KeptUnsaid => events,
        };
        self.batches.iter_mut().for_each(|b| b.written = true);
        let batch =
            Batch { first: self.seq + 1, whole: events.len(), events: stored.to_vec(), written: !self.lazy };
        self.batches.push_back(batch);
        if next == Next::Torn {
            return Err(Stop::NotKept);
        }
        self.seq += events.len() as u64;
        self.fresh.extend_from_slice(events);
        if next == Next::KeptUnsaid { Err(Stop::Unsaid) } else { Ok(()) }
    }
}

impl Disk {
    /// Keeps a state, and lets go of what is no longer needed.
    pub(super) fn save(&mut self, cluster: &Cluster) {
        let text = serde_json::to_string(cluster).expect("a state is always JSON");
        self.snapshots.push(Snapshot { seq: cluster.seq(), text });
        if self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.remove(0);
            let needed_from = self.snapshots[0].seq;
            while self.batches.front().is_some_and(|b| b.first + (b.whole as u64) <= needed_from + 1) {
                self.batches.pop_front();
            }
        }
    }

    /// The state the disk amounts to after the server's machine lost its memory.
    pub(super) fn recover(&mut self, policy: &PolicyChoice) -> Cluster {
        self.batches.retain(|b| b.written && b.events.len() == b.whole);
        let mut cluster = match self.snapshots.last() {
            None => Cluster::new(policy.clone()),
            Some(Snapshot { text, .. }) => {
                let read: Cluster = serde_json::from_str(text).expect("a snapshot reads back");
                read.restored()
            }
        };
        for batch in &self.batches {
            let skip = (cluster.seq() + 1).saturating_sub(batch.first) as usize;
            for event in batch.events.iter().skip(skip) {
                let text = serde_json::to_string(event).expect("an event is always JSON");
                let event = serde_json::from_str(&text).expect("an event reads back");
                cluster.apply(&event);
            }
        }
        self.seq = cluster.seq();
        cluster
    }
}
