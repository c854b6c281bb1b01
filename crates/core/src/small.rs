//! A map for places where there is nearly always one entry, or a handful: a sorted list that keeps its first entry in
//! place, so that no memory is asked for. Where there may be thousands that come one by one, a tree is right.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A map of few entries, in order of key.
///
/// ```
/// use warpyard_core::small::SmallMap;
/// let mut map = SmallMap::from([(2, "b"), (1, "a")]);
/// map.insert(2, "c");
/// assert!(map.iter().eq([(&1, &"a"), (&2, &"c")]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallMap<K, V>(SmallVec<[(K, V); 1]>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap(SmallVec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Nothing.
    pub fn new() -> Self {
        SmallMap::default()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// The value of a key, entered if it was not there.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (key, V::default()));
                at
            }
        };
        &mut self.0[at].1
    }

    /// Enters a value; gives the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes a key out; gives its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Every entry, in order of key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Every value, in order of key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    /// Of several values for one key the last counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut entries: SmallVec<[(K, V); 1]> = items.into_iter().collect();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            let sorted: BTreeMap<K, V> = entries.into_iter().collect();
            entries = sorted.into_iter().collect();
        }
        SmallMap(entries)
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SmallMap<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
    }
}

impl<K, V> IntoIterator for SmallMap<K, V> {
    type Item = (K, V);
    type IntoIter = smallvec::IntoIter<[(K, V); 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Ord + Serialize, V: Serialize> Serialize for SmallMap<K, V> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter())
    }
}

impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for SmallMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::deserialize(d)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_tree(ops in prop::collection::vec((0u8..4, 0u32..6, any::<u8>()), 0..40)) {
            let (mut ours, mut tree) = (SmallMap::new(), BTreeMap::new());
            for &(op, key, value) in &ops {
                match op {
                    0 => prop_assert_eq!(ours.insert(key, value), tree.insert(key, value)),
                    1 => prop_assert_eq!(ours.remove(&key), tree.remove(&key)),
                    2 => prop_assert_eq!(ours.or_default(key), tree.entry(key).or_default()),
                    _ => prop_assert_eq!(ours.get(&key), tree.get(&key)),
                }
                prop_assert!(ours.iter().eq(&tree));
            }
            let pairs = || ops.iter().map(|&(_, key, value)| (key, value));
            prop_assert!(pairs().collect::<SmallMap<_, _>>().iter().eq(&pairs().collect::<BTreeMap<_, _>>()));
        }
    }
}
