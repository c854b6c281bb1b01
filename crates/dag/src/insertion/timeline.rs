//! One machine's time: what it is busy with, and where a task fits.

/// What a machine is busy with: start and finish, in order of time. Slots of no length are kept: a task of no length
/// may stand between two that touch.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    busy: Vec<(f64, f64)>,
    /// How many slots start before each tick: where to look, without searching.
    before: Vec<u32>,
    ticks_per_time: f64,
}

impl Timeline {
    /// Far-off times must not cost memory: what starts after so many ticks is searched for.
    const MOST_TICKS: usize = 1 << 16;

    pub(super) fn new(tick: f64) -> Self {
        Self { busy: Vec::new(), before: Vec::new(), ticks_per_time: 1.0 / tick }
    }

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

    pub(super) fn insert(&mut self, at: usize, start: f64, finish: f64) {
        let tick = self.tick(start);
        if tick >= self.before.len() {
            self.before.resize(tick + 1, self.busy.len() as u32);
        }
        self.before[tick + 1..].iter_mut().for_each(|before| *before += 1);
        self.busy.insert(at, (start, finish));
    }

    pub(super) fn remove(&mut self, start: f64, finish: f64) {
        let first = self.first_at(start);
        let slots = self.busy[first..].iter().take_while(|slot| slot.0 == start);
        if let Some(at) = slots.map(|slot| slot.1).position(|f| f == finish) {
            let after = self.tick(start) + 1;
            self.before[after..].iter_mut().for_each(|before| *before -= 1);
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

    #[inline]
    fn tick(&self, at: f64) -> usize {
        ((at * self.ticks_per_time) as usize).min(Self::MOST_TICKS)
    }

    /// Asks for what tells where a task that ends at `at` might go.
    #[inline]
    pub(super) fn ask_for_ticks(&self, at: f64) {
        if let Some(before) = self.before.get(self.tick(at)) {
            super::prefetch(std::slice::from_ref(before));
        }
    }

    /// Asks for the slots around `at`.
    #[inline]
    pub(super) fn ask_for_slots(&self, at: f64) {
        let tick = self.tick(at);
        let low = self.before.get(tick).map_or(self.busy.len(), |before| *before as usize);
        if let Some(slot) = self.busy.get(low.saturating_sub(1)) {
            super::prefetch(std::slice::from_ref(slot));
        }
    }

    /// The first slot that starts at `at` or later.
    #[inline]
    fn first_at(&self, at: f64) -> usize {
        /// So few are counted, which needs no branches.
        const FEW: usize = 8;
        let tick = self.tick(at);
        let low = self.before.get(tick).map_or(self.busy.len(), |before| *before as usize);
        let high = self.before.get(tick + 1).map_or(self.busy.len(), |before| *before as usize);
        let among = &self.busy[low..high];
        let earlier = if among.len() <= FEW {
            among.iter().map(|slot| usize::from(slot.0 < at)).sum()
        } else {
            among.partition_point(|slot| slot.0 < at)
        };
        low + earlier
    }
}
