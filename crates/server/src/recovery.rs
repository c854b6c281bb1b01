//! Getting a data directory going again whose log was lost, cut short or replaced by an older copy.
//!
//! Either way the log goes on under a new id, and job numbers above every number seen in the data directory. So no new job
//! has a number or a path that a lost one had: it cannot adopt, show or overwrite anything of it.

use crate::clock::Clock;
use crate::consistency::{self, ConsistencyError, job_files};
use crate::data::{DataDir, DataError};
use crate::store::{HistoryError, HistoryStore, Log, LogError, SqliteHistory, set_aside};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use warpyard_core::event::EventKind;
use warpyard_core::{Cluster, Event, JobId, LogStore, Store};
use warpyard_policies::default_policy;
use warpyard_worker::agent::{Generation, Layout, Lineage, LogId};
use warpyard_worker::supervise::{RecordedAttempt, scan};

/// What was done to a data directory.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
    /// The data directory.
    pub data: PathBuf,
    /// The id of the log from now on.
    pub log: LogId,
    /// The number of the next job.
    pub next_job: u64,
    /// How many jobs the log has that are not over.
    pub unfinished: u64,
    /// Those of them that were held, because they may have run since the log's last entry.
    pub held: Vec<u64>,
    /// Files that were renamed, as they are called now.
    pub set_aside: Vec<PathBuf>,
    /// Records of attempts that still run and that the log does not know: they are ended when the server starts.
    pub to_be_ended: Vec<PathBuf>,
}

