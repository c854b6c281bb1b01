//! Where attempts and their logs are on disk, and how long logs stay.
//!
//! `attempts/<key>` belongs to an attempt the server may still ask about; once it knows the end, what the attempt wrote
//! moves to `logs/<job>/<key>`, so that finding what runs never has to look through what ran.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use warpyard_core::AttemptId;

/// The files that are an attempt's output.
const OUTPUT: [&str; 3] = ["log", "stdout", "stderr"];

pub(super) fn attempts_dir(data: &Path) -> PathBuf {
    data.join("attempts")
}

pub(super) fn attempt_dir(data: &Path, attempt: AttemptId) -> PathBuf {
    attempts_dir(data).join(attempt.to_string())
}

fn kept_dir(data: &Path, attempt: AttemptId) -> PathBuf {
    data.join("logs").join(attempt.task.job.to_string()).join(attempt.to_string())
}

/// Where an attempt's output may be: with the attempt, or kept from it. To be tried in this order, because it may move
/// from the first to the second at any time.
pub fn log_dirs(data: &Path, attempt: AttemptId) -> [PathBuf; 2] {
    [attempt_dir(data, attempt), kept_dir(data, attempt)]
}

/// Lets go of an attempt whose end the server knows; what it wrote stays.
pub(super) fn retire(data: &Path, attempt: AttemptId) -> io::Result<()> {
    let from = attempt_dir(data, attempt);
    if !OUTPUT.iter().any(|name| from.join(name).exists()) {
        return fs::remove_dir_all(from);
    }
    let to = kept_dir(data, attempt);
    fs::create_dir_all(to.parent().expect("a kept directory is in a job's"))?;
    fs::rename(from, &to)?;
    for record in ["running", "state", "want", "exit"] {
        match fs::remove_file(to.join(record)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Removes kept output older than this; gives how many attempts' output went.
pub fn prune_logs(data: &Path, older_than: Duration) -> io::Result<usize> {
    let Some(limit) = SystemTime::now().checked_sub(older_than) else { return Ok(0) };
    let mut removed = 0;
    for job in list(&data.join("logs"))? {
        for attempt in list(&job)? {
            if fs::metadata(&attempt).and_then(|m| m.modified()).is_ok_and(|at| at < limit) {
                fs::remove_dir_all(&attempt)?;
                removed += 1;
            }
        }
        if list(&job)?.is_empty() {
            fs::remove_dir(&job)?;
        }
    }
    Ok(removed)
}

fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}
