//! Tables derived from the log, for search and for what memory no longer holds: every attempt there was, and every job.
//!
//! They live in a file of their own, so that writing them never holds up the log. The file remembers the number of the
//! last event in it and catches up from the log when it is behind. Rows about events the log has pruned stay.

mod damaged;
mod tables;

#[cfg(test)]
mod tests;

pub(crate) use damaged::{is_damage, set_aside};

use super::log::{LogError, name, schema};
use crate::outcome_text;
use crate::usage_samples::{self, Sample};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::FailureReason;
use warpyard_core::event::{Disposition, EndReason, EventKind, Outcome, StopReason};
use warpyard_core::spec::{JobSpec, Needs};
use warpyard_core::{AttemptId, Cluster, Event, JobId, NodeId, Span, TaskId, Time};
use warpyard_worker::agent::Lineage;

/// The derived tables.
pub struct History {
    path: PathBuf,
    db: Connection,
    seq: u64,
    lacks_needs: bool,
}

/// An attempt as the tables have it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    /// Which.
    pub attempt: AttemptId,
    /// Its job's and task's names, its user.
    pub job_name: String,
    /// The task's name.
    pub task_name: String,
    /// The value of its place in the array.
    pub array_index: Option<u32>,
    /// Whose it was.
    pub user: String,
    /// The worker's name.
    pub worker: String,
    /// The devices, by number on the worker.
    pub devices: Vec<u16>,
    /// When it was placed.
    pub placed: Time,
    /// When its process began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How, in a word: an outcome, or `again` where it was tried again.
    pub outcome: Option<String>,
    /// The exit code, where there was one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// What the task promised to run at most.
    pub timeout: Option<Span>,
    /// What went wrong, in words.
    pub detail: Option<String>,
    /// What went wrong, for programs.
    pub reason: Option<FailureReason>,
    /// Running time.
    pub ran: Span,
    /// Processor time.
    pub cpu: Span,
    /// The most main memory at once.
    pub peak_rss: Option<u64>,
    /// The most device memory at once.
    pub peak_gpu_memory: Option<u64>,
}

impl AttemptRow {
    /// Device time: running time on each device.
    pub fn gpu_seconds(&self) -> f64 {
        self.ran.secs() * self.devices.len() as f64
    }
}

/// A job that ended, as the tables have it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Whose it was.
    pub user: String,
    /// When it was submitted.
    pub submitted: Time,
    /// When it ended.
    pub finished: Option<Time>,
    /// How.
    pub outcome: Option<String>,
    /// How many tasks it had.
    pub tasks: u64,
    /// Its priority when it was submitted.
    pub priority: i64,
    /// Whom it was for, beside the user.
    pub project: Option<String>,
    /// When its first attempt began.
    pub started: Option<Time>,
    /// What its tasks asked for: the first kinds of it, the first with a GPU among them. None where it was submitted
    /// to an older program and the log no longer says.
    pub needs: Vec<Needs>,
}

/// How many kinds of needs a job is remembered by.
const KINDS: usize = 3;

impl History {
    /// Opens the tables, making them if there are none.
    pub fn open(path: &Path) -> Result<History, LogError> {
        let named = |source| name(path, source);
        let mut db = Connection::open(path).map_err(named)?;
        let found = schema(&db, path, tables::SCHEMA)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
        // Derived: what a crash loses is made again from the log.
        db.pragma_update(None, "synchronous", "OFF").map_err(named)?;
        let lacks_needs = tables::prepare(&mut db, found).map_err(named)?;
        let seq = "SELECT coalesce((SELECT value FROM meta WHERE key = 'seq'), 0)";
        let seq: i64 = db.query_row(seq, [], |r| r.get(0)).map_err(named)?;
        Ok(History { path: path.to_owned(), db, seq: seq as u64, lacks_needs })
    }

