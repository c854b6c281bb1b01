//! The history store in SQLite: the derived tables in a file of their own, so that writing them never holds up the log.
//!
//! The file remembers the number of the last event in it and catches up from the log when it is behind. Rows about events
//! the log has pruned stay.

mod damaged;
mod entry;
mod model_runs;
mod rows;
mod samples;
mod tables;

#[cfg(test)]
mod tests;

pub(crate) use damaged::set_aside;
pub(crate) use entry::IDLE;
pub use model_runs::{BoundCoverage, ModelRun};
pub use rows::{AttemptRow, JobRow};
pub use samples::{DeviceSample, Sample, WorkerSample};
pub(crate) use samples::{STEPS, distance};

use super::history_store::{HistoryError, HistoryStore};
use super::log::{LogError, name, schema};
use entry::enter_event;
use rows::{kinds, read_attempt, read_job, written};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use warpyard_core::event::{EventKind, Outcome};
use warpyard_core::{Cluster, Event, JobId, Span, TaskId, Time};
use warpyard_worker::agent::Lineage;

/// The derived tables in SQLite.
pub struct SqliteHistory {
    path: PathBuf,
    db: Connection,
    seq: u64,
    lacks_needs: bool,
}

impl SqliteHistory {
    /// Opens the tables, making them if there are none.
    pub fn open(path: &Path) -> Result<SqliteHistory, LogError> {
        let named = |source| name(path, source);
        let mut db = Connection::open(path).map_err(named)?;
        let found = schema(&db, path, tables::SCHEMA)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
        // Derived: what a crash loses is made again from the log.
        db.pragma_update(None, "synchronous", "OFF").map_err(named)?;
        let lacks_needs = tables::prepare(&mut db, found).map_err(named)?;
        let seq = "SELECT coalesce((SELECT value FROM meta WHERE key = 'seq'), 0)";
        let seq: i64 = db.query_row(seq, [], |r| r.get(0)).map_err(named)?;
        Ok(SqliteHistory { path: path.to_owned(), db, seq: seq as u64, lacks_needs })
    }

    /// Opens tables that are there already, to read only.
    pub(crate) fn open_to_read(path: &Path) -> Result<SqliteHistory, LogError> {
        let named = |source| name(path, source);
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(named)?;
        // Closing the last connection would remove the log of writes by its name, which another file may have by then.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(named)?;
        Ok(SqliteHistory { path: path.to_owned(), db, seq: 0, lacks_needs: false })
    }

    /// The number of the last event in tables that are only read.
    pub(crate) fn last_event(path: &Path) -> Result<u64, LogError> {
        let named = |source| name(path, source);
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(named)?;
        let sql = "SELECT coalesce((SELECT value FROM meta WHERE key = 'seq'), 0)";
        db.query_row(sql, [], |r| Ok(r.get::<_, i64>(0)? as u64)).map_err(named)
    }
}

impl HistoryStore for SqliteHistory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn origin(&self) -> Result<Option<Lineage>, HistoryError> {
        let text =
            self.db.query_row("SELECT lineage FROM origin", [], |r| r.get::<_, String>(0)).optional()?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn set_origin(&mut self, lineage: &Lineage) -> Result<(), HistoryError> {
        let text = serde_json::to_string(lineage).expect("a lineage is always JSON");
        let transaction = self.db.transaction()?;
        transaction.execute("DELETE FROM origin", [])?;
        transaction.execute("INSERT INTO origin (lineage) VALUES (?1)", [text])?;
        Ok(transaction.commit()?)
    }

    fn continue_with(&mut self, lineage: &Lineage, at: Time) -> Result<(), HistoryError> {
        let transaction = self.db.transaction()?;
        let lost = (at.0 as i64, Outcome::Lost.word());
        transaction.execute("UPDATE job SET finished = ?1, outcome = ?2 WHERE finished IS NULL", lost)?;
        let why = "the log was lost while it was under way";
        transaction.execute(
            "UPDATE attempt SET ended = ?1, outcome = ?2, detail = ?3 WHERE ended IS NULL",
            params![lost.0, lost.1, why],
        )?;
        note_seq(&transaction, 0)?;
        transaction.commit()?;
        self.seq = 0;
        self.set_origin(lineage)
    }

