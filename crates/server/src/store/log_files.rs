//! The log's files as the file system shows them: whether the names still lead to the files that are open, and whether
//! those are as long as they were.

use super::LogError;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What is known of the database file and its write-ahead log, neither of which SQLite ever shortens while it is open.
///
/// Names are looked up and nothing is opened: closing a second descriptor of the database would give up SQLite's locks.
#[derive(Debug, Default)]
pub(super) struct LogFiles {
    database: Option<FileStamp>,
    wal: Option<FileStamp>,
}

#[derive(Clone, Copy, Debug)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
}

impl LogFiles {
    /// The files as they are now, after the database was opened.
    pub(super) fn of(path: &Path) -> LogFiles {
        let mut files = LogFiles::default();
        let _not_there_yet = stamp(&mut files.database, path);
        let _not_there_yet = stamp(&mut files.wal, &wal_of(path));
        files
    }

    /// Refuses to go on where a file was removed, replaced or cut short since the last look. `seq` is the last event known
    /// to have been kept.
    pub(super) fn check(&mut self, path: &Path, seq: u64) -> Result<(), LogError> {
        let taken_away = |path: PathBuf, how: String| LogError::TakenAway { path, how, seq };
        stamp(&mut self.database, path).map_err(|how| taken_away(path.to_owned(), how))?;
        let wal = wal_of(path);
        stamp(&mut self.wal, &wal).map_err(|how| taken_away(wal, how))
    }
}

fn stamp(seen: &mut Option<FileStamp>, path: &Path) -> Result<(), String> {
    let now = match fs::metadata(path) {
        Ok(found) => FileStamp { device: found.dev(), inode: found.ino(), bytes: found.len() },
        Err(_) if seen.is_none() => return Ok(()),
        Err(e) => return Err(format!("was removed ({e})")),
    };
    match *seen {
        Some(before) if (before.device, before.inode) != (now.device, now.inode) => {
            return Err("was replaced by another file".to_owned());
        }
        Some(before) if now.bytes < before.bytes => {
            return Err(format!("was cut from {} to {} bytes", before.bytes, now.bytes));
        }
        _ => {}
    }
    *seen = Some(now);
    Ok(())
}

fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
