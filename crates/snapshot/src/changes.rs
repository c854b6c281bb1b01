//! Differences between two manifests.

use crate::manifest::{Entry, Manifest};

/// Difference between two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New entry.
    Added(String),
    /// Missing entry.
    Removed(String),
    /// Entry with another content, target or type.
    Changed(String),
    /// Entry with other permissions only: before and now.
    Mode(String, u32, u32),
}

/// Differences from `before` to `now`, by path.
pub fn changes(before: &Manifest, now: &Manifest) -> Vec<Change> {
    let mut paths: Vec<_> = before.entries.keys().chain(now.entries.keys()).collect();
    paths.sort();
    paths.dedup();
    let change = |path: &String| match (before.entries.get(path), now.entries.get(path)) {
        (None, _) => Some(Change::Added(path.clone())),
        (_, None) => Some(Change::Removed(path.clone())),
        (Some(was), Some(is)) if was == is => None,
        (Some(Entry::Dir { mode: was }), Some(Entry::Dir { mode: is })) => {
            Some(Change::Mode(path.clone(), *was, *is))
        }
        (Some(Entry::File { mode: was, hash: a, .. }), Some(Entry::File { mode: is, hash: b, .. }))
            if a == b =>
        {
            Some(Change::Mode(path.clone(), *was, *is))
        }
        _ => Some(Change::Changed(path.clone())),
    };
    paths.into_iter().filter_map(change).collect()
}
