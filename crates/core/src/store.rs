//! The event log, as an interface: append under a fence, read, state snapshots. The engine needs only [`Store`]; a server
//! needs a whole [`LogStore`]. Nothing here says where events are kept: SQLite is in the server, a simulated disk in the
//! fault simulator, and every implementation passes one contract suite (`tests/contract/log_store.rs`).

use crate::cluster::Cluster;
use crate::event::Event;
use crate::policy::PolicyChoice;
use crate::time::Time;
use std::convert::Infallible;

/// A writer's term: the fencing token that every append carries. Each claim of a log gets a greater one, so that a writer
/// that was replaced without noticing (suspended, cut off) is refused instead of writing beside its successor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// An append-only log of events. What `append` returned from is durable.
pub trait Store {
    /// Why events could not be appended.
    type Error;

    /// Appends events, all or none.
    ///
    /// `epoch` is the writer's: a log that was claimed since by another refuses it. `after` is the number of the last event
    /// the writer knows of: a log that ends elsewhere refuses, because something else has written to it.
    fn append(&mut self, epoch: Epoch, after: u64, events: &[Event]) -> Result<(), Self::Error>;
}

/// A whole event log: one writer at a time, any number of readers, and state snapshots that make its prefix prunable.
pub trait LogStore: Store {
    /// Becomes the writer. The epoch is greater than every earlier one, whose appends are refused from now on.
    fn claim(&mut self) -> Result<Epoch, Self::Error>;

    /// The number of the last event; 0 where there is none.
    fn last_seq(&self) -> Result<u64, Self::Error>;

    /// Passes on every event after a number, in order and without a gap, each with its number.
    fn read_from(&self, after: u64, take: &mut dyn FnMut(u64, Event)) -> Result<(), Self::Error>;

    /// Keeps the state at its event number. It may come from any reader that has seen that event: a state is a function of
    /// the events before it, so it needs no fence.
    fn save_snapshot(&mut self, cluster: &Cluster, at: Time) -> Result<(), Self::Error>;

    /// Removes at most `most` events that happened before a moment and that no kept snapshot needs; returns how many.
    fn prune(&mut self, before: Time, most: u32) -> Result<usize, Self::Error>;

    /// The state: the newest readable snapshot and every event after it, or a new cluster with the given policy where
    /// the log is empty. The only way to restore a state.
    fn load_cluster(&mut self, policy: &PolicyChoice) -> Result<Cluster, Self::Error>;
}

/// A store that keeps nothing: for forecasts, benchmarks and tests, where an engine's events are not worth keeping.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Store for Discard {
    type Error = Infallible;

    fn append(&mut self, _: Epoch, _: u64, _: &[Event]) -> Result<(), Infallible> {
        Ok(())
    }
}
