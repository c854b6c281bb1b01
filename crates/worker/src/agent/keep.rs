//! Where attempts and their logs are on disk, and how long logs stay.
//!
//! `attempts/<key>` holds the records of an attempt the server may still ask about, `logs/<job>/<key>` what it wrote, so
//! that finding what runs never has to look through what ran.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use warpyard_core::AttemptId;

pub(super) fn attempts_dir(data: &Path) -> PathBuf {
    data.join("attempts")
}

/// Where the records of an attempt are, which the server may still ask about.
pub fn attempt_dir(data: &Path, attempt: AttemptId) -> PathBuf {
    attempts_dir(data).join(attempt.to_string())
}

/// Where an attempt's output is, once it has written any.
pub fn log_dir(data: &Path, attempt: AttemptId) -> PathBuf {
    data.join("logs").join(attempt.task.job.to_string()).join(attempt.to_string())
}

/// Where the snapshots of everyone are.
pub fn snapshots_dir(data: &Path) -> PathBuf {
    data.join("snapshots")
}

/// Where jobs with a snapshot run, each in a directory of its number. Where tasks run as their users it is beside the
/// data, which only root may enter.
pub fn work_dir(data: &Path, as_their_users: bool) -> PathBuf {
    if !as_their_users {
        return data.join("work");
    }
    let mut beside = data.as_os_str().to_owned();
    beside.push("-work");
    beside.into()
}

/// Removes what jobs ran in that are no longer needed.
pub fn prune_work(work: &Path, needed: impl Fn(u64) -> bool) -> io::Result<()> {
    for path in list(work)? {
        let number = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
        match number {
            Some(job) if !needed(job) && path.is_dir() => fs::remove_dir_all(&path)?,
            Some(job) if !needed(job) => fs::remove_file(&path)?,
            _ => {}
        }
    }
    Ok(())
}

/// Lets go of an attempt whose end the server knows; what it wrote stays.
pub(super) fn retire(data: &Path, attempt: AttemptId) -> io::Result<()> {
    match fs::remove_dir_all(attempt_dir(data, attempt)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::{JobId, TaskId};

    #[test]
    fn output_goes_when_it_is_old_and_not_before() {
        let data = tempfile::tempdir().expect("a directory");
        let attempt = |job: u64| TaskId { job: JobId(job), node: 0, index: 0 }.attempt(1);
        let day = Duration::from_secs(24 * 3600);
        for (job, age) in [(1, 40 * day), (2, 20 * day)] {
            let dir = log_dir(data.path(), attempt(job));
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join("log"), "said").expect("written");
            let then = SystemTime::now() - age;
            fs::File::open(&dir).and_then(|d| d.set_modified(then)).expect("a directory can be made older");
        }
        assert_eq!(prune_logs(data.path(), 30 * day).expect("pruned"), 1);
        assert!(!data.path().join("logs/1").exists(), "nor is an empty directory left");
        assert!(log_dir(data.path(), attempt(2)).join("log").exists());
        assert_eq!(prune_logs(&data.path().join("nowhere"), day).expect("nothing there is fine"), 0);
    }
}
