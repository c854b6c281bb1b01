//! Contact with the holders of claims: heartbeats, and clients that wait for a grant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use warpyard_core::{JobId, Time};

/// The most claims whose last heartbeat is remembered.
const MAX_HEARTBEATS: usize = 10_000;

/// Contact with the holders of claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimContacts {
    /// Time of the last heartbeat of each claim.
    heartbeats: Mutex<BTreeMap<JobId, Time>>,
    /// Clients that wait for claims.
    pub(crate) waiters: Arc<ClaimWaiters>,
}

impl ClaimContacts {
    /// Records a heartbeat of a claim.
    pub(crate) fn record_heartbeat(&self, job: JobId, now: Time) {
        let mut heartbeats = self.heartbeats.lock().expect("nobody panics while recording");
        heartbeats.insert(job, now);
        // Claims are few; the oldest are long gone.
        while heartbeats.len() > MAX_HEARTBEATS {
            heartbeats.pop_first();
        }
    }

    /// Time of a claim's last heartbeat.
    pub(crate) fn last_heartbeat(&self, job: JobId) -> Option<Time> {
        self.heartbeats.lock().expect("nobody panics while recording").get(&job).copied()
    }
}

/// The most processes of waiting claims that are watched; each takes a file descriptor.
const WATCHED: usize = 1_024;

/// Clients that wait for claims to be granted.
#[derive(Debug)]
pub(crate) struct ClaimWaiters {
    /// The number of polls seen of each claim.
    polls: Mutex<BTreeMap<JobId, u64>>,
    /// Permits for watched processes.
    pub(crate) watches: Semaphore,
}

impl Default for ClaimWaiters {
    fn default() -> ClaimWaiters {
        ClaimWaiters { polls: Mutex::default(), watches: Semaphore::new(WATCHED) }
    }
}

impl ClaimWaiters {
    /// Records that a claim's client is polling; returns the number of polls so far.
    pub(crate) fn record_poll(&self, job: JobId) -> u64 {
        let mut waiting = self.polls.lock().expect("nobody panics while counting");
        let times = waiting.entry(job).or_default();
        *times += 1;
        *times
    }

    pub(crate) fn polls(&self, job: JobId) -> u64 {
        self.polls.lock().expect("nobody panics while counting").get(&job).copied().unwrap_or_default()
    }

    pub(crate) fn forget(&self, job: JobId) {
        self.polls.lock().expect("nobody panics while counting").remove(&job);
    }
}