    /// Opens tables that are there already, to read only.
    pub(crate) fn open_to_read(path: &Path) -> Result<History, LogError> {
        let named = |source| name(path, source);
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(named)?;
        // Closing the last connection would remove the log of writes by its name, which another file may have by then.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(named)?;
        Ok(History { path: path.to_owned(), db, seq: 0, lacks_needs: false })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last event in tables that are only read.
    pub(crate) fn last_event(path: &Path) -> Result<u64, LogError> {
        let named = |source| name(path, source);
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(named)?;
        let sql = "SELECT coalesce((SELECT value FROM meta WHERE key = 'seq'), 0)";
        db.query_row(sql, [], |r| Ok(r.get::<_, i64>(0)? as u64)).map_err(named)
    }

    /// The logs whose events are in the tables, as far as that was noted: tables of older programs do not say.
    pub fn origin(&self) -> rusqlite::Result<Option<Lineage>> {
        let text =
            self.db.query_row("SELECT lineage FROM origin", [], |r| r.get::<_, String>(0)).optional()?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Notes which logs the events in the tables are from.
    pub fn set_origin(&mut self, lineage: &Lineage) -> rusqlite::Result<()> {
        let text = serde_json::to_string(lineage).expect("a lineage is always JSON");
        let transaction = self.db.transaction()?;
        transaction.execute("DELETE FROM origin", [])?;
        transaction.execute("INSERT INTO origin (lineage) VALUES (?1)", [text])?;
        transaction.commit()
    }

    /// Has the tables go on with a new log, whose events are yet to come: what the lost one left unfinished is lost.
    pub fn go_on_with(&mut self, lineage: &Lineage, at: Time) -> rusqlite::Result<()> {
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

    /// The highest job number in the tables.
    pub fn highest_job(&self) -> rusqlite::Result<Option<JobId>> {
        let sql = "SELECT max(n) FROM (SELECT max(id) AS n FROM job UNION SELECT max(job) FROM attempt)";
        let highest: Option<i64> = self.db.query_row(sql, [], |r| r.get(0))?;
        Ok(highest.map(|job| JobId(job as u64)))
    }

    /// Whether an older program made the tables, which did not keep what jobs asked for, and that was not entered since.
    pub(crate) fn lacks_needs(&self) -> bool {
        self.lacks_needs
    }

    /// Enters what jobs asked for that were submitted by these events.
    pub(crate) fn enter_needs(&mut self, events: &[Event]) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        for event in events {
            if let EventKind::JobSubmitted { job, spec, .. } = &event.what {
                transaction
                    .prepare_cached("UPDATE job SET needs = ?2 WHERE id = ?1")?
                    .execute(params![job.0 as i64, written(&kinds(spec))])?;
            }
        }
        transaction.commit()
    }

    /// Notes that this was done for all there are.
    pub(crate) fn has_needs(&mut self) -> rusqlite::Result<()> {
        tables::are_complete(&self.db)?;
        self.lacks_needs = false;
        Ok(())
    }

    /// The number of the last event in the tables.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Forgets what can be made again from the log, whose first event is given, and from the jobs in memory.
    pub fn clear(&mut self, cluster: &Cluster, first_seq: u64, first_at: Time) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        for job in cluster.jobs().iter() {
            let which = params![job.id.0 as i64, first_at.0 as i64];
            transaction
                .prepare_cached("DELETE FROM attempt WHERE job = ?1 AND placed >= ?2")?
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

    /// Enters events that were applied to the cluster, `last` being the number of the last one.
    pub fn enter(&mut self, cluster: &Cluster, events: &[Event], last: u64) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        for event in events {
            enter_one(&transaction, cluster, event)?;
        }
        note_seq(&transaction, last)?;
        transaction.commit()?;
        self.seq = last;
        Ok(())
    }

    /// The attempts of a job (or of one of its tasks), in order.
    pub fn attempts_of(&self, job: JobId, task: Option<TaskId>) -> rusqlite::Result<Vec<AttemptRow>> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 AND (?2 IS NULL OR (node = ?2 AND position = ?3))
                   ORDER BY node, position, number LIMIT 100000";
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query
            .query_map(params![job.0 as i64, task.map(|t| t.node), task.map(|t| t.index)], read_attempt)?;
        rows.collect()
    }

    /// The latest attempts that ended between two moments, newest first, without the first `skip`.
    pub fn latest(
        &self,
        user: Option<&str>,
        job: Option<JobId>,
        ended: RangeInclusive<Time>,
        skip: u32,
        most: u32,
    ) -> rusqlite::Result<Vec<AttemptRow>> {
        let sql = "SELECT * FROM attempt WHERE ended >= ?1 AND ended <= ?2 AND (?3 IS NULL OR user = ?3)
                   AND (?4 IS NULL OR job = ?4)
                   ORDER BY ended DESC, job DESC, node DESC, position DESC, number DESC LIMIT ?5 OFFSET ?6";
        let mut query = self.db.prepare_cached(sql)?;
        let job = job.map(|j| j.0 as i64);
        let (since, until) = (ended.start().0 as i64, ended.end().0 as i64);
        query.query_map(params![since, until, user, job, most, skip], read_attempt)?.collect()
    }

    /// The attempts of a job, in order, without the first `skip`.
    pub fn attempts_from(&self, job: JobId, skip: u32, most: u32) -> rusqlite::Result<Vec<AttemptRow>> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 ORDER BY node, position, number LIMIT ?2 OFFSET ?3";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map(params![job.0 as i64, most, skip], read_attempt)?.collect()
    }

