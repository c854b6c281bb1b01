//! Timeline of one machine: its busy slots, and the search for an insertion slot.

use super::prefetch;

/// Busy slots (start, finish) of a machine by time. Slots of zero length are kept: such a task may stand between two
/// adjacent slots.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    busy: Vec<(f64, f64)>,
}

/// Latest slots scanned linearly: most insertions fall among them.
const RECENT: usize = 4;

impl Timeline {
    /// Earliest start from `ready` on at which `cost` fits, and the index of the new slot; `None` when it would finish
    /// after `limit`. A gap exactly as long as the task suffices.
    #[inline]
    pub(super) fn earliest_fit(&self, ready: f64, cost: f64, limit: f64) -> Option<(f64, usize)> {
        // A gap that ends before `ready + cost` is too early: the search starts at the slot after it.
        let first = self.first_starting_from(ready + cost);
        // Starts are sorted and slots do not overlap, so everything before `first` ends by its predecessor's finish.
        let mut free = if first > 0 { self.busy[first - 1].1 } else { ready };
        for (at, (next, finish)) in self.busy.iter().enumerate().skip(first) {
            let start = if free > ready { free } else { ready };
            if start + cost > limit {
                return None;
            }
            if start + cost <= *next {
                return Some((start, at));
            }
            free = *finish;
        }
        let start = if free > ready { free } else { ready };
        (start + cost <= limit).then_some((start, self.busy.len()))
    }

    /// Prefetches the slots among which [`Timeline::earliest_fit`] will search from `at` on.
    #[inline]
    pub(super) fn prefetch(&self, at: f64) {
        let Some((older, recent)) = self.busy.split_last_chunk::<RECENT>() else { return };
        let guess = if recent[0].0 < at { older.len() } else { interpolate(older.len(), at, recent[0].0) };
        prefetch(&self.busy[guess..(guess + RECENT).min(self.busy.len())]);
    }

    pub(super) fn insert(&mut self, at: usize, start: f64, finish: f64) {
        self.busy.insert(at, (start, finish));
    }

    pub(super) fn remove(&mut self, start: f64, finish: f64) {
        let first = self.first_starting_from(start);
        let slots = self.busy[first..].iter().take_while(|slot| slot.0 == start);
        if let Some(at) = slots.map(|slot| slot.1).position(|f| f == finish) {
            self.busy.remove(first + at);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    /// Maximal busy interval without a gap around slot `at`, followed back no further than `lookback`.
    pub(super) fn busy_interval(&self, at: usize, lookback: f64) -> (f64, f64) {
        let (mut from, mut to) = self.busy[at];
        for next in &self.busy[at + 1..] {
            if next.0 > to {
                break;
            }
            to = next.1;
        }
        for before in self.busy[..at].iter().rev() {
            if before.1 < from || from < to - lookback {
                break;
            }
            from = before.0;
        }
        (from, to)
    }

    /// First slot that starts at `at` or later: counted without branches among the latest slots, otherwise searched.
    #[inline]
    fn first_starting_from(&self, at: f64) -> usize {
        let busy = self.busy.as_slice();
        let earlier = |slots: &[(f64, f64)]| slots.iter().map(|slot| usize::from(slot.0 < at)).sum::<usize>();
        let Some((older, recent)) = busy.split_last_chunk::<RECENT>() else { return earlier(busy) };
        if recent[0].0 < at {
            return older.len() + earlier(recent);
        }
        gallop_from(older, at, interpolate(older.len(), at, recent[0].0))
    }
}

/// Interpolated number of `slots` that start before `at`, when the slot after them starts at `end`.
#[inline]
fn interpolate(slots: usize, at: f64, end: f64) -> usize {
    (slots as f64 * (at / end)) as usize
}

/// Galloping search around a guess for the first slot that starts at `at` or later. Interpolated guesses are close,
/// because work is spread evenly over time.
#[inline]
fn gallop_from(busy: &[(f64, f64)], at: f64, guess: usize) -> usize {
    let (mut low, mut high) = (guess.min(busy.len()), guess.min(busy.len()));
    let mut step = 4;
    // Invariant of both loops: slots before `low` start before `at`, slots from `high` on at `at` or later, once each
    // loop ends.
    while low > 0 && busy[low - 1].0 >= at {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    while high < busy.len() && busy[high].0 < at {
        low = high + 1;
        high = (high + step).min(busy.len());
        step *= 2;
    }
    low + busy[low..high].partition_point(|slot| slot.0 < at)
}
