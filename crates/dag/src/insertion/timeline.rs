//! One machine's time: what it is busy with, and where a task fits.

use super::prefetch;

/// What a machine is busy with: start and finish, in order of time. Slots of no length are kept: a task of no length
/// may stand between two that touch.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    busy: Vec<(f64, f64)>,
}

/// New tasks mostly go among the last so many.
const RECENT: usize = 4;

impl Timeline {
    /// The first moment from `ready` on at which `cost` fits, and the place in line it would take; nothing when it
    /// would finish after `limit`. A gap exactly as long as the task is long enough.
    #[inline]
    pub(super) fn fit(&self, ready: f64, cost: f64, limit: f64) -> Option<(f64, usize)> {
        let first = self.first_at(ready + cost);
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

    /// Asks for the slots among which [`Timeline::fit`] will look for the first from `at` on.
    #[inline]
    pub(super) fn prefetch(&self, at: f64) {
        let Some((older, recent)) = self.busy.split_last_chunk::<RECENT>() else { return };
        let guess = if recent[0].0 < at { older.len() } else { guess(older.len(), at, recent[0].0) };
        prefetch(&self.busy[guess..(guess + RECENT).min(self.busy.len())]);
    }

    pub(super) fn insert(&mut self, at: usize, start: f64, finish: f64) {
        self.busy.insert(at, (start, finish));
    }

    pub(super) fn remove(&mut self, start: f64, finish: f64) {
        let first = self.first_at(start);
        let slots = self.busy[first..].iter().take_while(|slot| slot.0 == start);
        if let Some(at) = slots.map(|slot| slot.1).position(|f| f == finish) {
            self.busy.remove(first + at);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.busy.len()
    }

    /// The busy stretch without a gap that the slot `at` is part of, followed back no further than `reach`.
    pub(super) fn stretch(&self, at: usize, reach: f64) -> (f64, f64) {
        let (mut from, mut to) = self.busy[at];
        for next in &self.busy[at + 1..] {
            if next.0 > to {
                break;
            }
            to = next.1;
        }
        for before in self.busy[..at].iter().rev() {
            if before.1 < from || from < to - reach {
                break;
            }
            from = before.0;
        }
        (from, to)
    }

    /// The first slot that starts at `at` or later: counted among the last ones, which needs no branches, else
    /// searched.
    #[inline]
    fn first_at(&self, at: f64) -> usize {
        let busy = self.busy.as_slice();
        let earlier = |slots: &[(f64, f64)]| slots.iter().map(|slot| usize::from(slot.0 < at)).sum::<usize>();
        let Some((older, recent)) = busy.split_last_chunk::<RECENT>() else { return earlier(busy) };
        if recent[0].0 < at {
            return older.len() + earlier(recent);
        }
        first_from(older, at, guess(older.len(), at, recent[0].0))
    }
}

/// About how many of `slots` slots start before `at`, when the next after them starts at `end`.
#[inline]
fn guess(slots: usize, at: f64, end: f64) -> usize {
    (slots as f64 * (at / end)) as usize
}

/// The first of sorted slots that starts at `at` or later, looked for around a guess: work is spread evenly enough
/// over time for a guess to be near.
#[inline]
fn first_from(busy: &[(f64, f64)], at: f64, guess: usize) -> usize {
    let (mut low, mut high) = (guess.min(busy.len()), guess.min(busy.len()));
    let mut step = 4;
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