    /// How long tasks of that name ran lately: same user, same job and task name, only those that ended by themselves or
    /// by their timeout.
    pub fn run_times(&self, user: &str, job_name: &str, task_name: &str) -> rusqlite::Result<Vec<Span>> {
        let sql = "SELECT ran FROM attempt WHERE user = ?1 AND job_name = ?2 AND task_name = ?3
                   AND outcome IN ('succeeded', 'failed', 'timed-out') AND started IS NOT NULL
                   ORDER BY ended DESC LIMIT 100";
        let mut query = self.db.prepare_cached(sql)?;
        query
            .query_map(params![user, job_name, task_name], |r| Ok(Span(r.get::<_, i64>(0)? as u64)))?
            .collect()
    }

    /// The latest attempts of everyone that ended by themselves or by their timeout: whose each was, how many GPUs it had
    /// and how long it ran.
    pub fn latest_runs(&self) -> rusqlite::Result<Vec<(String, usize, Span)>> {
        let sql = "SELECT user, devices, ran FROM attempt WHERE ended IS NOT NULL
                   AND outcome IN ('succeeded', 'failed', 'timed-out') AND started IS NOT NULL
                   ORDER BY ended DESC LIMIT 1000";
        let mut query = self.db.prepare_cached(sql)?;
        let run = |r: &Row<'_>| {
            let devices: String = r.get(1)?;
            let gpus = devices.split(',').filter(|device| !device.is_empty()).count();
            Ok((r.get(0)?, gpus, Span(r.get::<_, i64>(2)? as u64)))
        };
        query.query_map([], run)?.collect()
    }

    /// What share of its timeout each kind of task ran for lately: the mean over those that ran to their end or into the
    /// timeout. An array, or a job run again and again, is one kind: its hundred tasks say no more of others than one does.
    pub fn promises_kept(&self) -> rusqlite::Result<Vec<f64>> {
        let sql = "SELECT avg(min(1.0, ran * 1.0 / timeout)) FROM (
                       SELECT user, job_name, task_name, ran, timeout, ended FROM attempt
                       WHERE outcome IN ('succeeded', 'timed-out') AND timeout > 0 ORDER BY ended DESC LIMIT 1000)
                   GROUP BY user, job_name, task_name ORDER BY max(ended) DESC LIMIT 200";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map([], |r| r.get(0))?.collect()
    }

    /// The last attempts of tasks that did not succeed: alike ones counted together with the first of them, the most common
    /// first.
    pub fn failures(&self, job: JobId, task: Option<TaskId>) -> rusqlite::Result<Vec<(u64, AttemptRow)>> {
        // With `min`, SQLite takes the other columns from the row that has it.
        let sql = "SELECT *, count(*) AS alike, min(node * 4294967296 + position) FROM attempt AS a WHERE job = ?1
                   AND (?2 IS NULL OR (node = ?2 AND position = ?3)) AND outcome NOT IN ('succeeded', 'requeued')
                   AND NOT EXISTS (SELECT 1 FROM attempt AS b WHERE b.job = a.job AND b.node = a.node
                                   AND b.position = a.position AND b.number = a.number + 1)
                   GROUP BY outcome, exit_code, signal, reason, detail ORDER BY alike DESC LIMIT 100";
        let mut query = self.db.prepare_cached(sql)?;
        let group = |r: &Row<'_>| Ok((r.get::<_, i64>("alike")? as u64, read_attempt(r)?));
        query.query_map(params![job.0 as i64, task.map(|t| t.node), task.map(|t| t.index)], group)?.collect()
    }

    /// When the first attempt of a job began.
    pub fn first_start(&self, job: JobId) -> rusqlite::Result<Option<Time>> {
        let mut query = self.db.prepare_cached("SELECT started FROM job WHERE id = ?1")?;
        let first = query.query_row([job.0 as i64], |r| r.get::<_, Option<i64>>(0)).optional()?;
        Ok(first.flatten().map(|t| Time(t as u64)))
    }

    /// The attempts of a job that matter most now: those under way, then those that ended last.
    pub fn attempts_lately(&self, job: JobId, most: u32) -> rusqlite::Result<Vec<AttemptRow>> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 ORDER BY ended IS NOT NULL, ended DESC LIMIT ?2";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map(params![job.0 as i64, most], read_attempt)?.collect()
    }

    /// GPU time of all attempts of a job that ended: their running time on each device, in seconds.
    pub fn gpu_seconds_of(&self, job: JobId) -> rusqlite::Result<f64> {
        // Devices are written as "0,3,4".
        let sql = "SELECT total(ran * (1 + length(devices) - length(replace(devices, ',', '')))) FROM attempt
                   WHERE job = ?1 AND devices <> '' AND ended IS NOT NULL";
        let micros: f64 = self.db.prepare_cached(sql)?.query_row([job.0 as i64], |r| r.get(0))?;
        Ok(micros / 1e6)
    }

    /// The attempt of a job that failed last, as the reason it failed.
    pub fn last_failure(&self, job: JobId) -> rusqlite::Result<Option<AttemptRow>> {
        let sql = "SELECT * FROM attempt WHERE job = ?1 AND outcome NOT IN ('succeeded', 'requeued')
                   ORDER BY ended DESC LIMIT 1";
        self.db.prepare_cached(sql)?.query_row([job.0 as i64], read_attempt).optional()
    }

    /// Jobs that are over: of a user, that ended in a way, with a text in their name or as their id. By a column, from
    /// the largest or not; by none, the last first.
    pub fn finished(
        &self,
        user: Option<&str>,
        outcome: &str,
        text: &str,
        (by, down): (&str, bool),
        skip: usize,
        most: usize,
    ) -> rusqlite::Result<Vec<JobRow>> {
        let sql = finished_in_order(by, down);
        let mut query = self.db.prepare_cached(&sql)?;
        query.query_map(params![user, text, skip as i64, most as i64, outcome], read_job)?.collect()
    }

    /// Everyone who ever submitted a job, the first two hundred by name.
    pub fn users(&self) -> rusqlite::Result<Vec<String>> {
        let mut query = self.db.prepare_cached("SELECT DISTINCT user FROM job ORDER BY user LIMIT 200")?;
        query.query_map([], |r| r.get(0))?.collect()
    }

    /// Keeps a sample of how everything is.
    pub(crate) fn keep_sample(&self, at: Time, sample: &Sample) -> rusqlite::Result<()> {
        usage_samples::keep(&self.db, at, sample)
    }

    /// The samples of the last so many seconds, about `most` of them.
    pub(crate) fn samples(
        &self,
        now: Time,
        seconds: u64,
        most: usize,
    ) -> rusqlite::Result<Vec<(Time, Sample)>> {
        usage_samples::last(&self.db, now, seconds, most)
    }

    /// Moves the write-ahead log into the file, as far as no reader is in the way.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    /// How many attempts the tables have.
    pub fn rows(&self) -> rusqlite::Result<u64> {
        self.db.query_row("SELECT count(*) FROM attempt", [], |r| Ok(r.get::<_, i64>(0)? as u64))
    }

    /// A job, also one that memory no longer holds.
    pub fn job(&self, job: JobId) -> rusqlite::Result<Option<JobRow>> {
        self.db.query_row("SELECT * FROM job WHERE id = ?1", [job.0 as i64], read_job).optional()
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

fn enter_one(db: &Connection, cluster: &Cluster, event: &Event) -> rusqlite::Result<()> {
    // How a job ended that memory no longer holds cannot be told again: what is written of it stays.
    if let Some(job) = event.what.job().filter(|job| cluster.job(*job).is_none())
        && db
            .prepare_cached("SELECT 1 FROM job WHERE id = ?1 AND finished IS NOT NULL")?
            .exists([job.0 as i64])?
    {
        return Ok(());
    }
    let at = event.at.0 as i64;
    match &event.what {
        EventKind::JobSubmitted { job, user, spec } => {
            let tasks: u64 = spec.tasks.iter().map(|t| u64::from(t.len())).sum();
            db.prepare_cached(
                "INSERT OR REPLACE INTO job (id, name, user, submitted, tasks, priority, project, needs)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                job.0 as i64,
                spec.name,
                user,
                at,
                tasks as i64,
                spec.priority,
                spec.project,
                written(&kinds(spec))
            ])?;
        }
        EventKind::Placed { attempt, placement } => {
            let task = attempt.task;
            let Some(job) = cluster.job(task.job) else { return Ok(()) };
            let spec = &job.spec.tasks[task.node as usize];
            let devices: Vec<_> = placement.devices.iter().map(|(i, _)| i.to_string()).collect();
            let worker = cluster.worker(placement.worker).map_or("", |w| &w.info.name);
            db.prepare_cached(
                "INSERT OR REPLACE INTO attempt (job, node, position, number, job_name, task_name, array_index, user,
                 worker, devices, placed, timeout) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                task.job.0 as i64,
                task.node,
                task.index,
                attempt.number,
                job.spec.name,
                spec.name,
                spec.array.as_ref().and_then(|a| a.value(task.index)),
                job.user,
                worker,
                devices.join(","),
                at,
                spec.timeout.map(|t| t.0 as i64)
            ])?;
        }
        EventKind::Started { attempt } => {
            let sql = "UPDATE attempt SET started = ?5 WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
            let TaskId { job, node, index } = attempt.task;
            db.prepare_cached(sql)?.execute(params![job.0 as i64, node, index, attempt.number, at])?;
            let sql = "UPDATE job SET started = ?2 WHERE id = ?1 AND started IS NULL";
            db.prepare_cached(sql)?.execute(params![job.0 as i64, at])?;
        }
        EventKind::StopAsked { attempt, why: StopReason::Idle(lasted) } => {
            let sql = "UPDATE attempt SET detail = ?5 WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
            let TaskId { job, node, index } = attempt.task;
            let detail = format!("ended by the server: its GPUs did nothing for {}", Micros(lasted.0));
            db.prepare_cached(sql)?.execute(params![job.0 as i64, node, index, attempt.number, detail])?;
        }
        EventKind::Ended { attempt, end, then } => {
            let signal = match &end.how {
                EndReason::Signalled(signal) => Some(*signal),
                _ => None,
            };
            let (exit_code, detail) = match &end.how {
                EndReason::Exited(code) => (Some(*code), None),
                EndReason::Signalled(signal) => (None, Some(format!("ended by signal {signal}"))),
                EndReason::TimedOut => (None, Some("ran longer than its timeout".to_owned())),
                EndReason::Crowded(n) => {
                    (None, Some(format!("it had {n} processes, more than a task may have")))
                }
                EndReason::OutOfMemory(limit) => {
                    let limit = ByteSize(*limit).rounded();
                    (None, Some(format!("out of memory: it needed more than the {limit} it requested")))
                }
                EndReason::Idle(limit) => (None, Some(format!("{}{}", outcome_text::IDLE, Micros(limit.0)))),
                EndReason::Stopped => (None, None),
                EndReason::NotStarted(why) | EndReason::Declined(why) | EndReason::Lost(why) => {
                    (None, Some(why.clone()))
                }
            };
            let outcome = match then {
                Disposition::Done(outcome) => outcome.word(),
                Disposition::Again | Disposition::Later(_) | Disposition::Hold => again_word(&end.how),
            };
            let TaskId { job, node, index } = attempt.task;
            db.prepare_cached(
                "UPDATE attempt SET ended = ?5, outcome = ?6, exit_code = ?7, detail = COALESCE(?8, detail), ran = ?9, cpu = ?10,
                 peak_rss = ?11, peak_gpu_memory = ?12, signal = ?13, reason = ?14 WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4",
            )?
            .execute(params![
                job.0 as i64,
                node,
                index,
                attempt.number,
                at,
                outcome,
                exit_code,
                detail,
                end.usage.ran.0 as i64,
                end.usage.cpu.0 as i64,
                end.usage.peak_rss.map(|b| b as i64),
                end.usage.peak_gpu_memory.map(|b| b as i64),
                signal,
                reason(&end.how).map(FailureReason::word)
            ])?;
            note_end(db, cluster, job)?;
        }
        EventKind::Cancelled { node, .. } => note_end(db, cluster, node.job)?,
        EventKind::Retried { job, .. } | EventKind::TasksRetried { node: NodeId { job, .. }, .. } => {
            db.prepare_cached("UPDATE job SET finished = NULL, outcome = NULL WHERE id = ?1")?
                .execute([job.0 as i64])?;
        }
        _ => {}
    }
    Ok(())
}

