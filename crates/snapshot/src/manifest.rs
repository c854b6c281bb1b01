//! What is in a snapshot. It comes from people, so everything in it is checked before it is used.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path};

/// The SHA-256 of something, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(String);

impl Hash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::finish(Sha256::new_with_prefix(bytes))
    }

    pub(crate) fn finish(hasher: Sha256) -> Hash {
        Hash(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its digits: 64 of them.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hash.0
    }
}

impl TryFrom<String> for Hash {
    type Error = NotAManifest;

    fn try_from(text: String) -> Result<Hash, NotAManifest> {
        let digits = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if text.len() == 64 && digits { Ok(Hash(text)) } else { Err(NotAManifest::Hash) }
    }
}

/// Everything in a directory, by its path from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Paths have `/` between their parts; those of directories come before what is in them.
    pub entries: BTreeMap<String, Entry>,
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A directory.
    Dir {
        /// Its permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its length in bytes.
        size: u64,
        /// What is in it.
        hash: Hash,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: String,
    },
}

/// Why something is not a manifest that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAManifest {
    /// A hash is none.
    #[error("a hash is 64 digits from 0 to f")]
    Hash,
    /// A path leads out of the directory, or is not written the one way there is.
    #[error("'{0}' is not a path inside the directory")]
    Path(String),
    /// Something lies in what is not a directory.
    #[error("'{0}' lies in something that is not a directory")]
    Parent(String),
    /// A link points nowhere.
    #[error("'{0}' points nowhere")]
    Link(String),
    /// One content is declared to have two lengths.
    #[error("'{0}' declares another length for its content than another file")]
    Size(String),
    /// A path has too many parts.
    #[error("'{0}' lies deeper than {DEEPEST} directories")]
    Depth(String),
}

/// Directories a path may lead through: what unpacks and removes it holds a descriptor for each.
const DEEPEST: usize = 256;

impl Manifest {
    /// Refuses what could write anywhere but into the directory it is unpacked to.
    pub fn check(&self) -> Result<(), NotAManifest> {
        let mut sizes = BTreeMap::new();
        for (path, entry) in &self.entries {
            let parts: Vec<_> = Path::new(path).components().collect();
            let plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
            let written: Vec<_> = parts.iter().map(|part| part.as_os_str().to_string_lossy()).collect();
            if parts.is_empty() || !plain || written.join("/") != *path || path.contains('\0') {
                return Err(NotAManifest::Path(path.clone()));
            }
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            if parent.is_some_and(|parent| !matches!(self.entries.get(parent), Some(Entry::Dir { .. }))) {
                return Err(NotAManifest::Parent(path.clone()));
            }
            if parts.len() > DEEPEST {
                return Err(NotAManifest::Depth(path.clone()));
            }
            if let Entry::File { size, hash, .. } = entry
                && sizes.insert(hash, size).is_some_and(|other| other != size)
            {
                return Err(NotAManifest::Size(path.clone()));
            }
            if matches!(entry, Entry::Link { target } if target.is_empty() || target.contains('\0')) {
                return Err(NotAManifest::Link(path.clone()));
            }
        }
        Ok(())
    }

    /// What names the snapshot: equal directories have equal names.
    pub fn id(&self) -> Hash {
        Hash::of(&self.to_json())
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers can be written")
    }

    /// How many files there are.
    pub fn files(&self) -> u64 {
        self.contents().count() as u64
    }

    /// Their lengths together.
    pub fn bytes(&self) -> u64 {
        self.contents().map(|(_, size)| size).fold(0, u64::saturating_add)
    }

    /// Every content with its length, each once.
    pub fn distinct(&self) -> BTreeSet<(&Hash, u64)> {
        self.contents().collect()
    }

    fn contents(&self) -> impl Iterator<Item = (&Hash, u64)> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::File { size, hash, .. } => Some((hash, *size)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(entries: &[(&str, Entry)]) -> Manifest {
        Manifest {
            entries: entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect(),
        }
    }

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let file = || Entry::File { mode: 0o644, size: 0, hash: Hash::of(b"") };
        let bad = ["", "/etc/passwd", "../up", "a/../../b", "./a", "a//b", "a/", "a\0b"];
        for path in bad {
            assert!(
                manifest(&[("a", Entry::Dir { mode: 0o755 }), (path, file())]).check().is_err(),
                "{path:?}"
            );
        }
        let link = Entry::Link { target: "/etc".into() };
        assert_eq!(
            manifest(&[("a", link), ("a/b", file())]).check(),
            Err(NotAManifest::Parent("a/b".into()))
        );
        assert_eq!(manifest(&[("a", Entry::Dir { mode: 0o755 }), ("a/b", file())]).check(), Ok(()));
    }

    #[test]
    fn what_is_not_a_hash_is_not_read() {
        for text in ["\"../../etc/passwd\"", "\"ABC\"", "\"\""] {
            assert!(serde_json::from_str::<Hash>(text).is_err(), "{text}");
        }
        let known = "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"";
        assert_eq!(serde_json::from_str::<Hash>(known).expect("a hash"), Hash::of(b""));
    }
}