/// Why a data directory could not be got going again.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// There is nothing to repair.
    #[error("{} is in order; nothing was changed", path.display())]
    InOrder {
        /// The log.
        path: PathBuf,
    },
    /// There is no log.
    #[error("{} has no log; name the server's data directory with --data", path.display())]
    NoLog {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The log, or what is derived from it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What else is there.
    #[error(transparent)]
    Consistency(#[from] ConsistencyError),
    /// The history.
    #[error("the history cannot be used")]
    History(#[from] HistoryError),
    /// A file.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RecoveryError + use<> {
    let path = path.to_owned();
    move |source| RecoveryError::Io { path, source }
}

/// Begins a new log in a data directory whose log was lost or is damaged. The old log, if there is one, is renamed; the
/// history stays, and with it the output of the jobs in it.
pub fn new_log(data: &Path) -> Result<RecoveryReport, RecoveryError> {
    let data = DataDir::take(data)?;
    let (log_path, history_path) = (data.path().join("log.db"), data.path().join("history.db"));
    let mut set_asides = Vec::new();
    let mut lineage = None;
    let mut next_job = JobId(1);
    // A log that can be opened says at least which logs there were.
    if let Ok(mut log) = Log::open(&log_path) {
        lineage = log.lineage().cloned();
        if let Ok(loaded) = log.load(&default_policy()) {
            next_job = loaded.cluster.next_job();
            let history = SqliteHistory::open(&history_path);
            let layout = Layout::new(data.path(), log.lineage().expect("it was loaded").clone());
            let in_order =
                |history: &SqliteHistory| consistency::check(&log, &loaded.cluster, history, &layout).is_ok();
            if history.is_ok_and(|history| in_order(&history)) {
                return Err(RecoveryError::InOrder { path: log_path });
            }
        }
    }
    set_asides.push(set_aside(&log_path, "lost").map_err(failed(&log_path))?);
    let (mut history, damaged) = SqliteHistory::open_or_set_aside(&history_path)?;
    set_asides.extend(damaged.map(|_| history_path.clone()));
    let lineage = match history.origin()?.or(lineage) {
        Some(lineage) => lineage.generations().to_vec(),
        None => vec![Generation { log: None, first_job: JobId(1) }],
    };
    let next_job =
        highest_job(data.path(), &history)?.map_or(next_job, |highest| next_job.max(JobId(highest.0 + 1)));
    let mut log = Log::open(&log_path)?;
    log.load(&default_policy())?;
    let drawn = log.lineage().and_then(|lineage| lineage.current().log.clone()).expect("it was loaded");
    let mut lineage = Lineage::from_generations(lineage).expect("it was one");
    lineage.continue_with(drawn, next_job.max(lineage.current().first_job));
    log.set_lineage(lineage.clone())?;
    let at = Clock::system().now();
    let epoch = log.claim()?;
    log.append(epoch, 0, &[Event { at, what: EventKind::NumbersSkipped { next: next_job } }])?;
    history.continue_with(&lineage, at)?;
    let cluster = log.load(&default_policy())?.cluster;
    finish(data.path(), &log, &cluster, vec![], set_asides)
}

/// Continues with the log in a data directory although other files there know of later events. Its unfinished jobs are
/// held: they may have run since, and an operator who knows that they have not releases them.
pub fn adopt_log(data: &Path) -> Result<RecoveryReport, RecoveryError> {
    let data = DataDir::take(data)?;
    let (log_path, history_path) = (data.path().join("log.db"), data.path().join("history.db"));
    let mut log = Log::open(&log_path)?;
    let mut cluster = log.load(&default_policy())?.cluster;
    if log.seq() == 0 {
        return Err(RecoveryError::NoLog { path: data.path().into() });
    }
    let layout = Layout::new(data.path(), log.lineage().expect("it was loaded").clone());
    let (history, damaged) = SqliteHistory::open_or_set_aside(&history_path)?;
    let mut set_asides: Vec<_> = damaged.map(|_| history_path.clone()).into_iter().collect();
    let highest = highest_job(data.path(), &history)?;
    match consistency::check(&log, &cluster, &history, &layout) {
        Ok(()) => return Err(RecoveryError::InOrder { path: log_path }),
        Err(ConsistencyError::HistoryAhead { .. } | ConsistencyError::HistoryOfAnother { .. }) => {
            drop(history);
            // It is made again from the log when the server starts.
            set_asides.push(set_aside(&history_path, "ahead").map_err(failed(&history_path))?);
        }
        Err(ConsistencyError::UnknownJob { .. }) => drop(history),
        Err(e) => return Err(e.into()),
    }
    let held = resume_log(&mut log, &mut cluster, highest, true)?;
    finish(data.path(), &log, &cluster, held, set_asides)
}

/// Has a log go on under a new id, with job numbers above the highest one seen; holds its unfinished jobs if asked to, and
/// gives those.
pub(crate) fn resume_log(
    log: &mut Log,
    cluster: &mut Cluster,
    highest: Option<JobId>,
    hold: bool,
) -> Result<Vec<JobId>, RecoveryError> {
    let at = Clock::continuing(log.last_at()?).now();
    let next = highest.map_or(cluster.next_job(), |highest| cluster.next_job().max(JobId(highest.0 + 1)));
    let may_start = cluster.jobs().iter().filter(|job| hold && job.finished.is_none() && !job.held);
    let held: Vec<_> = may_start.map(|job| job.id).collect();
    let mut events = vec![Event { at, what: EventKind::NumbersSkipped { next } }];
    events.extend(held.iter().map(|&job| Event { at, what: EventKind::JobHeld { job, held: true } }));
    let epoch = log.claim()?;
    log.append(epoch, cluster.seq(), &events)?;
    events.iter().for_each(|event| drop(cluster.apply(event)));
    let no_id = |source| LogError::NoId { path: log.path().into(), source };
    let id = LogId::random().map_err(no_id)?;
    let mut lineage = log.lineage().expect("it was loaded").clone();
    lineage.continue_with(id, next);
    log.set_lineage(lineage)?;
    Ok(held)
}

/// Lets files stay that are not the log's, and says what there is.
pub(crate) fn finish(
    data: &Path,
    log: &Log,
    cluster: &Cluster,
    held: Vec<JobId>,
    set_aside: Vec<PathBuf>,
) -> Result<RecoveryReport, RecoveryError> {
    let lineage = log.lineage().expect("it was loaded").clone();
    let layout = Layout::new(data, lineage);
    let current = layout.lineage().current().log.clone().expect("a new log has an id");
    for found in job_files(data)? {
        let numbered_by = layout.lineage().log_of(found.job).map(LogId::short);
        if found.log.as_deref() != numbered_by {
            log.dismiss(found.log.as_deref().unwrap_or_default())?;
        }
    }
    let records = data.join("attempts");
    let attempts = if records.exists() { scan(&records).unwrap_or_default() } else { vec![] };
    let known = |path: &Path| {
        cluster.workers().any(|(worker, _)| {
            cluster.desired(worker).any(|desired| layout.attempt_dir(desired.attempt) == path)
        })
    };
    let runs = attempts.into_iter().filter(|(_, found)| matches!(found, Ok(RecordedAttempt::Supervised(..))));
    let to_be_ended = runs.map(|(dir, _)| dir.path().to_owned()).filter(|path| !known(path)).collect();
    Ok(RecoveryReport {
        data: data.to_owned(),
        log: current,
        next_job: cluster.next_job().0,
        unfinished: cluster.jobs().iter().filter(|job| job.finished.is_none()).count() as u64,
        held: held.into_iter().map(|job| job.0).collect(),
        set_aside,
        to_be_ended,
    })
}

/// The highest number of a job that anything in a data directory, but its log, knows of.
pub(crate) fn highest_job(data: &Path, history: &dyn HistoryStore) -> Result<Option<JobId>, RecoveryError> {
    let on_disk = job_files(data)?.into_iter().map(|found| found.job).max();
    Ok(on_disk.max(history.highest_job()?))
}
