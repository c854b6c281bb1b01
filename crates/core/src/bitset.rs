//! Hierarchical bitset of small numbers, such as worker ids: one bit each, and a summary bit for every 64 of them, so
//! that the next member is found in few steps even if the set is sparse.

/// Set of numbers, in order.
///
/// ```
/// use warpyard_core::bitset::Bitset;
/// let mut free = Bitset::default();
/// free.insert(70);
/// free.insert(3);
/// free.remove(3);
/// assert!(free.iter().eq([70]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bitset {
    words: Vec<u64>,
    /// Summary: which words are not 0.
    filled: Vec<u64>,
}

impl Bitset {
    /// Inserts a number.
    pub fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.filled.resize(word / 64 + 1, 0);
        }
        self.words[word] |= bit;
        self.filled[word / 64] |= 1 << (word % 64);
    }

    /// Removes a number.
    pub fn remove(&mut self, number: u32) {
        let (word, bit) = place(number);
        let Some(bits) = self.words.get_mut(word) else { return };
        *bits &= !bit;
        if *bits == 0 {
            self.filled[word / 64] &= !(1 << (word % 64));
        }
    }

    /// Numbers, the smallest first.
    pub fn iter(&self) -> Iter<'_> {
        Iter { of: self, word: 0, bits: self.words.first().copied().unwrap_or(0) }
    }

    /// First word at or after this index that is not 0.
    fn filled_from(&self, word: usize) -> Option<usize> {
        let mut at = word / 64;
        let mut filled = self.filled.get(at)? & (u64::MAX << (word % 64));
        while filled == 0 {
            at += 1;
            filled = *self.filled.get(at)?;
        }
        Some(at * 64 + filled.trailing_zeros() as usize)
    }
}

/// Iterator over the numbers, the smallest first.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    of: &'a Bitset,
    word: usize,
    /// Bits of the current word that are left.
    bits: u64,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.bits == 0 {
            self.word = self.of.filled_from(self.word + 1)?;
            self.bits = self.of.words[self.word];
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(self.word as u32 * 64 + bit)
    }
}

/// Equality of contents, whatever was inserted before.
impl PartialEq for Bitset {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

fn place(number: u32) -> (usize, u64) {
    (number as usize / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_tree(ops in prop::collection::vec((any::<bool>(), 0u32..10_000), 0..200)) {
            let (mut ours, mut tree) = (Bitset::default(), BTreeSet::new());
            for &(put, number) in &ops {
                if put { ours.insert(number); tree.insert(number); } else { ours.remove(number); tree.remove(&number); }
                prop_assert!(ours.iter().eq(tree.iter().copied()));
            }
            for (_, number) in ops {
                ours.remove(number);
            }
            prop_assert_eq!(ours, Bitset::default(), "however much was in it");
        }
    }
}