/// Why an attempt failed, where more is known than exit code or signal.
fn reason(how: &EndReason) -> Option<FailureReason> {
    match how {
        EndReason::OutOfMemory(_) => Some(FailureReason::OutOfMemory),
        EndReason::Crowded(_) => Some(FailureReason::TooManyProcesses),
        EndReason::NotStarted(_) => Some(FailureReason::NotStarted),
        _ => None,
    }
}

/// The word for an attempt that was not the last of its task.
fn again_word(how: &EndReason) -> &'static str {
    match how {
        EndReason::TimedOut | EndReason::Idle(_) => Outcome::TimedOut.word(),
        EndReason::Lost(_) | EndReason::Declined(_) => Outcome::Lost.word(),
        EndReason::Stopped => "requeued",
        EndReason::Exited(_)
        | EndReason::Signalled(_)
        | EndReason::Crowded(_)
        | EndReason::OutOfMemory(_)
        | EndReason::NotStarted(_) => Outcome::Failed.word(),
    }
}

fn note_end(db: &Connection, cluster: &Cluster, id: JobId) -> rusqlite::Result<()> {
    let Some(job) = cluster.job(id) else { return Ok(()) };
    if let (Some(finished), Some(outcome)) = (job.finished, job.outcome()) {
        db.prepare_cached("UPDATE job SET finished = ?2, outcome = ?3 WHERE id = ?1")?.execute(params![
            id.0 as i64,
            finished.0 as i64,
            outcome.word()
        ])?;
    }
    Ok(())
}

