//! Compact sets of array positions: a million waiting tasks are one range, not a million entries.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// A set of positions kept as disjoint, non-adjacent ranges.
///
/// ```
/// use warpyard_core::index::Ranges;
/// let mut waiting = Ranges::from(0..1_000_000);
/// assert_eq!(waiting.pop_first(), Some(0));
/// waiting.remove(500_000);
/// assert_eq!(waiting.len(), 999_998);
/// assert_eq!(waiting.ranges().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct Ranges {
    /// First run as (start, exclusive end), empty if the set is; most sets have no other. Every waiting job has several
    /// sets, so that their size counts.
    first: (u32, u32),
    /// Other runs, and the number of positions in them; absent if there are none.
    rest: Option<Box<OtherRuns>>,
}

/// Runs of a set behind the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OtherRuns {
    runs: BTreeMap<u32, u32>,
    len: u64,
}

impl Ranges {
    /// Number of positions in the set.
    pub fn len(&self) -> u64 {
        let (start, end) = self.first;
        u64::from(end - start) + self.rest.as_ref().map_or(0, |rest| rest.len)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.first_run().is_none()
    }

    /// Smallest position.
    pub fn first(&self) -> Option<u32> {
        self.first_run().map(|(start, _)| start)
    }

    /// Smallest position that is not below this one.
    pub fn next_from(&self, at: u32) -> Option<u32> {
        if self.contains(at) { Some(at) } else { self.run_from(at).map(|(start, _)| start) }
    }

    /// Number of positions below this one.
    pub fn below(&self, at: u32) -> u64 {
        let runs = self.ranges().take_while(|run| run.start < at);
        runs.map(|run| u64::from(run.end.min(at) - run.start)).sum()
    }

    /// Removes the smallest position.
    pub fn pop_first(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Whether a position is in the set.
    pub fn contains(&self, at: u32) -> bool {
        self.run_of(at).is_some()
    }

    /// Removes a position; returns whether it was in the set.
    pub fn remove(&mut self, at: u32) -> bool {
        let Some((start, end)) = self.run_of(at) else { return false };
        if start == at {
            self.drop_run(start);
        } else {
            self.put_run(start, at);
        }
        if at + 1 < end {
            self.put_run(at + 1, end);
        }
        true
    }

    /// Inserts a position; returns whether it was new.
    pub fn insert(&mut self, at: u32) -> bool {
        if self.contains(at) {
            return false;
        }
        self.insert_range(at..at + 1);
        true
    }

    /// Inserts a range.
    pub fn insert_range(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((before, before_end)) = self.run_until(start)
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
        }
        while let Some((next, next_end)) = self.run_from(start).filter(|&(next, _)| next <= end) {
            self.drop_run(next);
            end = end.max(next_end);
        }
        self.put_run(start, end);
    }

    /// Removes a range; returns the part that was in the set.
    pub fn take_range(&mut self, range: Range<u32>) -> Ranges {
        let taken = self.within(range);
        for run in taken.ranges() {
            let (start, end) = self.run_of(run.start).expect("it was found there");
            if start == run.start {
                self.drop_run(start);
            } else {
                self.put_run(start, run.start);
            }
            if run.end < end {
                self.put_run(run.end, end);
            }
        }
        taken
    }

    /// Intersection with a range. Costs what it returns, not the length of the range.
    pub fn within(&self, range: Range<u32>) -> Ranges {
        let mut found = Ranges::default();
        let mut from = range.start;
        while let Some((start, end)) = self.run_of(from).or_else(|| self.run_from(from)) {
            if start >= range.end || from >= range.end {
                break;
            }
            found.insert_range(start.max(from)..end.min(range.end));
            from = end;
        }
        found
    }

    /// Inserts all positions of another set.
    pub fn insert_all(&mut self, other: &Ranges) {
        for run in other.ranges() {
            self.insert_range(run);
        }
    }

