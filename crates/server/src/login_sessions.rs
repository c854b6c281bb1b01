//! Login sessions of the web pages, stored in the data directory so that they survive a restart. Only hashes of their
//! secrets are stored: reading the file lets nobody in.

use crate::caller::LoginIdentity;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most sessions; beyond it the one that expires first is removed.
pub(crate) const SESSIONS: usize = 1_000;

/// A login session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// When it ends, in seconds since 1970.
    pub(crate) until: u64,
    /// The user.
    pub(crate) holder: LoginIdentity,
}

/// Sessions by the hashes of their secrets, in memory and in a file, if there is one.
#[derive(Default)]
pub(crate) struct SessionStore {
    file: Option<PathBuf>,
    sessions: HashMap<String, Session>,
}

impl SessionStore {
    /// Reads the sessions of a data directory that have not expired. A file that cannot be read costs everyone a login, and
    /// the server nothing.
    pub(crate) fn read(data: &Path, now: u64) -> SessionStore {
        let file = data.join("logins.json");
        let mut sessions = read(&file).unwrap_or_else(|e| {
            tracing::warn!("{} cannot be read, so everyone has to log in again: {e}", file.display());
            HashMap::new()
        });
        sessions.retain(|_, session| now < session.until);
        bound(&mut sessions);
        SessionStore { file: Some(file), sessions }
    }

    /// The session whose secret has this hash, if it has not ended.
    pub(crate) fn get(&self, hash: &str, now: u64) -> Option<&Session> {
        self.sessions.get(hash).filter(|session| now < session.until)
    }

    /// Changes them, here and in the file.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut HashMap<String, Session>)) {
        change(&mut self.sessions);
        bound(&mut self.sessions);
        let Some(file) = &self.file else { return };
        if let Err(e) = write(file, &self.sessions) {
            tracing::warn!("{} cannot be written, so logins end with this server: {e}", file.display());
            // What it said before may let someone in who has left.
            let _not_there = fs::remove_file(file);
        }
    }
}

fn bound(sessions: &mut HashMap<String, Session>) {
    while sessions.len() > SESSIONS
        && let Some(first) = sessions.iter().min_by_key(|(_, s)| s.until).map(|(hash, _)| hash.clone())
    {
        sessions.remove(&first);
    }
}

fn read(file: &Path) -> io::Result<HashMap<String, Session>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(HashMap::new()),
        Err(e) => Err(e),
    }
}

/// Writes the sessions to a file beside, readable by its owner alone, and renames it: a server that is killed meanwhile
/// leaves the old file whole. Not synced, since requests wait for this and a loss of power costs no more than a login.
fn write(file: &Path, sessions: &HashMap<String, Session>) -> io::Result<()> {
    let beside = file.with_file_name(".logins.json");
    let _left_by_one_that_was_killed = fs::remove_file(&beside);
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    written.write_all(&serde_json::to_vec(sessions)?)?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(sessions: std::ops::Range<u64>) -> HashMap<String, Session> {
        let session = |until: u64| (format!("{until}"), Session { until, holder: LoginIdentity::Owner });
        sessions.map(session).collect()
    }

    #[test]
    fn no_more_are_kept_than_there_may_be_and_none_that_ended() {
        let data = tempfile::tempdir().expect("a directory");
        let most = SESSIONS as u64;
        write(&data.path().join("logins.json"), &owners(1..2 * most)).expect("a file");
        let kept = SessionStore::read(data.path(), 10);
        assert_eq!(kept.sessions.len(), SESSIONS);
        assert!(kept.get(&format!("{}", 2 * most - 1), 10).is_some(), "those that end first make room");
        let kept = SessionStore::read(data.path(), 2 * most - 3);
        assert_eq!(kept.sessions.len(), 2, "the others have ended");
    }

    #[test]
    fn a_file_that_cannot_be_written_lets_nobody_in_who_has_left() {
        let data = tempfile::tempdir().expect("a directory");
        let mut kept = SessionStore::read(data.path(), 0);
        kept.change(|sessions| *sessions = owners(1..3));
        fs::create_dir_all(data.path().join(".logins.json/in the way")).expect("a directory");
        kept.change(HashMap::clear);
        assert!(SessionStore::read(data.path(), 0).sessions.is_empty());
    }
}
