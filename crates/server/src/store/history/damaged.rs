//! Tables that are damaged: they are set aside and not removed, for they have what the log no longer does.

use super::SqliteHistory;
use crate::store::HistoryError;
use crate::store::LogError;
use rusqlite::ErrorCode;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Whether an error of SQLite means that the tables themselves are damaged, or not what they should be: not where the
/// disk is full, the file may not be written or someone else has it.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::Unknown
            | ErrorCode::TypeMismatch
            | ErrorCode::ConstraintViolation,
        ) => true,
        Some(_) => false,
        // Not SQLite's own: a column is missing, or holds something else.
        None => true,
    }
}

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> HistoryError {
        match is_damage(&error) {
            true => HistoryError::Damaged(error.into()),
            false => HistoryError::Unavailable(error.into()),
        }
    }
}

impl SqliteHistory {
    /// Opens the tables; damaged ones are set aside, and what the log still has of them can be entered anew. Gives where
    /// damaged ones are now.
    pub fn open_or_set_aside(path: &Path) -> Result<(SqliteHistory, Option<String>), LogError> {
        let (error, source) = match SqliteHistory::open(path) {
            Err(LogError::Damaged { path, source }) => {
                (source.to_string(), LogError::Damaged { path, source })
            }
            Err(LogError::Sqlite { path, source }) if is_damage(&source) => {
                (source.to_string(), LogError::Sqlite { path, source })
            }
            opened => return opened.map(|history| (history, None)),
        };
        let Ok(repair) = SqliteHistory::set_aside(path, &error) else { return Err(source) };
        Ok((SqliteHistory::open(path)?, Some(repair)))
    }

    /// Gives damaged tables another name, with all that belongs to them, and leaves an empty file that others cannot read.
    /// Nobody may have them open. Gives what was done, in words.
    pub(crate) fn set_aside(path: &Path, why: &str) -> io::Result<String> {
        let aside = set_aside(path, "damaged")?;
        Ok(format!(
            "{} is damaged ({why}); it is {} from now on, and what the log still has is entered anew",
            path.display(),
            aside.display()
        ))
    }
}

/// Renames a database of SQLite's to `<name>.<as_what>-<n>`, with all that belongs to it, and leaves an empty one that
/// others cannot read.
pub(crate) fn set_aside(path: &Path, as_what: &str) -> io::Result<PathBuf> {
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut names = (1..).map(|n| with(path, &format!(".{as_what}-{n}")));
    let aside = names.find(|name| !name.exists()).expect("there is no last number");
    fs::rename(path, &aside)?;
    for end in ["-wal", "-shm"] {
        let _not_there = fs::rename(with(path, end), with(&aside, end));
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(aside)
}
