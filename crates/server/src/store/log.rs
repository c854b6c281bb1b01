//! The log of events in SQLite: `event(seq, at, body)`, `snapshot(seq, at, body)`. One connection writes, each batch is
//! one transaction, and a transaction that was committed is on the disk (`synchronous = FULL`).
//!
//! Recovery is the latest snapshot and the events after it; a snapshot makes what is before it prunable.

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::Duration;
use warpyard_core::engine::Store;
use warpyard_core::{Cluster, Event, PolicyChoice, Time};
use warpyard_sim::replay::{Recorder, Recording};

/// The form of the tables; a newer one is refused.
const SCHEMA: i64 = 1;

/// Snapshots kept: the latest, and one more in case it cannot be read.
const SNAPSHOTS_KEPT: u32 = 2;

/// Why the log, or what is derived from it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It was written by a newer warpyard.
    #[error("{} has schema {found}, newer than this program knows ({known}); use the warpyard that wrote it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// The disk is full.
    #[error("the disk with {} is full; nothing that was acknowledged is lost: free some space and start again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It may not be written.
    #[error("{} cannot be written; check its owner and mode, and that its file system is not read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Someone else has it to themselves.
    #[error("{} is locked by another program, such as one that copies it; end that, or let it finish, and start again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged.
    #[error("{} is damaged; restore it from a copy, or move it away to begin afresh", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// An event or snapshot cannot be read.
    #[error("{}: entry {seq} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Which entry.
        seq: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Anything else SQLite says.
    #[error("{}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// The log.
pub struct Log {
    path: PathBuf,
    db: Connection,
    /// The number of the last event.
    seq: u64,
}

/// A state read from the log.
pub struct Loaded {
    /// The state.
    pub cluster: Cluster,
    /// How many events were applied on top of a snapshot.
    pub replayed: u64,
}

