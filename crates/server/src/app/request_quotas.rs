//! Bounds of what one caller may ask at once.

use crate::caller::Caller;
use crate::quota::Quota;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Semaphore;
use warpyard_core::AttemptId;
use warpyard_core::limits::Limits;

/// The default limit of a snapshot's size in bytes.
const SNAPSHOT_LIMIT: u64 = 1 << 30;

/// Bounds of what one caller may ask at once.
pub(crate) struct RequestQuotas {
    /// The configured limits.
    pub(crate) limits: Arc<Limits>,
    /// Requests in flight, by user.
    pub(crate) requests: Arc<Quota<String>>,
    /// Slots for expensive requests, by user.
    pub(crate) blocking: BlockingSlots,
    /// Clients attached to terminals.
    pub(crate) attached: Arc<Quota<AttemptId>>,
    /// The most bytes a snapshot may hold.
    pub(crate) snapshot_limit: u64,
}

impl Default for RequestQuotas {
    fn default() -> RequestQuotas {
        RequestQuotas {
            limits: Arc::default(),
            requests: Arc::default(),
            blocking: BlockingSlots::default(),
            attached: Arc::default(),
            snapshot_limit: SNAPSHOT_LIMIT,
        }
    }
}

/// Concurrent blocking requests of one user; further ones wait.
const AT_ONCE: usize = 2;

/// A semaphore for each user with blocking work, by name; `None` is the server's owner.
#[derive(Debug, Default)]
pub(crate) struct BlockingSlots(Mutex<HashMap<Option<String>, Weak<Semaphore>>>);

impl BlockingSlots {
    pub(crate) fn of(&self, who: &Caller) -> Arc<Semaphore> {
        let name = who.quota_name();
        let mut turns = self.0.lock().expect("nobody panics while looking a user up");
        if let Some(known) = turns.get(&name).and_then(Weak::upgrade) {
            return known;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let new = Arc::new(Semaphore::new(AT_ONCE));
        turns.insert(name, Arc::downgrade(&new));
        new
    }
}
