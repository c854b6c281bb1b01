//! The table of runs of estimated models: what each was estimated to take, the bound it was admitted with, and what it was measured to
//! take. Only attempts on one device that succeeded count: one that ended early shows less than the model needs, and of several devices
//! only the sum is measured.

use rusqlite::{Connection, params};
use warpyard_core::event::{Disposition, End, Outcome};
use warpyard_core::pool::Placement;
use warpyard_core::{AttemptId, Cluster, TaskId, Time};

pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS model_run (job INTEGER, node INTEGER, position INTEGER, number INTEGER, user TEXT, model TEXT,
        kind TEXT, estimated INTEGER, bound INTEGER, placed INTEGER, ended INTEGER, measured INTEGER,
        PRIMARY KEY (job, node, position, number)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS model_run_by_model ON model_run (user, model, ended);
    CREATE INDEX IF NOT EXISTS model_run_by_end ON model_run (ended);";

/// The most runs of one model that are read.
const SAME_MODEL: u32 = 200;
/// The most recent runs among which one of each model is looked for.
const RECENT: u32 = 5_000;
/// The most recent runs that coverage is counted over.
const COVERED: u32 = 1_000;

/// A measured run of an estimated model. Sizes in bytes, the CUDA context included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRun {
    /// User it belonged to.
    pub user: String,
    /// Key of the model; see [`TaskSpec::model_key`](warpyard_core::spec::TaskSpec::model_key).
    pub model: String,
    /// Device type in lower case.
    pub kind: String,
    /// Memory it was estimated to take.
    pub estimated: u64,
    /// Memory it was measured to take at most.
    pub measured: u64,
}

/// Coverage of admission bounds: how many recent runs were measured, and how many of them stayed below their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundCoverage {
    /// Measured runs.
    pub measured: u64,
    /// Those below their bounds.
    pub covered: u64,
}

impl BoundCoverage {
    /// The reached share; none where nothing was measured.
    pub fn share(self) -> Option<f64> {
        (self.measured > 0).then(|| self.covered as f64 / self.measured as f64)
    }
}

/// Enters an attempt that was placed, if its model was estimated.
pub(super) fn enter_placed(
    db: &Connection,
    cluster: &Cluster,
    attempt: AttemptId,
    placement: &Placement,
    at: Time,
) -> rusqlite::Result<()> {
    let TaskId { job, node, index } = attempt.task;
    let Some(owner) = cluster.job(job) else { return Ok(()) };
    let spec = &owner.spec.tasks[node as usize];
    let estimate = spec.model.as_ref().and_then(|model| model.estimate.as_ref());
    let devices = cluster.worker(placement.worker).map(|worker| &worker.info.devices);
    let only = placement.devices.iter().next().filter(|_| placement.devices.len() == 1);
    let device = only.and_then(|(index, _)| devices?.get(*index as usize));
    let (Some(estimate), Some(model), Some(device)) = (estimate, spec.model_key(), device) else {
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO model_run (job, node, position, number, user, model, kind, estimated, bound, placed)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    db.prepare_cached(sql)?
        .execute(params![
            job.0 as i64,
            node,
            index,
            attempt.number,
            owner.user,
            model,
            device.kind.to_ascii_lowercase(),
            as_column(estimate.total()),
            as_column(estimate.bound),
            at.0 as i64
        ])
        .map(drop)
}

/// Enters what an attempt was measured to take, or removes it where that says nothing of the model.
pub(super) fn enter_ended(
    db: &Connection,
    attempt: AttemptId,
    end: &End,
    then: &Disposition,
    at: Time,
) -> rusqlite::Result<()> {
    let TaskId { job, node, index } = attempt.task;
    let which = (job.0 as i64, node, index, attempt.number);
    let succeeded = *then == Disposition::Done(Outcome::Succeeded);
    match end.usage.peak_gpu_memory.filter(|peak| *peak > 0 && succeeded) {
        Some(peak) => {
            let sql = "UPDATE model_run SET ended = ?5, measured = ?6
                       WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
            let row = params![which.0, which.1, which.2, which.3, at.0 as i64, as_column(peak)];
            db.prepare_cached(sql)?.execute(row).map(drop)
        }
        None => {
            let sql = "DELETE FROM model_run WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
            db.prepare_cached(sql)?.execute(params![which.0, which.1, which.2, which.3]).map(drop)
        }
    }
}

/// SQLite has signed numbers; a size that is none of them is as good as the largest.
fn as_column(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The latest measured runs of a user's model.
pub(super) fn of_model(db: &Connection, user: &str, model: &str) -> rusqlite::Result<Vec<ModelRun>> {
    let sql = "SELECT user, model, kind, estimated, measured FROM model_run
               WHERE user = ?1 AND model = ?2 AND ended IS NOT NULL ORDER BY ended DESC LIMIT ?3";
    db.prepare_cached(sql)?.query_map(params![user, model, SAME_MODEL], read)?.collect()
}

/// The latest measured run of each model on each device type, newest first.
pub(super) fn of_each_model(db: &Connection) -> rusqlite::Result<Vec<ModelRun>> {
    let sql = "SELECT user, model, kind, estimated, measured FROM (
                   SELECT *, row_number() OVER (PARTITION BY user, model, kind ORDER BY ended DESC) AS nth FROM (
                       SELECT * FROM model_run WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?1))
               WHERE nth = 1 ORDER BY ended DESC";
    db.prepare_cached(sql)?.query_map([RECENT], read)?.collect()
}

/// How many of the latest measured runs stayed below their bounds.
pub(super) fn coverage(db: &Connection) -> rusqlite::Result<BoundCoverage> {
    let sql = "SELECT count(*), coalesce(sum(measured <= bound), 0) FROM (
                   SELECT measured, bound FROM model_run WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?1)";
    db.prepare_cached(sql)?.query_row([COVERED], |r| {
        let count = |at: usize| Ok::<_, rusqlite::Error>(r.get::<_, i64>(at)? as u64);
        Ok(BoundCoverage { measured: count(0)?, covered: count(1)? })
    })
}

fn read(r: &rusqlite::Row<'_>) -> rusqlite::Result<ModelRun> {
    Ok(ModelRun {
        user: r.get(0)?,
        model: r.get(1)?,
        kind: r.get(2)?,
        estimated: r.get::<_, i64>(3)? as u64,
        measured: r.get::<_, i64>(4)? as u64,
    })
}
