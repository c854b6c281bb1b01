//! Manifest of a snapshot. It comes from users, so it is validated before use.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path};

/// SHA-256 hash in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(String);

impl Hash {
    /// Hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::finish(Sha256::new_with_prefix(bytes))
    }

    pub(crate) fn finish(hasher: Sha256) -> Hash {
        Hash(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Its 64 digits.
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
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Hash, ManifestError> {
        let digits = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if text.len() == 64 && digits { Ok(Hash(text)) } else { Err(ManifestError::Hash) }
    }
}

/// Contents of a directory by relative path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Entries by path with `/` as separator; directories come before their contents.
    pub entries: BTreeMap<String, Entry>,
}

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Directory.
    Dir {
        /// Its permissions.
        mode: u32,
    },
    /// Regular file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its length in bytes.
        size: u64,
        /// Hash of its content.
        hash: Hash,
    },
    /// Symbolic link.
    Link {
        /// Link target.
        target: String,
    },
}

/// Reason a manifest is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Malformed hash.
    #[error("a hash is 64 digits from 0 to f")]
    Hash,
    /// Path that leaves the directory or is not in canonical form.
    #[error("'{0}' is not a path inside the directory")]
    Path(String),
    /// Entry below something that is not a directory.
    #[error("'{0}' lies in something that is not a directory")]
    Parent(String),
    /// Empty or invalid link target.
    #[error("'{0}' points nowhere")]
    Link(String),
    /// Two lengths declared for one content.
    #[error("'{0}' declares another length for its content than another file")]
    Size(String),
    /// Path with too many components.
    #[error("'{0}' lies deeper than {MAX_DEPTH} directories")]
    Depth(String),
}

/// Largest depth of a path: unpacking and removal hold a file descriptor for each directory.
const MAX_DEPTH: usize = 256;

impl Manifest {
    /// Rejects manifests that could write outside the directory they are unpacked to.
    pub fn check(&self) -> Result<(), ManifestError> {
        let mut sizes = BTreeMap::new();
        for (path, entry) in &self.entries {
            let parts: Vec<_> = Path::new(path).components().collect();
            let plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
            let written: Vec<_> = parts.iter().map(|part| part.as_os_str().to_string_lossy()).collect();
            if parts.is_empty() || !plain || written.join("/") != *path || path.contains('\0') {
                return Err(ManifestError::Path(path.clone()));
            }
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            if parent.is_some_and(|parent| !matches!(self.entries.get(parent), Some(Entry::Dir { .. }))) {
                return Err(ManifestError::Parent(path.clone()));
            }
            if parts.len() > MAX_DEPTH {
                return Err(ManifestError::Depth(path.clone()));
            }
            if let Entry::File { size, hash, .. } = entry
                && sizes.insert(hash, size).is_some_and(|other| other != size)
            {
                return Err(ManifestError::Size(path.clone()));
            }
            if matches!(entry, Entry::Link { target } if target.is_empty() || target.contains('\0')) {
                return Err(ManifestError::Link(path.clone()));
            }
        }
        Ok(())
    }

    /// Snapshot id: equal directories have equal ids.
    pub fn id(&self) -> Hash {
        Hash::of(&self.to_json())
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers can be written")
    }

    /// Number of files.
    pub fn files(&self) -> u64 {
        self.contents().count() as u64
    }

    /// Total length of the files.
    pub fn bytes(&self) -> u64 {
        self.contents().map(|(_, size)| size).fold(0, u64::saturating_add)
    }

    /// Distinct contents with their lengths.
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
    fn paths_outside_the_directory_are_rejected() {
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
            Err(ManifestError::Parent("a/b".into()))
        );
        assert_eq!(manifest(&[("a", Entry::Dir { mode: 0o755 }), ("a/b", file())]).check(), Ok(()));
    }

    #[test]
    fn malformed_hashes_are_rejected() {
        for text in ["\"../../etc/passwd\"", "\"ABC\"", "\"\""] {
            assert!(serde_json::from_str::<Hash>(text).is_err(), "{text}");
        }
        let known = "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"";
        assert_eq!(serde_json::from_str::<Hash>(known).expect("a hash"), Hash::of(b""));
    }
}
