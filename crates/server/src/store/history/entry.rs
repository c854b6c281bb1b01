//! Entering events in the derived tables: one function for each kind of event that changes a row.

use super::model_runs;
use super::rows::{kinds, written};
use rusqlite::{Connection, params};
use warpyard_api::quantity::{ByteSize, Micros};
use warpyard_api::wire::FailureReason;
use warpyard_core::event::{Disposition, End, EndReason, EventKind, Outcome, StopReason};
use warpyard_core::pool::Placement;
use warpyard_core::spec::JobSpec;
use warpyard_core::{AttemptId, Cluster, Event, JobId, NodeId, Span, TaskId, Time};

/// Beginning of the detail of an attempt whose terminal was idle too long; the limit follows.
pub(crate) const IDLE: &str = "idle for ";

/// Enters one event that was applied to the cluster.
pub(super) fn enter_event(db: &Connection, cluster: &Cluster, event: &Event) -> rusqlite::Result<()> {
    if let Some(job) = event.what.job()
        && is_final(db, cluster, job)?
    {
        return Ok(());
    }
    match &event.what {
        EventKind::JobSubmitted { job, user, spec } => enter_job(db, *job, user, spec, event.at),
        EventKind::Placed { attempt, placement } => {
            model_runs::enter_placed(db, cluster, *attempt, placement, event.at)?;
            enter_attempt(db, cluster, *attempt, placement, event.at)
        }
        EventKind::Started { attempt } => enter_start(db, *attempt, event.at),
        EventKind::StopAsked { attempt, why: StopReason::Idle(lasted) } => {
            enter_idle_stop(db, *attempt, *lasted)
        }
        EventKind::Ended { attempt, end, then } => {
            enter_end(db, *attempt, end, then, event.at)?;
            model_runs::enter_ended(db, *attempt, end, then, event.at)?;
            enter_job_end(db, cluster, attempt.task.job)
        }
        EventKind::Cancelled { node, .. } => enter_job_end(db, cluster, node.job),
        EventKind::Retried { job, .. } | EventKind::TasksRetried { node: NodeId { job, .. }, .. } => {
            reopen_job(db, *job)
        }
        _ => Ok(()),
    }
}

/// Whether the row of a job must stay as it is: the job is over and memory no longer holds it, so how it ended could not be
/// entered again.
fn is_final(db: &Connection, cluster: &Cluster, job: JobId) -> rusqlite::Result<bool> {
    if cluster.job(job).is_some() {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM job WHERE id = ?1 AND finished IS NOT NULL";
    db.prepare_cached(sql)?.exists([job.0 as i64])
}

fn enter_job(db: &Connection, job: JobId, user: &str, spec: &JobSpec, at: Time) -> rusqlite::Result<()> {
    let tasks: u64 = spec.tasks.iter().map(|t| u64::from(t.len())).sum();
    let sql = "INSERT OR REPLACE INTO job (id, name, user, submitted, tasks, priority, project, needs)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let needs = written(&kinds(spec));
    let (job, at, tasks) = (job.0 as i64, at.0 as i64, tasks as i64);
    let row = params![job, spec.name, user, at, tasks, spec.priority, spec.project, needs];
    db.prepare_cached(sql)?.execute(row).map(drop)
}

fn enter_attempt(
    db: &Connection,
    cluster: &Cluster,
    attempt: AttemptId,
    placement: &Placement,
    at: Time,
) -> rusqlite::Result<()> {
    let task = attempt.task;
    let Some(job) = cluster.job(task.job) else { return Ok(()) };
    let spec = &job.spec.tasks[task.node as usize];
    let devices: Vec<_> = placement.devices.iter().map(|(i, _)| i.to_string()).collect();
    let worker = cluster.worker(placement.worker).map_or("", |w| &w.info.name);
    let sql =
        "INSERT OR REPLACE INTO attempt (job, node, position, number, job_name, task_name, array_index, user,
               worker, devices, placed, timeout) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    db.prepare_cached(sql)?
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
            at.0 as i64,
            spec.timeout.map(|t| t.0 as i64)
        ])
        .map(drop)
}

