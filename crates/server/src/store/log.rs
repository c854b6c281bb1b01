//! The event log in SQLite: `event(seq, at, body)`, `snapshot(seq, at, body)`, `generation(position, log, first_job)`,
//! `writer(epoch)`. One connection writes, each batch is one transaction, and a transaction that was committed is on the disk
//! (`synchronous = FULL`). The same transaction compares the writer's epoch and the last event with what the writer expects.
//!
//! Recovery is the newest state snapshot that can be read and the events after it, which must be there without a gap; a
//! snapshot makes what is before it prunable. `generation` names the logs that numbered the jobs (see
//! [`Lineage`]).

use super::log_files::LogFiles;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;
use warpyard_core::{Cluster, Epoch, Event, JobId, LogStore, PolicyChoice, Store, Time};
use warpyard_worker::agent::{Generation, Lineage, LogId};

/// The version of the tables; a newer one is refused.
const SCHEMA: i64 = 3;

/// The first version with a table of generations.
const SCHEMA_WITH_GENERATIONS: i64 = 2;

/// Snapshots kept: the latest, and one more in case it cannot be read.
const SNAPSHOTS_KEPT: u32 = 2;

/// The commands that repair a log, as messages name them.
const REPAIR: &str =
    "restore a backup with `warpyard admin restore BACKUP`, or begin a new log with `warpyard admin new-log`";

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
    #[error("{} is damaged; {REPAIR}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// An entry of the log is missing, cannot be read, or does not follow from those before it.
    #[error("{}: entry {seq} {problem}; {REPAIR}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The number of the event or snapshot.
        seq: u64,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// The file was taken away while the server used it.
    #[error(
        "{} {how} while the server used it: it holds nothing after event {seq} for sure, and nothing after it is \
         acknowledged; put the file back if it was moved, or {REPAIR}", path.display()
    )]
    TakenAway {
        /// The file.
        path: PathBuf,
        /// What happened to it, as the rest of a sentence.
        how: String,
        /// The last event that was acknowledged.
        seq: u64,
    },
    /// Someone else has written to the log since it was read.
    #[error("{} is at event {found}, not {expected}: another program writes to it; end that and start again", path.display())]
    Overtaken {
        /// The file.
        path: PathBuf,
        /// The last event the writer knows of.
        expected: u64,
        /// The last event in the log.
        found: u64,
    },
    /// Another writer has claimed the log since.
    #[error("{} was claimed by another server (epoch {found}, this one has {epoch}); nothing more is acknowledged here", path.display())]
    Deposed {
        /// The file.
        path: PathBuf,
        /// The epoch of the refused writer.
        epoch: u64,
        /// The epoch of the writer in office.
        found: u64,
    },
    /// The log has no id, and none could be drawn.
    #[error("no id can be drawn for {}", path.display())]
    NoId {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Damaged tables could not be renamed.
    #[error("{} is damaged, and cannot be set aside", path.display())]
    SetAside {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
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
    /// The logs that numbered the jobs; none before the first [`Log::load`] of a log that has no id.
    lineage: Option<Lineage>,
    files: LogFiles,
}

/// A state read from the log.
pub struct Loaded {
    /// The state.
    pub cluster: Cluster,
    /// How many events were applied on top of a snapshot.
    pub replayed: u64,
    /// Damage that was found and dealt with, in words.
    pub repairs: Vec<String>,
}

impl Log {
    /// Opens the log, making it if there is none.
    pub fn open(path: &Path) -> Result<Log, LogError> {
        Log::open_with(path, OpenFlags::default())
    }

    /// Opens a log that is there. Unlike [`Log::open`] it never makes one in the place of one that was removed.
    pub fn open_existing(path: &Path) -> Result<Log, LogError> {
        Log::open_with(path, OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Log, LogError> {
        let path = path.to_owned();
        let named = |source| name(&path, source);
        let db = Connection::open_with_flags(&path, flags).map_err(named)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(named)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(named)?;
        if schema(&db, &path, SCHEMA)? < SCHEMA {
            db.execute_batch(&format!(
                "BEGIN;
                 CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
                 CREATE TABLE IF NOT EXISTS snapshot (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
                 CREATE TABLE IF NOT EXISTS generation (position INTEGER PRIMARY KEY, log TEXT, first_job INTEGER NOT NULL);
                 CREATE TABLE IF NOT EXISTS dismissed (log TEXT PRIMARY KEY);
                 CREATE TABLE IF NOT EXISTS writer (only INTEGER PRIMARY KEY CHECK (only = 1), epoch INTEGER NOT NULL);
                 INSERT OR IGNORE INTO writer VALUES (1, 0);
                 PRAGMA user_version = {SCHEMA};
                 COMMIT;"
            ))
            .map_err(named)?;
        }
        let seq = last_seq(&db).map_err(named)?;
        let lineage = read_lineage(&db, &path)?;
        let files = LogFiles::of(&path);
        Ok(Log { seq, path, db, lineage, files })
    }

    /// Opens a log that a server may be writing to, to read it and nothing else.
    pub fn open_to_read(path: &Path) -> Result<Log, LogError> {
        let path = path.to_owned();
        let named = |source| name(&path, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(named)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(named)?;
        let has_generations = schema(&db, &path, SCHEMA)? >= SCHEMA_WITH_GENERATIONS;
        let lineage = if has_generations { read_lineage(&db, &path)? } else { None };
        let seq = last_seq(&db).map_err(named)?;
        let files = LogFiles::of(&path);
        Ok(Log { seq, path, db, lineage, files })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last event.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The logs that numbered the jobs, of a log that was loaded.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage.as_ref()
    }

    /// The state the log amounts to: a fresh one with the given policy if the log is empty. A log without an id gets one.
    pub fn load(&mut self, policy: &PolicyChoice) -> Result<Loaded, LogError> {
        let mut repairs = Vec::new();
        let snapshot = self.readable_snapshot(&mut repairs)?;
        let (cluster, replayed) = self.replay(snapshot.unwrap_or_else(|| Cluster::new(policy.clone())))?;
        if self.lineage.is_none() {
            self.begin_lineage(&cluster)?;
        }
        Ok(Loaded { replayed, cluster, repairs })
    }

    /// The state the log amounts to, where nothing in it may be changed.
    pub(crate) fn read(&self, policy: &PolicyChoice) -> Result<Cluster, LogError> {
        let snapshot = self.newest_snapshot()?;
        let (cluster, _) = self.replay(snapshot.unwrap_or_else(|| Cluster::new(policy.clone())))?;
        Ok(cluster)
    }

    /// Applies the events after a state, all of which must be there; gives how many those were.
    fn replay(&self, mut cluster: Cluster) -> Result<(Cluster, u64), LogError> {
        let from = cluster.seq();
        let problem = |seq, problem: String| LogError::Entry { path: self.path.clone(), seq, problem };
        let mut wrong = None;
        self.each_event(from, |seq, event| {
            if wrong.is_some() {
            } else if seq != cluster.seq() + 1 {
                wrong = Some(problem(cluster.seq() + 1, "is missing".to_owned()));
            } else {
                wrong = self.check(seq, || drop(cluster.apply(&event))).err();
            }
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        if cluster.seq() != self.seq {
            return Err(problem(cluster.seq() + 1, "is missing".to_owned()));
        }
        let replayed = cluster.seq() - from;
        Ok((cluster, replayed))
    }

    /// Has an event taken in by something that asserts that it follows from those before it; an error where it does not.
    pub(crate) fn check<T>(&self, seq: u64, take: impl FnOnce() -> T) -> Result<T, LogError> {
        checked(take).map_err(|why| {
            let problem = format!("does not follow from those before it ({why})");
            LogError::Entry { path: self.path.clone(), seq, problem }
        })
    }

    /// Gives a log an id that has none. Jobs it numbered before keep paths without one.
    fn begin_lineage(&mut self, cluster: &Cluster) -> Result<(), LogError> {
        let log = LogId::random().map_err(|source| LogError::NoId { path: self.path.clone(), source })?;
        let mut generations = Vec::new();
        if cluster.next_job() > JobId(1) {
            generations.push(Generation { log: None, first_job: JobId(1) });
        }
        generations.push(Generation { log: Some(log), first_job: cluster.next_job() });
        let lineage = Lineage::from_generations(generations).expect("in order, and at least one");
        self.set_lineage(lineage)
    }

    /// Replaces the logs that numbered the jobs.
    pub fn set_lineage(&mut self, lineage: Lineage) -> Result<(), LogError> {
        let path = self.path.clone();
        let named = |source| name(&path, source);
        let transaction = self.db.transaction().map_err(named)?;
        transaction.execute("DELETE FROM generation", []).map_err(named)?;
        for (position, generation) in lineage.generations().iter().enumerate() {
            let log = generation.log.as_ref().map(ToString::to_string);
            let row = params![position as i64, log, generation.first_job.0 as i64];
            transaction.execute("INSERT INTO generation VALUES (?1, ?2, ?3)", row).map_err(named)?;
        }
        transaction.commit().map_err(named)?;
        self.lineage = Some(lineage);
        Ok(())
    }

    /// Short ids of other logs whose files may stay in the data directory without being taken for this one's.
    pub fn dismissed(&self) -> Result<Vec<String>, LogError> {
        let named = |source| name(&self.path, source);
        let mut query = self.db.prepare("SELECT log FROM dismissed ORDER BY log").map_err(named)?;
        let logs = query.query_map([], |r| r.get(0)).map_err(named)?;
        logs.collect::<Result<_, _>>().map_err(named)
    }

    /// Notes that files of another log may stay in the data directory.
    pub fn dismiss(&self, log: &str) -> Result<(), LogError> {
        let dismiss = self.db.execute("INSERT OR IGNORE INTO dismissed VALUES (?1)", [log]);
        dismiss.map(drop).map_err(|e| name(&self.path, e))
    }

    /// The newest state snapshot that can be read. Those that cannot are removed and noted: they are derived from events.
    fn readable_snapshot(&self, repairs: &mut Vec<String>) -> Result<Option<Cluster>, LogError> {
        let named = |source| name(&self.path, source);
        while let Some((seq, found)) = self.snapshot_before(u64::MAX)? {
            let why = match found {
                Ok(cluster) => return Ok(Some(cluster)),
                Err(why) => why,
            };
            let needed = self.snapshot_before(seq)?.map_or(1, |(older, _)| older + 1);
            let first = "SELECT coalesce((SELECT min(seq) FROM event WHERE seq >= ?1), 0)";
            let first: i64 = self.db.query_row(first, [needed as i64], |r| r.get(0)).map_err(named)?;
            if first as u64 != needed {
                // Nothing is removed that might still be of use to someone.
                let problem = format!(
                    "is a state snapshot that cannot be read ({why}), and the events before it are gone"
                );
                return Err(LogError::Entry { path: self.path.clone(), seq, problem });
            }
            self.db.execute("DELETE FROM snapshot WHERE seq = ?1", [seq as i64]).map_err(named)?;
            let instead = if needed == 1 {
                "all events".to_owned()
            } else {
                format!("the state snapshot at event {}", needed - 1)
            };
            repairs.push(format!(
                "the state snapshot at event {seq} in {} cannot be read ({why}): it was removed, and the state restored from {instead}",
                self.path.display()
            ));
        }
        Ok(None)
    }

    /// The newest state snapshot that can be read; the log may have a writer meanwhile.
    pub fn newest_snapshot(&self) -> Result<Option<Cluster>, LogError> {
        let mut before = u64::MAX;
        while let Some((seq, found)) = self.snapshot_before(before)? {
            match found {
                Ok(cluster) => return Ok(Some(cluster)),
                Err(_) => before = seq,
            }
        }
        Ok(None)
    }

    /// The newest state snapshot before an event, or why it cannot be read.
    #[expect(clippy::type_complexity, reason = "a number and what was found under it")]
    fn snapshot_before(&self, before: u64) -> Result<Option<(u64, Result<Cluster, String>)>, LogError> {
        let sql = "SELECT seq, body FROM snapshot WHERE seq < ?1 ORDER BY seq DESC LIMIT 1";
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let row = self.db.query_row(sql, [before], |r| Ok((r.get::<_, i64>(0)? as u64, bytes(r))));
        let Some((seq, body)) = row.optional().map_err(|e| name(&self.path, e))? else { return Ok(None) };
        let read = |body: Vec<u8>| {
            let cluster: Cluster = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
            if cluster.seq() != seq {
                return Err(format!("it is the state at event {}", cluster.seq()));
            }
            checked(|| cluster.restored())
        };
        Ok(Some((seq, body.map_err(|e| e.to_string()).and_then(read))))
    }

    /// Hands over every event after a number, in order, with its number. There must be no gap between them.
    pub fn each_event(&self, after: u64, mut take: impl FnMut(u64, Event)) -> Result<(), LogError> {
        let named = |source| name(&self.path, source);
        let problem = |seq, problem: String| LogError::Entry { path: self.path.clone(), seq, problem };
        let sql = "SELECT seq, body FROM event WHERE seq > ?1 ORDER BY seq";
        let mut query = self.db.prepare(sql).map_err(named)?;
        let mut rows = query.query([after as i64]).map_err(named)?;
        let mut last: Option<u64> = None;
        while let Some(row) = rows.next().map_err(named)? {
            let seq = row.get::<_, i64>(0).map_err(named)? as u64;
            if let Some(last) = last.filter(|last| last + 1 != seq) {
                return Err(problem(last + 1, "is missing".to_owned()));
            }
            let body = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            let body = body.map_err(|e| problem(seq, format!("cannot be read ({e})")))?;
            let event = serde_json::from_slice(body);
            take(seq, event.map_err(|e| problem(seq, format!("cannot be read ({e})")))?);
            last = Some(seq);
        }
        Ok(())
    }

    /// When the last event happened; the beginning of time where none is there.
    pub fn last_at(&self) -> Result<Time, LogError> {
        let sql = "SELECT max(coalesce((SELECT at FROM event ORDER BY seq DESC LIMIT 1), 0),
                   coalesce((SELECT at FROM snapshot ORDER BY seq DESC LIMIT 1), 0))";
        let at: i64 = self.db.query_row(sql, [], |r| r.get(0)).map_err(|e| name(&self.path, e))?;
        Ok(Time(at as u64))
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

    fn append(&mut self, epoch: Epoch, after: u64, events: &[Event]) -> Result<(), LogError> {
        let path = self.path.clone();
        let named = |source| name(&path, source);
        self.files.check(&self.path, self.seq)?;
        // Immediate: both fences are read under the write lock, so that nobody passes them between here and the commit.
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
        let found = epoch_of(&transaction).map_err(named)?;
        if found != epoch.0 {
            return Err(LogError::Deposed { path, epoch: epoch.0, found });
        }
        let found = last_seq(&transaction).map_err(named)?;
        if found != after {
            return Err(LogError::Overtaken { path, expected: after, found });
        }
        let mut seq = after;
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
        // What was just committed counts only if it went where the next start looks.
        self.files.check(&self.path, self.seq)?;
        self.seq = seq;
        Ok(())
    }
}

impl LogStore for Log {
    fn claim(&mut self) -> Result<Epoch, LogError> {
        let path = self.path.clone();
        let named = |source| name(&path, source);
        // A transaction of its own, so that a commit that fails is told.
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
        transaction.execute("UPDATE writer SET epoch = epoch + 1", []).map_err(named)?;
        let epoch = epoch_of(&transaction).map_err(named)?;
        transaction.commit().map_err(named)?;
        // Whoever wrote before may have appended since this log was opened.
        self.seq = last_seq(&self.db).map_err(named)?;
        Ok(Epoch(epoch))
    }

    fn last_seq(&self) -> Result<u64, LogError> {
        last_seq(&self.db).map_err(|e| name(&self.path, e))
    }

    fn read_from(&self, after: u64, take: &mut dyn FnMut(u64, Event)) -> Result<(), LogError> {
        self.each_event(after, take)
    }

    fn save_snapshot(&mut self, cluster: &Cluster, at: Time) -> Result<(), LogError> {
        let body = serde_json::to_vec(cluster).expect("a state is always JSON");
        Log::save_snapshot(self, cluster.seq(), at, &body)
    }

    fn prune(&mut self, before: Time, most: u32) -> Result<usize, LogError> {
        Log::prune(self, before, most)
    }

    fn load_cluster(&mut self, policy: &PolicyChoice) -> Result<Cluster, LogError> {
        Ok(self.load(policy)?.cluster)
    }
}

fn epoch_of(db: &Connection) -> rusqlite::Result<u64> {
    let mut query = db.prepare_cached("SELECT epoch FROM writer")?;
    query.query_row([], |r| Ok(r.get::<_, i64>(0)? as u64))
}

fn last_seq(db: &Connection) -> rusqlite::Result<u64> {
    let sql =
        "SELECT max(coalesce((SELECT max(seq) FROM event), 0), coalesce((SELECT max(seq) FROM snapshot), 0))";
    db.prepare_cached(sql)?.query_row([], |r| Ok(r.get::<_, i64>(0)? as u64))
}

fn bytes(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    row.get(1)
}

fn read_lineage(db: &Connection, path: &Path) -> Result<Option<Lineage>, LogError> {
    let named = |source| name(path, source);
    let mut query = db.prepare("SELECT log, first_job FROM generation ORDER BY position").map_err(named)?;
    let mut rows = query.query([]).map_err(named)?;
    let mut generations = Vec::new();
    while let Some(row) = rows.next().map_err(named)? {
        let log: Option<String> = row.get(0).map_err(named)?;
        let unreadable = |why: String| LogError::Entry {
            path: path.to_owned(),
            seq: 0,
            problem: format!("names no log ({why})"),
        };
        let log = log.map(|id| id.parse::<LogId>()).transpose().map_err(|e| unreadable(e.to_string()))?;
        let first_job = JobId(row.get::<_, i64>(1).map_err(named)? as u64);
        generations.push(Generation { log, first_job });
    }
    Ok(Lineage::from_generations(generations))
}

thread_local! {
    /// Whether a panic of this thread is expected, and reported otherwise.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that asserts what it is given; where that does not hold, gives what is wrong instead of a panic.
fn checked<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                report(panic);
            }
        }));
    });
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    done.map_err(|panic| match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "an assertion failed".to_owned(),
    })
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
