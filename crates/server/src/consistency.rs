//! Whether what is in a data directory belongs together: the log is the truth, and nothing there may know of jobs it does
//! not. Where something does, the log was lost, cut short or replaced by an older copy, and to go on would give the numbers
//! of jobs again that people know as theirs.

use crate::store::{HistoryError, HistoryStore, Log, LogError};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use warpyard_core::{Cluster, JobId};
use warpyard_worker::agent::{Layout, LogId, split_name, work_dir};

/// Why a log is not the one that the rest of its data directory was written with.
#[derive(Debug, thiserror::Error)]
pub enum ConsistencyError {
    /// The history has events that the log does not.
    #[error(
        "{} has events up to number {in_history}, but {} only {in_log}: the log was lost or replaced by an older copy; {}",
        history.display(), log.display(), remedy(*in_log)
    )]
    HistoryAhead {
        /// The tables.
        history: PathBuf,
        /// The last event in them.
        in_history: u64,
        /// The log.
        log: PathBuf,
        /// The last event in it.
        in_log: u64,
    },
    /// The history was made from another log.
    #[error(
        "{} was made from log {other}, and {} is another log; {}", history.display(), log.display(), remedy(*in_log)
    )]
    HistoryOfAnother {
        /// The tables.
        history: PathBuf,
        /// The log they were made from.
        other: LogId,
        /// The log.
        log: PathBuf,
        /// The last event in it.
        in_log: u64,
    },
    /// Files of a job are there that the log does not know.
    #[error(
        "{} belongs to a job that {} does not know: the log was lost or replaced by an older copy; {}",
        path.display(), log.display(), remedy(*in_log)
    )]
    UnknownJob {
        /// A directory of the job.
        path: PathBuf,
        /// The log.
        log: PathBuf,
        /// The last event in it.
        in_log: u64,
    },
    /// The history cannot be read.
    #[error("the history cannot be read")]
    History(#[from] HistoryError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The data directory cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The command that makes the data directory consistent again.
fn remedy(in_log: u64) -> &'static str {
    if in_log == 0 {
        "put log.db back, restore a backup with `warpyard admin restore BACKUP`, or begin a new log with `warpyard admin new-log`"
    } else {
        "put the newest log.db back, restore a backup with `warpyard admin restore BACKUP`, or go on with the log that is \
         there with `warpyard admin adopt-log`"
    }
}

/// Refuses a log that something else in its data directory is ahead of, or that is another than it was written with.
pub(crate) fn check(
    log: &Log,
    cluster: &Cluster,
    history: &dyn HistoryStore,
    layout: &Layout,
) -> Result<(), ConsistencyError> {
    let (path, in_log) = (log.path().to_owned(), log.seq());
    let known = |id: &&LogId| layout.lineage().contains(id);
    let origin = history.origin()?.and_then(|lineage| lineage.current().log.clone());
    if let Some(other) = origin.filter(|id| !known(&id)) {
        return Err(ConsistencyError::HistoryOfAnother {
            history: history.path().into(),
            other,
            log: path,
            in_log,
        });
    }
    if history.seq() > in_log {
        let (in_history, history) = (history.seq(), history.path().into());
        return Err(ConsistencyError::HistoryAhead { history, in_history, log: path, in_log });
    }
    let dismissed: BTreeSet<String> = log.dismissed()?.into_iter().collect();
    for found in job_files(layout.data())? {
        let numbered_by = layout.lineage().log_of(found.job).map(LogId::short);
        let ours = found.log.as_deref() == numbered_by && found.job < cluster.next_job();
        if !ours && !dismissed.contains(found.log.as_deref().unwrap_or_default()) {
            return Err(ConsistencyError::UnknownJob { path: found.path, log: path, in_log });
        }
    }
    Ok(())
}

/// A directory of a job in a data directory.
pub(crate) struct JobFiles {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The short id of the log that numbered the job.
    pub(crate) log: Option<String>,
    /// The job.
    pub(crate) job: JobId,
}

/// Every directory of a job: records of its attempts, their output, and what it ran in.
pub(crate) fn job_files(data: &Path) -> Result<Vec<JobFiles>, ConsistencyError> {
    let places = [data.join("attempts"), data.join("logs"), work_dir(data, false), work_dir(data, true)];
    let mut found = Vec::new();
    for place in places {
        let failed = |source| ConsistencyError::Io { path: place.clone(), source };
        let entries = match fs::read_dir(&place) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let (log, of) = split_name(name);
            let Ok(job) = of.split('.').next().unwrap_or_default().parse() else { continue };
            found.push(JobFiles { log: log.map(str::to_owned), job: JobId(job), path });
        }
    }
    Ok(found)
}
