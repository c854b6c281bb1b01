//! Quotas by key: connections and requests of a user, clients of a terminal. A permit is returned by being dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Permits in use, by key.
#[derive(Debug)]
pub(crate) struct Quota<K>(Mutex<HashMap<K, usize>>);

impl<K> Default for Quota<K> {
    fn default() -> Self {
        Quota(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Quota<K> {
    /// Takes a permit for a key, unless it has `most` already.
    pub(crate) fn acquire(self: &Arc<Self>, of: K, most: usize) -> Option<QuotaPermit<K>> {
        let mut counts = self.0.lock().expect("nobody panics while counting");
        let count = counts.entry(of.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(QuotaPermit { seats: self.clone(), of })
    }
}

/// A permit in use.
#[derive(Debug)]
pub(crate) struct QuotaPermit<K: Eq + Hash + Clone> {
    seats: Arc<Quota<K>>,
    of: K,
}

impl<K: Eq + Hash + Clone> Drop for QuotaPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.seats.0.lock().expect("nobody panics while counting");
        if let Some(count) = counts.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.of);
            }
        }
    }
}