impl Log {
    /// Opens the log, making it if there is none.
    pub fn open(path: &Path) -> Result<Log, LogError> {
        let path = path.to_owned();
        let named = |source| name(&path, source);
        let db = Connection::open(&path).map_err(named)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(named)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(named)?;
        if schema(&db, &path, SCHEMA)? < SCHEMA {
            db.execute_batch(&format!(
                "BEGIN;
                 CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
                 CREATE TABLE IF NOT EXISTS snapshot (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
                 PRAGMA user_version = {SCHEMA};
                 COMMIT;"
            ))
            .map_err(named)?;
        }
        let last = "SELECT max(coalesce((SELECT max(seq) FROM event), 0), coalesce((SELECT max(seq) FROM snapshot), 0))";
        let seq: i64 = db.query_row(last, [], |r| r.get(0)).map_err(named)?;
        Ok(Log { seq: seq as u64, path, db })
    }

    /// Opens a log that a server may be writing to, to read it and nothing else.
    pub fn open_to_read(path: &Path) -> Result<Log, LogError> {
        let path = path.to_owned();
        let named = |source| name(&path, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(named)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(named)?;
        schema(&db, &path, SCHEMA)?;
        Ok(Log { seq: 0, path, db })
    }

    /// What a log recorded from a moment on, to be simulated again. Of a log that was pruned, what is left.
    pub fn recording(&self, since: Time, policy: PolicyChoice) -> Result<Recording, LogError> {
        let whole = self.first_seq()?.is_none_or(|first| first == 1);
        let mut recorder = match self.latest_snapshot()? {
            Some(later) if !whole => Recorder::from_what_is_left(&later, since),
            _ => Recorder::from_the_beginning(policy, since),
        };
        self.each_event(0, |_, event| recorder.enter(&event))?;
        Ok(recorder.finish())
    }

    /// The state the log amounts to: a fresh one with the given policy if the log is empty.
    pub fn load(&self, policy: &PolicyChoice) -> Result<Loaded, LogError> {
        let mut cluster = self.latest_snapshot()?.unwrap_or_else(|| Cluster::new(policy.clone()));
        let from = cluster.seq();
        self.each_event(from, |_, event| drop(cluster.apply(&event)))?;
        Ok(Loaded { replayed: cluster.seq() - from, cluster })
    }

    fn latest_snapshot(&self) -> Result<Option<Cluster>, LogError> {
        let named = |source| name(&self.path, source);
        let sql = "SELECT seq, body FROM snapshot ORDER BY seq DESC LIMIT 1";
        let row = self.db.query_row(sql, [], |r| Ok((r.get::<_, i64>(0)? as u64, r.get::<_, Vec<u8>>(1)?)));
        let Some((seq, body)) = row.optional().map_err(named)? else { return Ok(None) };
        let cluster: Cluster = serde_json::from_slice(&body).map_err(|source| LogError::Unreadable {
            path: self.path.clone(),
            seq,
            source,
        })?;
        Ok(Some(cluster.restored()))
    }

    /// Hands over every event after a number, in order, with its number.
    pub fn each_event(&self, after: u64, mut take: impl FnMut(u64, Event)) -> Result<(), LogError> {
        let named = |source| name(&self.path, source);
        let sql = "SELECT seq, body FROM event WHERE seq > ?1 ORDER BY seq";
        let mut query = self.db.prepare(sql).map_err(named)?;
        let mut rows = query.query([after as i64]).map_err(named)?;
        while let Some(row) = rows.next().map_err(named)? {
            let seq = row.get::<_, i64>(0).map_err(named)? as u64;
            let body = row.get_ref(1).and_then(|v| Ok(v.as_blob()?)).map_err(named)?;
            let event = serde_json::from_slice(body).map_err(|source| LogError::Unreadable {
                path: self.path.clone(),
                seq,
                source,
            })?;
            take(seq, event);
        }
        Ok(())
    }

    /// The first event number the log still has.
    pub fn first_seq(&self) -> Result<Option<u64>, LogError> {
        let first = self.db.query_row("SELECT min(seq) FROM event", [], |r| r.get::<_, Option<i64>>(0));
        Ok(first.map_err(|e| name(&self.path, e))?.map(|s| s as u64))
    }

    /// Keeps a state, and lets go of older ones. `body` is the state's JSON.
    pub fn save_snapshot(&self, seq: u64, at: Time, body: &[u8]) -> Result<(), LogError> {
        let named = |source| name(&self.path, source);
        let save = "INSERT OR REPLACE INTO snapshot (seq, at, body) VALUES (?1, ?2, ?3)";
        self.db.execute(save, params![seq as i64, at.0 as i64, body]).map_err(named)?;
        let thin =
            "DELETE FROM snapshot WHERE seq NOT IN (SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?1)";
        self.db.execute(thin, [SNAPSHOTS_KEPT]).map_err(named)?;
        Ok(())
    }

    /// Removes events that both of the snapshots kept include and that are older than a moment; at most `most` of them,
    /// so that nobody waits long for the log meanwhile. Gives how many went.
    pub fn prune(&self, before: Time, most: u32) -> Result<usize, LogError> {
        let sql = "DELETE FROM event WHERE seq IN (SELECT seq FROM event
                   WHERE seq <= (SELECT min(seq) FROM snapshot) AND (SELECT count(*) FROM snapshot) >= ?3
                   AND at < ?1 ORDER BY seq LIMIT ?2)";
        let pruned = self.db.execute(sql, params![before.0 as i64, most, SNAPSHOTS_KEPT]);
        pruned.map_err(|e| name(&self.path, e))
    }
}

impl Store for Log {
    type Error = LogError;

    fn append(&mut self, events: &[Event]) -> Result<(), LogError> {
        let path = self.path.clone();
        let named = |source| name(&path, source);
        let transaction = self.db.transaction().map_err(named)?;
        let mut seq = self.seq;
        {
            let sql = "INSERT INTO event (seq, at, body) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(sql).map_err(named)?;
            let mut body = Vec::new();
            for event in events {
                seq += 1;
                body.clear();
                serde_json::to_writer(&mut body, event).expect("an event is always JSON");
                insert.execute(params![seq as i64, event.at.0 as i64, body]).map_err(named)?;
            }
        }
        transaction.commit().map_err(named)?;
        self.seq = seq;
        Ok(())
    }
}

/// The schema of a file, unless it is newer than the newest that is known.
pub(super) fn schema(db: &Connection, path: &Path, known: i64) -> Result<i64, LogError> {
    let found = db.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(|e| name(path, e))?;
    if found > known {
        return Err(LogError::Newer { path: path.to_owned(), found, known });
    }
    Ok(found)
}

/// What an error of SQLite means to a person.
pub(super) fn name(path: &Path, source: rusqlite::Error) -> LogError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => LogError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            LogError::ReadOnly { path }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LogError::Locked { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => LogError::Damaged { path, source },
        _ => LogError::Sqlite { path, source },
    }
}
