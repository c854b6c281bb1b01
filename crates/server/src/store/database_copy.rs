//! Copies and checks of whole SQLite databases, for backups.

use super::log::{LogError, name};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a copy waits for a writer to finish its transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Copies a database into an empty file, as it is at one moment; it may be written to meanwhile.
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<(), LogError> {
    let copy = || open(from)?.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    copy().map(drop).map_err(|source| name(from, source))
}

/// What SQLite finds wrong with a database; nothing where it is sound.
pub(crate) fn find_corruption(path: &Path) -> Result<Option<String>, LogError> {
    let check = || open(path)?.query_row("PRAGMA integrity_check(1)", [], |r| r.get::<_, String>(0));
    let verdict = check().map_err(|source| name(path, source))?;
    Ok(Some(verdict).filter(|verdict| verdict != "ok"))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}
