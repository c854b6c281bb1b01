//! The file with the tokens and keys of a server.

use super::{Bearer, Role, same};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use warpyard_api::proof::SecretDigest;

/// Its name in the data directory.
pub(crate) const NAME: &str = "tokens.json";

/// The most revoked keys that are remembered; the oldest is forgotten first.
const REVOKED: usize = 10_000;

/// A file with tokens that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the tokens in {}; restore it from a backup, or move it away: every worker must then join again and every \
     personal token be made again", path.display()
)]
pub struct TokenFileError {
    path: PathBuf,
    source: io::Error,
}

/// Everything the file holds, by the digests of secrets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) personal: BTreeMap<String, PersonalEntry>,
    pub(super) joins: BTreeMap<String, JoinEntry>,
    pub(super) workers: BTreeMap<String, WorkerEntry>,
    /// Digests of revoked keys, the latest last: a forgotten worker's key never counts again.
    pub(super) revoked: VecDeque<String>,
}

/// A personal token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PersonalEntry {
    /// The key of the secret's digest.
    pub(super) key: String,
    pub(super) user: Option<String>,
    /// The number of the user's account when the token was made, where tasks run as their users: an account of the same
    /// name that was made later is someone else's.
    #[serde(default)]
    pub(super) uid: Option<u32>,
    pub(super) role: Role,
    pub(super) label: Option<String>,
    pub(super) created: u64,
    pub(super) expires: u64,
    pub(super) last_used: Option<u64>,
    /// The worker that vouched for the user who made it.
    #[serde(default)]
    pub(super) vouched_by: Option<String>,
}

impl PersonalEntry {
    /// The identity behind the token with this id.
    pub(super) fn bearer(&self, id: &str) -> Bearer {
        Bearer::Person {
            id: id.to_owned(),
            user: self.user.clone(),
            uid: self.uid,
            role: self.role,
            vouched_by: self.vouched_by.clone(),
        }
    }
}

/// A join token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JoinEntry {
    pub(super) key: String,
    pub(super) uses_left: u32,
    #[serde(default)]
    pub(super) vouch: bool,
    pub(super) label: Option<String>,
    pub(super) created: u64,
    pub(super) expires: u64,
}

/// The key of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkerEntry {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) joined: u64,
    #[serde(default)]
    pub(super) vouch: bool,
}

impl State {
    /// Removes tokens that expired before a moment.
    pub(super) fn purge(&mut self, before: u64) {
        self.personal.retain(|_, entry| entry.expires > before);
        self.joins.retain(|_, entry| entry.expires > before);
    }

    /// The worker with this key.
    pub(super) fn worker_with(&self, given: &SecretDigest) -> Option<&WorkerEntry> {
        self.workers.get(&given.id).filter(|entry| same(&entry.key, &given.key))
    }

    /// The worker of this name, with the digest of its key.
    pub(super) fn worker_named(&self, name: &str) -> Option<(&String, &WorkerEntry)> {
        self.workers.iter().find(|(_, entry)| entry.name == name)
    }

    /// The join token with this secret.
    pub(super) fn join_entry(&self, given: &SecretDigest) -> Option<&JoinEntry> {
        self.joins.get(&given.id).filter(|entry| same(&entry.key, &given.key))
    }

    pub(super) fn remember_revoked(&mut self, id: String) {
        self.revoked.push_back(id);
        while self.revoked.len() > REVOKED {
            self.revoked.pop_front();
        }
    }
}

/// Reads the file; one that is not there has no tokens.
pub(super) fn read(path: &Path) -> Result<State, TokenFileError> {
    let failed = |source| TokenFileError { path: path.to_owned(), source };
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| failed(e.into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(State::default()),
        Err(e) => Err(failed(e)),
    }
}

/// Replaces the file: written beside it, for its owner alone, synced and renamed. Without the sync a loss of power could leave an
/// empty file in the place of a good one.
pub(super) fn write(path: &Path, state: &State) -> io::Result<()> {
    let beside = path.with_file_name(format!(".{NAME}"));
    let _left_by_one_that_was_killed = fs::remove_file(&beside);
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    written.write_all(&serde_json::to_vec(state)?)?;
    written.sync_all()?;
    fs::rename(&beside, path)?;
    // The new name must survive a loss of power as well.
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
