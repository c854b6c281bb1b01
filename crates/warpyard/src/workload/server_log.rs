//! A server's own log as a workload. It is no text, and so not among the other formats.

use crate::input::bad_file;
use crate::usage_error::UsageError;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use warpyard_core::Time;
use warpyard_policies::default_policy;
use warpyard_server::recording;
use warpyard_server::store::Log;
use warpyard_sim::replay::Recording;

/// The name of the format.
pub(crate) const SERVER_LOG: &str = "warpyard";

/// Whether it is a data directory or an SQLite file.
pub(crate) fn is_log(file: &str) -> bool {
    Path::new(file).join("log.db").exists() || is_database(Path::new(file)).unwrap_or(false)
}

/// Reads the recording in a log, or in the one of a data directory, from a moment on.
pub(crate) fn read_log(path: &Path, since: Time) -> Result<Recording, UsageError> {
    let path = if path.is_dir() { path.join("log.db") } else { path.to_owned() };
    let name = path.display().to_string();
    if !path.exists() {
        return Err(UsageError::NoLog(name));
    }
    if matches!(is_database(&path), Ok(false)) {
        return Err(UsageError::NotALog(name));
    }
    let recording = Log::open_to_read(&path).and_then(|log| recording(&log, since, default_policy()));
    let recording = recording.map_err(|source| bad_file(&name, source))?;
    if recording.is_empty() {
        return Err(UsageError::NothingRecorded(name));
    }
    Ok(recording)
}

fn is_database(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(file)?.take(16).read_to_end(&mut start)?;
    Ok(start == b"SQLite format 3\0")
}
