//! Exchange of incumbents between two threads of a search.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::search_context::Incumbent;

/// Best schedule that any thread has found, and the signal to stop.
#[derive(Debug)]
pub(super) struct Exchange {
    best: Mutex<Option<Incumbent>>,
    /// Bits of the best value: a reader that has a better one need not lock. Values are not negative, so their bits have
    /// their order.
    value: AtomicU64,
    stopped: AtomicBool,
    iterations: AtomicU64,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            best: Mutex::new(None),
            value: AtomicU64::new(f64::INFINITY.to_bits()),
            stopped: AtomicBool::new(false),
            iterations: AtomicU64::new(0),
        }
    }
}

impl Exchange {
    /// Value of the best schedule offered so far; infinite before the first.
    pub(super) fn value(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Acquire))
    }

    /// Offers a schedule, which is kept if it is better than all before.
    pub(super) fn offer(&self, incumbent: &Incumbent) {
        if incumbent.value >= self.value() {
            return;
        }
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.as_ref().is_none_or(|best| incumbent.value < best.value) {
            *best = Some(incumbent.clone());
            self.value.store(incumbent.value.to_bits(), Ordering::Release);
        }
    }

    /// The best schedule if it is better than `value`.
    pub(super) fn better_than(&self, value: f64) -> Option<Incumbent> {
        if self.value() >= value {
            return None;
        }
        self.best.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Guard that stops the other thread when it is dropped.
    pub(super) fn stop_on_drop(&self) -> StopOnDrop<'_> {
        StopOnDrop(self)
    }

    pub(super) fn count_iterations(&self, count: u64) {
        self.iterations.fetch_add(count, Ordering::AcqRel);
    }

    /// Schedules made by the other thread, once it has ended.
    pub(super) fn iterations(&self) -> u64 {
        self.iterations.load(Ordering::Acquire)
    }
}

/// Guard of [`Exchange::stop_on_drop`].
pub(super) struct StopOnDrop<'a>(&'a Exchange);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
    }
}
