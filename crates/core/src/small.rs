//! Ordered map that nearly always has one entry or a handful, and now and then very many: a sorted list that keeps
//! its first entry inline, so that it allocates nothing; and a B-tree once there are more than a few.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Index;

/// Maximum number of entries of a list: moving half of them costs about as much as a descent in a tree.
const FEW: usize = 32;

/// Ordered map of mostly few entries.
///
/// ```
/// use warpyard_core::small::SmallMap;
/// let mut map = SmallMap::from([(2, "b"), (1, "a")]);
/// map.insert(2, "c");
/// assert!(map.iter().eq([(&1, &"a"), (&2, &"c")]));
/// ```
#[derive(Clone, Debug)]
pub struct SmallMap<K, V>(Entries<K, V>);

#[derive(Clone, Debug)]
enum Entries<K, V> {
    Few(SmallVec<[(K, V); 1]>),
    /// Stays a tree until it is empty.
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap(Entries::Few(SmallVec::new()))
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Empty map.
    pub fn new() -> Self {
        SmallMap::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Few(list) => list.len(),
            Entries::Many(tree) => tree.len(),
        }
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.0 {
            Entries::Few(list) => find(list, key).ok().map(|at| &list[at].1),
            Entries::Many(tree) => tree.get(key),
        }
    }

    /// Mutable value of a key.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.0 {
            Entries::Few(list) => find(list, key).ok().map(|at| &mut list[at].1),
            Entries::Many(tree) => tree.get_mut(key),
        }
    }

    /// Mutable value of a key, inserted if it was absent.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.make_room();
        match &mut self.0 {
            Entries::Few(list) => {
                let at = find(list, &key).unwrap_or_else(|at| {
                    list.insert(at, (key, V::default()));
                    at
                });
                &mut list[at].1
            }
            Entries::Many(tree) => tree.entry(key).or_default(),
        }
    }

    /// Inserts a value; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.make_room();
        match &mut self.0 {
            Entries::Few(list) => match find(list, &key) {
                Ok(at) => Some(std::mem::replace(&mut list[at].1, value)),
                Err(at) => {
                    list.insert(at, (key, value));
                    None
                }
            },
            Entries::Many(tree) => tree.insert(key, value),
        }
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Entries::Few(list) => find(list, key).ok().map(|at| list.remove(at).1),
            Entries::Many(tree) => {
                let value = tree.remove(key);
                if tree.is_empty() {
                    self.0 = Entries::Few(SmallVec::new());
                }
                value
            }
        }
    }

    /// Whether the map contains a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Entry with the smallest key.
    #[inline]
    pub fn first(&self) -> Option<(&K, &V)> {
        match &self.0 {
            Entries::Few(list) => list.first().map(|(key, value)| (key, value)),
            Entries::Many(tree) => tree.first_key_value(),
        }
    }

    /// Entry with the smallest key above this one.
    pub fn after(&self, key: &K) -> Option<(&K, &V)> {
        match &self.0 {
            Entries::Few(list) => {
                let at = list.partition_point(|(other, _)| other <= key);
                list.get(at).map(|(key, value)| (key, value))
            }
            Entries::Many(tree) => tree.range((Excluded(key), Unbounded)).next(),
        }
    }

    /// Entries with a key below this one, in order.
    pub fn below(&self, key: &K) -> Iter<'_, K, V> {
        match &self.0 {
            Entries::Few(list) => {
                let at = list.partition_point(|(other, _)| other < key);
                Iter::Few(list[..at].iter())
            }
            Entries::Many(tree) => Iter::Below(tree.range((Unbounded, Excluded(key)))),
        }
    }

    /// Entries, in order of key.
    pub fn iter(&self) -> Iter<'_, K, V> {
        match &self.0 {
            Entries::Few(list) => Iter::Few(list.iter()),
            Entries::Many(tree) => Iter::Many(tree.iter()),
        }
    }

    /// Keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Values, in order of key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Turns a full list into a tree, before an insertion.
    #[inline]
    fn make_room(&mut self) {
        if let Entries::Few(list) = &mut self.0
            && list.len() >= FEW
        {
            self.0 = Entries::Many(std::mem::take(list).into_iter().collect());
        }
    }
}

#[inline]
fn find<K: Ord, V>(list: &[(K, V)], key: &K) -> Result<usize, usize> {
    list.binary_search_by(|(other, _)| other.cmp(key))
}

/// Iterator over entries, in order of key.
#[derive(Clone, Debug)]
pub enum Iter<'a, K, V> {
    /// Over a list.
    Few(std::slice::Iter<'a, (K, V)>),
    /// Over a tree.
    Many(btree_map::Iter<'a, K, V>),
    /// Over the lower part of a tree.
    Below(btree_map::Range<'a, K, V>),
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Few(list) => list.next().map(|(key, value)| (key, value)),
            Iter::Many(tree) => tree.next(),
            Iter::Below(part) => part.next(),
        }
    }
}

impl<'a, K: Ord, V> IntoIterator for &'a SmallMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// Owning iterator over entries, in order of key.
pub enum IntoIter<K, V> {
    /// Over a list.
    Few(smallvec::IntoIter<[(K, V); 1]>),
    /// Over a tree.
    Many(btree_map::IntoIter<K, V>),
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            IntoIter::Few(list) => list.next(),
            IntoIter::Many(tree) => tree.next(),
        }
    }
}

impl<K, V> IntoIterator for SmallMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        match self.0 {
            Entries::Few(list) => IntoIter::Few(list.into_iter()),
            Entries::Many(tree) => IntoIter::Many(tree.into_iter()),
        }
    }
}

/// Equality of contents, whatever the representation.
impl<K: Ord, V: PartialEq> PartialEq for SmallMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<K: Ord, V: Eq> Eq for SmallMap<K, V> {}

impl<K: Ord, V> Index<&K> for SmallMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is there")
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    /// The last of several values for a key counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = SmallMap::new();
        for (key, value) in items {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SmallMap<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
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
        /// Enough keys to turn the list into a tree.
        #[test]
        fn behaves_like_a_tree(ops in prop::collection::vec((0u8..5, 0u32..48, any::<u8>()), 0..200)) {
            let (mut ours, mut tree) = (SmallMap::new(), BTreeMap::new());
            for &(op, key, value) in &ops {
                match op {
                    0 | 1 => prop_assert_eq!(ours.insert(key, value), tree.insert(key, value)),
                    2 => prop_assert_eq!(ours.remove(&key), tree.remove(&key)),
                    3 => prop_assert_eq!(ours.or_default(key), tree.entry(key).or_default()),
                    _ => prop_assert_eq!(ours.get_mut(&key), tree.get_mut(&key)),
                }
                prop_assert_eq!((ours.get(&key), ours.len()), (tree.get(&key), tree.len()));
                prop_assert!(ours.iter().eq(&tree));
                prop_assert_eq!(ours.first(), tree.first_key_value());
                prop_assert_eq!(ours.after(&key), tree.range(key + 1..).next());
                prop_assert!(ours.below(&key).eq(tree.range(..key)));
            }
            let pairs = || ops.iter().map(|&(_, key, value)| (key, value));
            prop_assert!(pairs().collect::<SmallMap<_, _>>().iter().eq(&pairs().collect::<BTreeMap<_, _>>()));
            prop_assert_eq!(&tree.clone().into_iter().collect::<SmallMap<_, _>>(), &ours, "however it is kept");
            prop_assert!(ours.into_iter().eq(tree));
        }
    }
}
