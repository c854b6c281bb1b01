//! One machine's time: what it is busy with, and where a task fits.

/// What a machine is busy with, in order of time. Slots of no length are kept: a task of no length may stand
/// between two that touch.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    starts: Vec<f64>,
    finishes: Vec<f64>,
}

/// New tasks mostly go among the last so many.
const RECENT: usize = 4;

impl Timeline {
    /// The first moment from `ready` on at which `cost` fits, and the place in line it would take; nothing when it
    /// would finish after `limit`. A gap exactly as long as the task is long enough.
    #[inline]
    pub(super) fn fit(&self, ready: f64, cost: f64, limit: f64) -> Option<(f64, usize)> {
        let first = self.first_at(ready + cost);
        let mut free = if first > 0 { self.finishes[first - 1] } else { ready };
        for (at, (next, finish)) in self.starts.iter().zip(&self.finishes).enumerate().skip(first) {
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
        (start + cost <= limit).then_some((start, self.starts.len()))
    }

    pub(super) fn insert(&mut self, at: usize, start: f64, finish: f64) {
        self.starts.insert(at, start);
        self.finishes.insert(at, finish);
    }

    pub(super) fn remove(&mut self, start: f64, finish: f64) {
        let first = self.first_at(start);
        let slots = self.starts.iter().zip(&self.finishes).skip(first);
        if let Some(at) = slots.take_while(|(s, _)| **s == start).position(|(_, f)| *f == finish) {
            self.starts.remove(first + at);
            self.finishes.remove(first + at);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The busy stretch without a gap that the slot `at` is part of, followed back no further than `reach`.
    pub(super) fn stretch(&self, at: usize, reach: f64) -> (f64, f64) {
        let (mut from, mut to) = (self.starts[at], self.finishes[at]);
        for (start, finish) in self.starts.iter().zip(&self.finishes).skip(at + 1) {
            if *start > to {
                break;
            }
            to = *finish;
        }
        for (start, finish) in self.starts[..at].iter().zip(&self.finishes[..at]).rev() {
            if *finish < from || from < to - reach {
                break;
            }
            from = *start;
        }
        (from, to)
    }

    /// The first slot that starts at `at` or later: counted among the last ones, which needs no branches, else
    /// searched.
    #[inline]
    fn first_at(&self, at: f64) -> usize {
        let starts = self.starts.as_slice();
        let Some((older, recent)) = starts.split_last_chunk::<RECENT>() else {
            return starts.iter().map(|start| usize::from(*start < at)).sum();
        };
        if recent[0] < at {
            return older.len() + recent.iter().map(|start| usize::from(*start < at)).sum::<usize>();
        }
        first_from(older, at, (older.len() as f64 * (at / recent[0])) as usize)
    }
}

/// The first of sorted `starts` that is `at` or later, looked for around a guess: work is spread evenly enough over
/// time for a guess to be near.
#[inline]
fn first_from(starts: &[f64], at: f64, guess: usize) -> usize {
    let (mut low, mut high) = (guess.min(starts.len()), guess.min(starts.len()));
    let mut step = 4;
    while low > 0 && starts[low - 1] >= at {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    while high < starts.len() && starts[high] < at {
        low = high + 1;
        high = (high + step).min(starts.len());
        step *= 2;
    }
    low + starts[low..high].partition_point(|start| *start < at)
}