    /// Ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let rest = self.rest.iter().flat_map(|rest| &rest.runs).map(|(&start, &end)| (start, end));
        self.first_run().into_iter().chain(rest).map(|(start, end)| start..end)
    }

    /// Positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flatten()
    }

    fn first_run(&self) -> Option<(u32, u32)> {
        Some(self.first).filter(|(start, end)| start < end)
    }

    /// Run that contains a position.
    fn run_of(&self, at: u32) -> Option<(u32, u32)> {
        self.run_until(at).filter(|&(_, end)| at < end)
    }

    /// Last run that starts at a position or before it.
    fn run_until(&self, at: u32) -> Option<(u32, u32)> {
        let rest = self.rest.as_ref().and_then(|rest| rest.runs.range(..=at).next_back());
        rest.map(|(&start, &end)| (start, end)).or(self.first_run().filter(|&(start, _)| start <= at))
    }

    /// First run that starts at a position or after it.
    fn run_from(&self, at: u32) -> Option<(u32, u32)> {
        let first = self.first_run().filter(|&(start, _)| start >= at);
        let rest = || self.rest.as_ref()?.runs.range(at..).next().map(|(&start, &end)| (start, end));
        first.or_else(rest)
    }

    /// Inserts a run, replacing one with the same start.
    fn put_run(&mut self, start: u32, end: u32) {
        match self.first_run() {
            Some((first, _)) if start > first => self.rest.get_or_insert_default().put(start, end),
            Some((first, first_end)) if start < first => {
                self.rest.get_or_insert_default().put(first, first_end);
                self.first = (start, end);
            }
            _ => self.first = (start, end),
        }
    }

    fn drop_run(&mut self, start: u32) {
        if self.first() == Some(start) {
            self.first = self.rest.as_mut().and_then(|rest| rest.pop_first()).unwrap_or_default();
        } else if let Some(rest) = &mut self.rest {
            rest.remove(start);
        }
        if self.rest.as_ref().is_some_and(|rest| rest.runs.is_empty()) {
            self.rest = None;
        }
    }
}

impl OtherRuns {
    fn put(&mut self, start: u32, end: u32) {
        let before = self.runs.insert(start, end);
        self.len = self.len + u64::from(end - start) - before.map_or(0, |before| u64::from(before - start));
    }

    fn remove(&mut self, start: u32) {
        self.len -= self.runs.remove(&start).map_or(0, |end| u64::from(end - start));
    }

    fn pop_first(&mut self) -> Option<(u32, u32)> {
        let (start, end) = self.runs.pop_first()?;
        self.len -= u64::from(end - start);
        Some((start, end))
    }
}

impl From<Range<u32>> for Ranges {
    fn from(range: Range<u32>) -> Self {
        let mut set = Ranges::default();
        set.insert_range(range);
        set
    }
}

impl From<Vec<(u32, u32)>> for Ranges {
    fn from(runs: Vec<(u32, u32)>) -> Self {
        let mut set = Ranges::default();
        for (start, end) in runs {
            set.insert_range(start..end);
        }
        set
    }
}

impl From<Ranges> for Vec<(u32, u32)> {
    fn from(set: Ranges) -> Self {
        set.ranges().map(|run| (run.start, run.end)).collect()
    }
}

impl FromIterator<u32> for Ranges {
    fn from_iter<I: IntoIterator<Item = u32>>(items: I) -> Self {
        let mut set = Ranges::default();
        for at in items {
            set.insert(at);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set_of_positions(ops in prop::collection::vec((0u8..4, 0u32..40, 1u32..9), 0..60)) {
            let (mut ours, mut plain) = (Ranges::default(), BTreeSet::new());
            for (op, at, n) in ops {
                prop_assert!(ours.within(at..at + n).iter().eq(plain.range(at..at + n).copied()));
                match op {
                    0 => { ours.insert_range(at..at + n); plain.extend(at..at + n); }
                    1 => prop_assert_eq!(ours.remove(at), plain.remove(&at)),
                    2 => {
                        let taken: Vec<_> = plain.extract_if(at..at + n, |_| true).collect();
                        prop_assert!(ours.take_range(at..at + n).iter().eq(taken));
                    }
                    _ => prop_assert_eq!(ours.pop_first(), plain.pop_first()),
                }
                prop_assert_eq!(ours.len(), plain.len() as u64);
                prop_assert!(ours.iter().eq(plain.iter().copied()));
                prop_assert_eq!(ours.below(at), plain.range(..at).count() as u64);
                let runs: Vec<_> = ours.ranges().collect();
                prop_assert!(runs.windows(2).all(|w| w[0].end < w[1].start), "ranges touch: {:?}", runs);
            }
        }
    }
}
