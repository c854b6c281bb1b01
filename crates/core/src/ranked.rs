//! Ordered map with rank queries: entries in order, in chunks of a few hundred, with the weight of each chunk beside
//! it. The weight before one of a million entries is a sum of a few thousand adjacent weights, and entries are moved
//! within a chunk only.

use std::collections::VecDeque;

/// Maximum number of entries in a chunk.
const CHUNK: usize = 256;

/// Weight of an entry.
pub trait Weight {
    /// Weight.
    fn weight(&self) -> u64;
}

/// Ordered map that knows the weight before each key.
///
/// ```
/// use warpyard_core::ranked::{Ranked, Weight};
/// #[derive(Clone, Debug)]
/// struct Tasks(u64);
/// impl Weight for Tasks {
///     fn weight(&self) -> u64 { self.0 }
/// }
/// let mut line = Ranked::default();
/// line.insert("b", Tasks(10));
/// line.insert("a", Tasks(3));
/// assert_eq!((line.weight_below(&"b"), line.weight()), (3, 13));
/// ```
#[derive(Clone, Debug)]
pub struct Ranked<K, V> {
    /// Chunks; none is empty, unless it is the only one.
    chunks: Vec<VecDeque<(K, V)>>,
    /// Weight of each chunk.
    weights: Vec<u64>,
}

impl<K, V> Default for Ranked<K, V> {
    fn default() -> Self {
        Ranked { chunks: Vec::new(), weights: Vec::new() }
    }
}

impl<K: Ord, V: Weight> Ranked<K, V> {
    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.first().is_none_or(VecDeque::is_empty)
    }

    /// Weight of all entries.
    pub fn weight(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// Weight of the entries with a key below this one.
    pub fn weight_below(&self, key: &K) -> u64 {
        let at = self.chunk_of(key);
        let Some(chunk) = self.chunks.get(at) else { return 0 };
        let before = chunk.iter().take_while(|(other, _)| other < key).map(|(_, value)| value.weight());
        self.weights[..at].iter().sum::<u64>() + before.sum::<u64>()
    }

    /// Value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        find(chunk, key).ok().map(|at| &chunk[at].1)
    }

    /// Entry with the smallest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.chunks.first()?.front().map(|(key, value)| (key, value))
    }

    /// Entry with the smallest key above this one.
    pub fn after(&self, key: &K) -> Option<(&K, &V)> {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get(at)?;
        let next = chunk.get(chunk.partition_point(|(other, _)| other <= key));
        next.or_else(|| self.chunks.get(at + 1)?.front()).map(|(key, value)| (key, value))
    }

    /// Keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.chunks.iter().flatten().map(|(key, _)| key)
    }

    /// Inserts a value; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.chunks.is_empty() {
            self.chunks.push(VecDeque::new());
            self.weights.push(0);
        }
        let mut at = self.chunk_of(&key);
        if self.chunks[at].len() >= CHUNK {
            at += self.split(at, &key);
        }
        let chunk = &mut self.chunks[at];
        self.weights[at] += value.weight();
        match find(chunk, &key) {
            Ok(here) => {
                let before = std::mem::replace(&mut chunk[here].1, value);
                self.weights[at] -= before.weight();
                Some(before)
            }
            Err(here) => {
                chunk.insert(here, (key, value));
                None
            }
        }
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get_mut(at)?;
        let here = find(chunk, key).ok()?;
        let (_, value) = chunk.remove(here)?;
        self.weights[at] -= value.weight();
        // The last chunk stays, so that a queue that empties and fills again allocates nothing.
        if chunk.is_empty() && self.chunks.len() > 1 {
            self.chunks.remove(at);
            self.weights.remove(at);
        }
        Some(value)
    }

    /// Chunk that a key is in, or would be in.
    fn chunk_of(&self, key: &K) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.front().is_some_and(|(first, _)| first <= key));
        after.saturating_sub(1)
    }

    /// Splits a full chunk; returns how many chunks further a key belongs now.
    fn split(&mut self, at: usize, key: &K) -> usize {
        let chunk = &mut self.chunks[at];
        // Appending fills chunks: an entry behind all others starts a new chunk instead of halving the last.
        let behind = at + 1 == self.weights.len() && chunk.back().is_some_and(|(last, _)| last < key);
        let rest = chunk.split_off(if behind { chunk.len() } else { CHUNK / 2 });
        let weight = rest.iter().map(|(_, value)| value.weight()).sum();
        let further = rest.front().map_or(behind, |(first, _)| first <= key);
        self.chunks.insert(at + 1, rest);
        self.weights.insert(at + 1, weight);
        self.weights[at] -= weight;
        usize::from(further)
    }
}

fn find<K: Ord, V>(chunk: &VecDeque<(K, V)>, key: &K) -> Result<usize, usize> {
    chunk.binary_search_by(|(other, _)| other.cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Weight for u32 {
        fn weight(&self) -> u64 {
            u64::from(*self)
        }
    }

    proptest! {
        /// Keys for several chunks, first in order and then at random.
        #[test]
        fn behaves_like_a_tree(
            first in 0u32..700,
            ops in prop::collection::vec((0u8..3, 0u32..1_500, 0u32..9), 0..300),
        ) {
            let (mut ours, mut tree) = (Ranked::default(), BTreeMap::new());
            for key in 0..first {
                ours.insert(2 * key, 1);
                tree.insert(2 * key, 1);
            }
            for (op, key, value) in ops {
                match op {
                    0 | 1 => prop_assert_eq!(ours.insert(key, value), tree.insert(key, value)),
                    _ => prop_assert_eq!(ours.remove(&key), tree.remove(&key)),
                }
                let below = tree.range(..key).map(|(_, weight)| u64::from(*weight)).sum::<u64>();
                prop_assert_eq!(ours.weight_below(&key), below);
                prop_assert_eq!(ours.get(&key), tree.get(&key));
                prop_assert_eq!(ours.first(), tree.first_key_value());
                prop_assert_eq!(ours.after(&key), tree.range(key + 1..).next());
                prop_assert_eq!(ours.is_empty(), tree.is_empty());
            }
            prop_assert!(ours.keys().eq(tree.keys()));
            prop_assert_eq!(ours.weight(), tree.values().map(|weight| u64::from(*weight)).sum::<u64>());
            prop_assert!(ours.chunks.iter().all(|chunk| chunk.len() <= CHUNK));
            prop_assert!(ours.chunks.len() < 2 || ours.chunks.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}