fn enter_start(db: &Connection, attempt: AttemptId, at: Time) -> rusqlite::Result<()> {
    let (TaskId { job, node, index }, at) = (attempt.task, at.0 as i64);
    let sql =
        "UPDATE attempt SET started = ?5 WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
    db.prepare_cached(sql)?.execute(params![job.0 as i64, node, index, attempt.number, at])?;
    let sql = "UPDATE job SET started = ?2 WHERE id = ?1 AND started IS NULL";
    db.prepare_cached(sql)?.execute(params![job.0 as i64, at]).map(drop)
}

fn enter_idle_stop(db: &Connection, attempt: AttemptId, lasted: Span) -> rusqlite::Result<()> {
    let TaskId { job, node, index } = attempt.task;
    let detail = format!("ended by the server: its GPUs did nothing for {}", Micros(lasted.0));
    let sql = "UPDATE attempt SET detail = ?5 WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
    db.prepare_cached(sql)?.execute(params![job.0 as i64, node, index, attempt.number, detail]).map(drop)
}

fn enter_end(
    db: &Connection,
    attempt: AttemptId,
    end: &End,
    then: &Disposition,
    at: Time,
) -> rusqlite::Result<()> {
    let outcome = match then {
        Disposition::Done(outcome) => outcome.word(),
        Disposition::Again | Disposition::Later(_) | Disposition::Hold => again_word(&end.how),
    };
    let (exit_code, signal) = match &end.how {
        EndReason::Exited(code) => (Some(*code), None),
        EndReason::Signalled(signal) => (None, Some(*signal)),
        _ => (None, None),
    };
    let TaskId { job, node, index } = attempt.task;
    let sql = "UPDATE attempt SET ended = ?5, outcome = ?6, exit_code = ?7, detail = COALESCE(?8, detail), ran = ?9,
               cpu = ?10, peak_rss = ?11, peak_gpu_memory = ?12, signal = ?13, reason = ?14
               WHERE job = ?1 AND node = ?2 AND position = ?3 AND number = ?4";
    db.prepare_cached(sql)?
        .execute(params![
            job.0 as i64,
            node,
            index,
            attempt.number,
            at.0 as i64,
            outcome,
            exit_code,
            detail(&end.how),
            end.usage.ran.0 as i64,
            end.usage.cpu.0 as i64,
            end.usage.peak_rss.map(|b| b as i64),
            end.usage.peak_gpu_memory.map(|b| b as i64),
            signal,
            reason(&end.how).map(FailureReason::word)
        ])
        .map(drop)
}

/// What went wrong, in words; nothing where the exit code or the outcome says it.
fn detail(how: &EndReason) -> Option<String> {
    match how {
        EndReason::Exited(_) | EndReason::Stopped => None,
        EndReason::Signalled(signal) => Some(format!("ended by signal {signal}")),
        EndReason::TimedOut => Some("ran longer than its timeout".to_owned()),
        EndReason::Crowded(n) => Some(format!("it had {n} processes, more than a task may have")),
        EndReason::OutOfMemory(limit) => {
            let limit = ByteSize(*limit).rounded();
            Some(format!("out of memory: it needed more than the {limit} it requested"))
        }
        EndReason::Idle(limit) => Some(format!("{IDLE}{}", Micros(limit.0))),
        EndReason::NotStarted(why) | EndReason::Declined(why) | EndReason::Lost(why) => Some(why.clone()),
    }
}

/// A job that is retried is not over any more.
fn reopen_job(db: &Connection, job: JobId) -> rusqlite::Result<()> {
    let sql = "UPDATE job SET finished = NULL, outcome = NULL WHERE id = ?1";
    db.prepare_cached(sql)?.execute([job.0 as i64]).map(drop)
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

/// Enters how a job ended, if all of it is over.
fn enter_job_end(db: &Connection, cluster: &Cluster, id: JobId) -> rusqlite::Result<()> {
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