    fn highest_job(&self) -> Result<Option<JobId>, HistoryError> {
        let sql = "SELECT max(n) FROM (SELECT max(id) AS n FROM job UNION SELECT max(job) FROM attempt)";
        let highest: Option<i64> = self.db.query_row(sql, [], |r| r.get(0))?;
        Ok(highest.map(|job| JobId(job as u64)))
    }

    fn lacks_needs(&self) -> bool {
        self.lacks_needs
    }

    fn enter_needs(&mut self, events: &[Event]) -> Result<(), HistoryError> {
        let transaction = self.db.transaction()?;
        for event in events {
            if let EventKind::JobSubmitted { job, spec, .. } = &event.what {
                transaction
                    .prepare_cached("UPDATE job SET needs = ?2 WHERE id = ?1")?
                    .execute(params![job.0 as i64, written(&kinds(spec))])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn needs_are_entered(&mut self) -> Result<(), HistoryError> {
        tables::are_complete(&self.db)?;
        self.lacks_needs = false;
        Ok(())
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn clear(&mut self, cluster: &Cluster, first_seq: u64, first_at: Time) -> Result<(), HistoryError> {
        let transaction = self.db.transaction()?;
        for job in cluster.jobs().iter() {
            let which = params![job.id.0 as i64, first_at.0 as i64];
            transaction
                .prepare_cached("DELETE FROM attempt WHERE job = ?1 AND placed >= ?2")?
                .execute(which)?;
            transaction
                .prepare_cached("DELETE FROM model_run WHERE job = ?1 AND placed >= ?2")?
                .execute(which)?;
            transaction
                .prepare_cached("DELETE FROM job WHERE id = ?1 AND submitted >= ?2")?
                .execute(which)?;
        }
        let before = first_seq.saturating_sub(1);
        note_seq(&transaction, before)?;
        transaction.commit()?;
        self.seq = before;
        Ok(())
    }

    fn enter(&mut self, cluster: &Cluster, events: &[Event], last: u64) -> Result<(), HistoryError> {
        let transaction = self.db.transaction()?;
        for event in events {
            enter_event(&transaction, cluster, event)?;
        }
        note_seq(&transaction, last)?;
        transaction.commit()?;
        self.seq = last;
        Ok(())
    }

    fn attempts_of(&self, job: JobId, task: Option<TaskId>) -> Result<Vec<AttemptRow>, HistoryError> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 AND (?2 IS NULL OR (node = ?2 AND position = ?3))
                   ORDER BY node, position, number LIMIT 100000";
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query
            .query_map(params![job.0 as i64, task.map(|t| t.node), task.map(|t| t.index)], read_attempt)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn latest(
        &self,
        user: Option<&str>,
        job: Option<JobId>,
        ended: RangeInclusive<Time>,
        skip: u32,
        most: u32,
    ) -> Result<Vec<AttemptRow>, HistoryError> {
        let sql = "SELECT * FROM attempt WHERE ended >= ?1 AND ended <= ?2 AND (?3 IS NULL OR user = ?3)
                   AND (?4 IS NULL OR job = ?4)
                   ORDER BY ended DESC, job DESC, node DESC, position DESC, number DESC LIMIT ?5 OFFSET ?6";
        let mut query = self.db.prepare_cached(sql)?;
        let job = job.map(|j| j.0 as i64);
        let (since, until) = (ended.start().0 as i64, ended.end().0 as i64);
        Ok(query
            .query_map(params![since, until, user, job, most, skip], read_attempt)?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn attempts_from(&self, job: JobId, skip: u32, most: u32) -> Result<Vec<AttemptRow>, HistoryError> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 ORDER BY node, position, number LIMIT ?2 OFFSET ?3";
        let mut query = self.db.prepare_cached(sql)?;
        Ok(query
            .query_map(params![job.0 as i64, most, skip], read_attempt)?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn run_times(&self, user: &str, job_name: &str, task_name: &str) -> Result<Vec<Span>, HistoryError> {
        let sql = "SELECT ran FROM attempt WHERE user = ?1 AND job_name = ?2 AND task_name = ?3
                   AND outcome IN ('succeeded', 'failed', 'timed-out') AND started IS NOT NULL
                   ORDER BY ended DESC LIMIT 100";
        let mut query = self.db.prepare_cached(sql)?;
        Ok(query
            .query_map(params![user, job_name, task_name], |r| Ok(Span(r.get::<_, i64>(0)? as u64)))?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn latest_runs(&self) -> Result<Vec<(String, usize, Span)>, HistoryError> {
        let sql = "SELECT user, devices, ran FROM attempt WHERE ended IS NOT NULL
                   AND outcome IN ('succeeded', 'failed', 'timed-out') AND started IS NOT NULL
                   ORDER BY ended DESC LIMIT 1000";
        let mut query = self.db.prepare_cached(sql)?;
        let run = |r: &Row<'_>| {
            let devices: String = r.get(1)?;
            let gpus = devices.split(',').filter(|device| !device.is_empty()).count();
            Ok((r.get(0)?, gpus, Span(r.get::<_, i64>(2)? as u64)))
        };
        Ok(query.query_map([], run)?.collect::<rusqlite::Result<_>>()?)
    }

    fn runs_of_model(&self, user: &str, model: &str) -> Result<Vec<ModelRun>, HistoryError> {
        Ok(model_runs::of_model(&self.db, user, model)?)
    }

    fn runs_of_each_model(&self) -> Result<Vec<ModelRun>, HistoryError> {
        Ok(model_runs::of_each_model(&self.db)?)
    }

    fn bound_coverage(&self) -> Result<BoundCoverage, HistoryError> {
        Ok(model_runs::coverage(&self.db)?)
    }

    fn promises_kept(&self) -> Result<Vec<f64>, HistoryError> {
        let sql = "SELECT avg(min(1.0, ran * 1.0 / timeout)) FROM (
                       SELECT user, job_name, task_name, ran, timeout, ended FROM attempt
                       WHERE outcome IN ('succeeded', 'timed-out') AND timeout > 0 ORDER BY ended DESC LIMIT 1000)
                   GROUP BY user, job_name, task_name ORDER BY max(ended) DESC LIMIT 200";
        let mut query = self.db.prepare_cached(sql)?;
        Ok(query.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
    }

    fn failures(&self, job: JobId, task: Option<TaskId>) -> Result<Vec<(u64, AttemptRow)>, HistoryError> {
        // With `min`, SQLite takes the other columns from the row that has it.
        let sql = "SELECT *, count(*) AS alike, min(node * 4294967296 + position) FROM attempt AS a WHERE job = ?1
                   AND (?2 IS NULL OR (node = ?2 AND position = ?3)) AND outcome NOT IN ('succeeded', 'requeued')
                   AND NOT EXISTS (SELECT 1 FROM attempt AS b WHERE b.job = a.job AND b.node = a.node
                                   AND b.position = a.position AND b.number = a.number + 1)
                   GROUP BY outcome, exit_code, signal, reason, detail ORDER BY alike DESC LIMIT 100";
        let mut query = self.db.prepare_cached(sql)?;
        let group = |r: &Row<'_>| Ok((r.get::<_, i64>("alike")? as u64, read_attempt(r)?));
        Ok(query
            .query_map(params![job.0 as i64, task.map(|t| t.node), task.map(|t| t.index)], group)?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn first_start(&self, job: JobId) -> Result<Option<Time>, HistoryError> {
        let mut query = self.db.prepare_cached("SELECT started FROM job WHERE id = ?1")?;
        let first = query.query_row([job.0 as i64], |r| r.get::<_, Option<i64>>(0)).optional()?;
        Ok(first.flatten().map(|t| Time(t as u64)))
    }

    fn attempts_lately(&self, job: JobId, most: u32) -> Result<Vec<AttemptRow>, HistoryError> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 ORDER BY ended IS NOT NULL, ended DESC LIMIT ?2";
        let mut query = self.db.prepare_cached(sql)?;
        Ok(query.query_map(params![job.0 as i64, most], read_attempt)?.collect::<rusqlite::Result<_>>()?)
    }

    fn gpu_seconds_of(&self, job: JobId) -> Result<f64, HistoryError> {
        // Devices are written as "0,3,4".
        let sql = "SELECT total(ran * (1 + length(devices) - length(replace(devices, ',', '')))) FROM attempt
                   WHERE job = ?1 AND devices <> '' AND ended IS NOT NULL";
        let micros: f64 = self.db.prepare_cached(sql)?.query_row([job.0 as i64], |r| r.get(0))?;
        Ok(micros / 1e6)
    }

    fn last_failure(&self, job: JobId) -> Result<Option<AttemptRow>, HistoryError> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 AND outcome NOT IN ('succeeded', 'requeued')
                   ORDER BY ended DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row([job.0 as i64], read_attempt).optional()?)
    }

    fn finished(
        &self,
        user: Option<&str>,
        outcome: &str,
        text: &str,
        (by, down): (&str, bool),
        skip: usize,
        most: usize,
    ) -> Result<Vec<JobRow>, HistoryError> {
        let sql = finished_in_order(by, down);
        let mut query = self.db.prepare_cached(&sql)?;
        Ok(query
            .query_map(params![user, text, skip as i64, most as i64, outcome], read_job)?
            .collect::<rusqlite::Result<_>>()?)
    }

    fn users(&self) -> Result<Vec<String>, HistoryError> {
        // Steps through the index from one user to the next: DISTINCT would go through every job.
        let sql = "WITH RECURSIVE found (user) AS (
                       SELECT min(user) FROM job
                       UNION ALL
                       SELECT (SELECT min(user) FROM job WHERE user > found.user) FROM found WHERE found.user IS NOT NULL)
                   SELECT user FROM found WHERE user IS NOT NULL LIMIT 200";
        let mut query = self.db.prepare_cached(sql)?;
        Ok(query.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?)
    }

    fn keep_sample(&self, at: Time, sample: &Sample) -> Result<(), HistoryError> {
        Ok(samples::keep(&self.db, at, sample)?)
    }

    fn samples(&self, now: Time, seconds: u64, most: usize) -> Result<Vec<(Time, Sample)>, HistoryError> {
        Ok(samples::last(&self.db, now, seconds, most)?)
    }

    fn checkpoint(&self) -> Result<(), HistoryError> {
        Ok(self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn rows(&self) -> Result<u64, HistoryError> {
        Ok(self.db.query_row("SELECT count(*) FROM attempt", [], |r| Ok(r.get::<_, i64>(0)? as u64))?)
    }

    fn job(&self, job: JobId) -> Result<Option<JobRow>, HistoryError> {
        Ok(self.db.query_row("SELECT * FROM job WHERE id = ?1", [job.0 as i64], read_job).optional()?)
    }

    fn open_reader(&self) -> Result<Box<dyn HistoryStore>, LogError> {
        Ok(Box::new(SqliteHistory::open_to_read(&self.path)?))
    }

    fn replace_damaged(&mut self, damage: &HistoryError) -> Result<String, LogError> {
        let path = self.path.clone();
        // Closed first: SQLite removes what belongs to a file by its name, which is another file's from then on.
        self.db = Connection::open_in_memory().map_err(|source| name(&path, source))?;
        let repair = SqliteHistory::set_aside(&path, &damage.to_string())
            .map_err(|source| LogError::SetAside { path: path.clone(), source })?;
        *self = SqliteHistory::open(&path)?;
        Ok(repair)
    }
}

/// Asks for jobs that are over, sorted by a column if it is one.
fn finished_in_order(by: &str, down: bool) -> String {
    // The index is named, for with this many conditions SQLite would rather sort everything.
    let (column, index) = match by {
        "outcome" | "name" | "user" | "project" | "priority" | "tasks" | "submitted" => (by, ""),
        "waited" => ("started - submitted", "INDEXED BY job_by_wait"),
        "ran" => ("finished - started", "INDEXED BY job_by_run"),
        "ended" => ("finished", "INDEXED BY job_by_end"),
        _ => ("", "INDEXED BY job_by_end"),
    };
    // What never began neither waited least nor most.
    let order = match (column, down) {
        ("", _) => String::new(),
        (column, false) => format!("{column} NULLS LAST, "),
        (column, true) => format!("{column} DESC NULLS LAST, "),
    };
    format!(
        "SELECT * FROM job {index}
         WHERE finished IS NOT NULL AND (?1 IS NULL OR user = ?1) AND (?5 = '' OR outcome = ?5)
         AND (?2 = '' OR instr(lower(name), lower(?2)) > 0 OR CAST(id AS TEXT) = ?2)
         ORDER BY {order}finished DESC, id DESC LIMIT ?4 OFFSET ?3"
    )
}

fn note_seq(db: &Connection, seq: u64) -> rusqlite::Result<usize> {
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('seq', ?1)", [seq as i64])
}
