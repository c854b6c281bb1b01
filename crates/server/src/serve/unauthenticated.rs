//! Unauthenticated connections: a bounded number, fewer from one address; when there are too many the oldest is evicted. A
//! client that opens thousands evicts its own, and one that comes with a token, which takes a moment, is served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// The unauthenticated connections of a listener.
#[derive(Debug)]
pub(super) struct UnauthenticatedConnections {
    most: usize,
    most_per_address: usize,
    list: Mutex<ConnectionList>,
}

#[derive(Debug, Default)]
struct ConnectionList {
    next: u64,
    waiting: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    of_address: HashMap<IpAddr, BTreeSet<u64>>,
}

impl ConnectionList {
    fn remove(&mut self, number: u64) -> Option<Arc<Notify>> {
        let (address, evicted) = self.waiting.remove(&number)?;
        if let Some(numbers) = self.of_address.get_mut(&address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of_address.remove(&address);
            }
        }
        Some(evicted)
    }
}

impl UnauthenticatedConnections {
    /// No connections, and room for `most`.
    pub(super) fn new(most: usize, most_per_address: usize) -> Arc<UnauthenticatedConnections> {
        Arc::new(UnauthenticatedConnections { most, most_per_address, list: Mutex::default() })
    }

    /// Adds a connection, evicting the oldest where there is no room.
    pub(super) fn add(self: &Arc<Self>, address: IpAddr) -> UnauthenticatedSlot {
        let mut list = self.list();
        let theirs = list.of_address.get(&address);
        let oldest = match theirs {
            Some(theirs) if theirs.len() >= self.most_per_address => theirs.first().copied(),
            _ if list.waiting.len() >= self.most => list.waiting.keys().next().copied(),
            _ => None,
        };
        if let Some(evicted) = oldest.and_then(|number| list.remove(number)) {
            evicted.notify_one();
        }
        let (number, evicted) = (list.next, Arc::new(Notify::new()));
        list.next += 1;
        list.waiting.insert(number, (address, evicted.clone()));
        list.of_address.entry(address).or_default().insert(number);
        UnauthenticatedSlot { of: self.clone(), number, evicted }
    }

    fn list(&self) -> MutexGuard<'_, ConnectionList> {
        self.list.lock().expect("nobody panics while counting connections")
    }
}

/// The slot of an unauthenticated connection, freed when dropped.
#[derive(Debug)]
pub(super) struct UnauthenticatedSlot {
    of: Arc<UnauthenticatedConnections>,
    number: u64,
    evicted: Arc<Notify>,
}

impl UnauthenticatedSlot {
    /// Signals that the connection is evicted.
    pub(super) fn evicted(&self) -> Arc<Notify> {
        self.evicted.clone()
    }
}

impl Drop for UnauthenticatedSlot {
    fn drop(&mut self) {
        self.of.list().remove(self.number);
    }
}