fn read_attempt(r: &Row<'_>) -> rusqlite::Result<AttemptRow> {
    let time = |name: &str| Ok::<_, rusqlite::Error>(r.get::<_, Option<i64>>(name)?.map(|t| Time(t as u64)));
    let span =
        |name: &str| Ok::<_, rusqlite::Error>(Span(r.get::<_, Option<i64>>(name)?.unwrap_or(0) as u64));
    let size = |name: &str| Ok::<_, rusqlite::Error>(r.get::<_, Option<i64>>(name)?.map(|b| b as u64));
    let task = TaskId {
        job: JobId(r.get::<_, i64>("job")? as u64),
        node: r.get("node")?,
        index: r.get("position")?,
    };
    Ok(AttemptRow {
        attempt: task.attempt(r.get("number")?),
        job_name: r.get("job_name")?,
        task_name: r.get("task_name")?,
        array_index: r.get("array_index")?,
        user: r.get("user")?,
        worker: r.get("worker")?,
        devices: r.get::<_, String>("devices")?.split(',').filter_map(|d| d.parse().ok()).collect(),
        placed: time("placed")?.unwrap_or_default(),
        started: time("started")?,
        ended: time("ended")?,
        outcome: r.get("outcome")?,
        exit_code: r.get("exit_code")?,
        signal: r.get("signal")?,
        timeout: r.get::<_, Option<i64>>("timeout")?.map(|t| Span(t as u64)),
        detail: r.get("detail")?,
        reason: r.get::<_, Option<String>>("reason")?.as_deref().and_then(FailureReason::from_word),
        ran: span("ran")?,
        cpu: span("cpu")?,
        peak_rss: size("peak_rss")?,
        peak_gpu_memory: size("peak_gpu_memory")?,
    })
}

