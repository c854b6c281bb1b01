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
    /// Start to (exclusive) end.
    runs: BTreeMap<u32, u32>,
    len: u64,
}

impl Ranges {
    /// How many positions are in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The smallest position.
    pub fn first(&self) -> Option<u32> {
        self.runs.keys().next().copied()
    }

    /// The smallest position that is not below this one.
    pub fn next_from(&self, at: u32) -> Option<u32> {
        if self.contains(at) { Some(at) } else { self.runs.range(at..).next().map(|(&start, _)| start) }
    }

    /// How many positions are below this one.
    pub fn below(&self, at: u32) -> u64 {
        self.runs.range(..at).map(|(&start, &end)| u64::from(end.min(at) - start)).sum()
    }

    /// Takes the smallest position out.
    pub fn pop_first(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Whether a position is in the set.
    pub fn contains(&self, at: u32) -> bool {
        self.run_of(at).is_some()
    }

    /// Takes one position out; says whether it was there.
    pub fn remove(&mut self, at: u32) -> bool {
        let Some((start, end)) = self.run_of(at) else { return false };
        if start == at {
            self.runs.remove(&start);
        } else {
            self.runs.insert(start, at);
        }
        if at + 1 < end {
            self.runs.insert(at + 1, end);
        }
        self.len -= 1;
        true
    }

    /// Puts one position in; says whether it was new.
    pub fn insert(&mut self, at: u32) -> bool {
        if self.contains(at) {
            return false;
        }
        self.insert_range(at..at + 1);
        true
    }

    /// Puts a whole range in.
    pub fn insert_range(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&before, &before_end)) = self.runs.range(..=start).next_back()
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
        }
        while let Some((&next, &next_end)) = self.runs.range(start..=end).next() {
            self.runs.remove(&next);
            self.len -= u64::from(next_end - next);
            end = end.max(next_end);
        }
        self.runs.insert(start, end);
        self.len += u64::from(end - start);
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.iter().map(|(&s, &e)| s..e)
    }

    /// Every position, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flatten()
    }

    fn run_of(&self, at: u32) -> Option<(u32, u32)> {
        let (&start, &end) = self.runs.range(..=at).next_back()?;
        (at < end).then_some((start, end))
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
        set.runs.into_iter().collect()
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
        fn behaves_like_a_set_of_positions(ops in prop::collection::vec((0u8..3, 0u32..40, 1u32..9), 0..60)) {
            let (mut ours, mut plain) = (Ranges::default(), BTreeSet::new());
            for (op, at, n) in ops {
                match op {
                    0 => { ours.insert_range(at..at + n); plain.extend(at..at + n); }
                    1 => prop_assert_eq!(ours.remove(at), plain.remove(&at)),
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
