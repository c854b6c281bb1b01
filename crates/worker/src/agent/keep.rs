//! Where attempts and their logs are on disk, and how long logs stay.
//!
//! `attempts/<log>-<key>` holds the records of an attempt the server may still ask about, `logs/<log>-<job>/<key>` what it
//! wrote, so that finding what runs never has to look through what ran. `<log>` is the short id of the log that numbered
//! the job; jobs numbered before logs had ids have paths without one.

use super::lineage::{Lineage, LogId, split_name};
use crate::tree_removal::{self, Removal, remove_flat};
use nix::fcntl::OFlag;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use warpyard_core::{AttemptId, JobId};

pub(super) fn attempts_dir(data: &Path) -> PathBuf {
    data.join("attempts")
}

/// Where records are on the disk that the file system in memory had no room for.
pub(super) fn overflow_dir(data: &Path) -> PathBuf {
    data.join("attempts-on-disk")
}

/// The paths of jobs and attempts in a data directory.
#[derive(Clone, Debug)]
pub struct Layout {
    data: PathBuf,
    lineage: Arc<Lineage>,
}

impl Layout {
    /// The paths in a data directory whose jobs were numbered by these logs.
    pub fn new(data: impl Into<PathBuf>, lineage: Lineage) -> Layout {
        Layout { data: data.into(), lineage: Arc::new(lineage) }
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The logs that numbered its jobs.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The log an attempt belongs to, which its record must name.
    pub(super) fn log_of(&self, attempt: AttemptId) -> Option<&LogId> {
        self.lineage.log_of(attempt.task.job)
    }

    /// The records of an attempt, which the server may still ask about.
    pub fn attempt_dir(&self, attempt: AttemptId) -> PathBuf {
        let name = self.lineage.name(attempt.task.job, attempt);
        let on_disk = overflow_dir(&self.data).join(&name);
        if on_disk.exists() { on_disk } else { attempts_dir(&self.data).join(name) }
    }

    /// An attempt's output, once it has written any.
    pub fn log_dir(&self, attempt: AttemptId) -> PathBuf {
        let job = attempt.task.job;
        self.data.join("logs").join(self.lineage.name(job, job)).join(attempt.to_string())
    }

    /// The copy of a snapshot that a job runs in.
    pub(super) fn copy_dir(&self, job: JobId, as_their_users: bool) -> PathBuf {
        work_dir(&self.data, as_their_users).join(self.lineage.name(job, job))
    }
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

/// Removes what jobs ran in, which belongs to their users; see [`crate::tree_removal`].
#[derive(Debug)]
pub struct WorkPruner {
    /// This program, which is also the helper.
    program: PathBuf,
    /// Directories that could not be removed, which people were told of.
    reported: BTreeSet<PathBuf>,
}

impl WorkPruner {
    /// A pruner whose helper is `program`.
    pub fn new(program: PathBuf) -> Self {
        Self { program, reported: BTreeSet::new() }
    }

    /// Removes directories of jobs that are no longer needed. What jobs of an earlier log ran in, which this one may not
    /// know of, stays until it is older than `before`. `true` if some of it is left for another run soon.
    pub fn prune(
        &mut self,
        work: &Path,
        log: Option<&LogId>,
        before: SystemTime,
        needed: impl Fn(u64) -> bool,
    ) -> io::Result<bool> {
        let entries = list(work)?;
        if entries.is_empty() {
            return Ok(false);
        }
        let parent = File::open(work)?;
        let mut more = false;
        // Owners of whose files some hang: each further helper of theirs would hang as long.
        let mut hung = BTreeSet::new();
        for path in entries {
            let (Some(name), Some(stem)) = (path.file_name(), path.file_stem().and_then(OsStr::to_str))
            else {
                continue;
            };
            let (of_log, job) = split_name(stem);
            if !job.parse().is_ok_and(|job| !needed(job)) {
                continue;
            }
            // Whatever someone does to what is theirs, all else is tidied: an error is about one entry.
            let found =
                match tree_removal::open_entry(&parent, name, OFlag::O_PATH).and_then(|e| e.metadata()) {
                    Ok(found) => found,
                    Err(e) => {
                        self.report(path, &e.to_string());
                        continue;
                    }
                };
            let due = of_log == log.map(LogId::short) || found.modified().is_ok_and(|at| at < before);
            if !due || hung.contains(&found.uid()) {
                continue;
            }
            let removed = match found.is_dir() {
                true => tree_removal::remove(&self.program, &parent, name),
                false => fs::remove_file(&path).map(|()| Removal::Complete),
            };
            match removed {
                Ok(Removal::Complete) => drop(self.reported.remove(&path)),
                Ok(Removal::Partial) => more = true,
                Ok(Removal::Stuck(why)) => self.report(path, &why),
                Ok(Removal::TimedOut) => {
                    hung.insert(found.uid());
                    self.report(path, "a file system in it does not answer");
                }
                Err(e) => self.report(path, &e.to_string()),
            }
        }
        Ok(more)
    }

    /// Tells once.
    fn report(&mut self, path: PathBuf, why: &str) {
        if !self.reported.contains(&path) {
            tracing::warn!("{} cannot be removed: {why}", path.display());
            self.reported.insert(path);
        }
    }
}

/// Removes the records of an attempt whose end the server knows; what it wrote stays.
pub(super) fn retire(dir: &Path) -> io::Result<()> {
    match remove_flat(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The most of a damaged record that is kept; a record is a few hundred bytes.
const DAMAGED_KEPT: u64 = 64 << 10;

/// Moves the damaged records of an attempt to `damaged` in the data directory, where nothing looks for attempts; gives
/// where they are. They may be on another file system, so they are copied, as far as they are files.
pub(super) fn quarantine(data: &Path, dir: &Path) -> io::Result<PathBuf> {
    let damaged = data.join("damaged");
    match fs::DirBuilder::new().mode(0o700).create(&damaged) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut aside = damaged.join(&*name);
    let mut again = 0;
    while let Err(e) = fs::DirBuilder::new().mode(0o700).create(&aside) {
        if e.kind() != io::ErrorKind::AlreadyExists {
            return Err(e);
        }
        again += 1;
        aside = damaged.join(format!("{name}.{again}"));
    }
    for path in list(dir)? {
        if let (Some(name), true) = (path.file_name(), fs::symlink_metadata(&path)?.is_file()) {
            let mut copy = fs::File::create_new(aside.join(name))?;
            io::copy(&mut fs::File::open(&path)?.take(DAMAGED_KEPT), &mut copy)?;
        }
    }
    retire(dir)?;
    Ok(aside)
}

/// Removes kept output older than this; gives how many attempts' output went. One that cannot be removed keeps none of the
/// others. `now` is the server's clock, not the machine's: a clock that jumps a year ahead must not cost anyone their
/// output.
pub fn prune_logs(data: &Path, older_than: Duration, now: SystemTime) -> io::Result<usize> {
    let Some(limit) = now.checked_sub(older_than) else { return Ok(0) };
    let (mut removed, mut failed) = (0, None);
    for job in list(&data.join("logs"))? {
        let mut left = 0;
        for attempt in list(&job)? {
            let old = fs::metadata(&attempt).and_then(|m| m.modified()).is_ok_and(|at| at < limit);
            match old.then(|| remove_flat(&attempt)) {
                Some(Ok(())) => removed += 1,
                None => left += 1,
                Some(Err(e)) => {
                    left += 1;
                    failed = failed.or(Some(e));
                }
            }
        }
        if left == 0 {
            fs::remove_dir(&job)?;
        }
    }
    failed.map_or(Ok(removed), Err)
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
    use warpyard_core::TaskId;

    #[test]
    fn output_goes_when_it_is_old_and_not_before() {
        let data = tempfile::tempdir().expect("a directory");
        let attempt = |job: u64| TaskId { job: JobId(job), node: 0, index: 0 }.attempt(1);
        let day = Duration::from_secs(24 * 3600);
        let layout = Layout::new(data.path(), Lineage::of_one(None));
        for (job, age) in [(1, 40 * day), (2, 20 * day)] {
            let dir = layout.log_dir(attempt(job));
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join("log"), "said").expect("written");
            let then = SystemTime::now() - age;
            fs::File::open(&dir).and_then(|d| d.set_modified(then)).expect("a directory can be made older");
        }
        assert_eq!(prune_logs(data.path(), 30 * day, SystemTime::now()).expect("pruned"), 1);
        assert!(!data.path().join("logs/1").exists(), "nor is an empty directory left");
        assert!(layout.log_dir(attempt(2)).join("log").exists());
        assert_eq!(
            prune_logs(&data.path().join("nowhere"), day, SystemTime::now()).expect("nothing there is fine"),
            0
        );
    }
}