fn read_job(r: &Row<'_>) -> rusqlite::Result<JobRow> {
    let time = |name: &str| Ok::<_, rusqlite::Error>(r.get::<_, Option<i64>>(name)?.map(|t| Time(t as u64)));
    let needs: Option<String> = r.get("needs")?;
    Ok(JobRow {
        job: JobId(r.get::<_, i64>("id")? as u64),
        name: r.get("name")?,
        user: r.get("user")?,
        submitted: time("submitted")?.unwrap_or_default(),
        finished: time("finished")?,
        outcome: r.get("outcome")?,
        tasks: r.get::<_, i64>("tasks")? as u64,
        priority: r.get("priority")?,
        project: r.get("project")?,
        started: time("started")?,
        // What a newer program wrote may not be readable; it is only shown.
        needs: needs.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

/// The kinds of needs a job is remembered by: the first, and the first with a GPU.
fn kinds(job: &JobSpec) -> Vec<&Needs> {
    let mut kinds: Vec<&Needs> = Vec::new();
    for needs in job.tasks.iter().map(|task| &task.needs) {
        let with_gpu = needs.gpus > 0 && kinds.iter().all(|kind| kind.gpus == 0);
        if kinds.contains(&needs) {
            continue;
        }
        if kinds.len() < KINDS {
            kinds.push(needs);
        } else if with_gpu {
            kinds[KINDS - 1] = needs;
            break;
        }
    }
    kinds
}

fn written(kinds: &[&Needs]) -> String {
    serde_json::to_string(kinds).expect("needs are always JSON")
}
