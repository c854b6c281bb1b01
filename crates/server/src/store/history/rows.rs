//! Rows of the derived tables: an attempt and a job, and how they are read from SQLite.

use rusqlite::Row;
use warpyard_api::wire::FailureReason;
use warpyard_core::spec::{JobSpec, Needs};
use warpyard_core::{AttemptId, JobId, Span, TaskId, Time};

/// Row of the table of attempts.
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
    /// User it belonged to.
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

/// Row of the table of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// User it belonged to.
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
    /// Project it was for.
    pub project: Option<String>,
    /// When its first attempt began.
    pub started: Option<Time>,
    /// What its tasks asked for: the first kinds of it, the first with a GPU among them. None where it was submitted
    /// to an older program and the log no longer says.
    pub needs: Vec<Needs>,
}

/// How many kinds of needs a job is remembered by.
const KINDS: usize = 3;

pub(super) fn read_attempt(r: &Row<'_>) -> rusqlite::Result<AttemptRow> {
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

pub(super) fn read_job(r: &Row<'_>) -> rusqlite::Result<JobRow> {
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
pub(super) fn kinds(job: &JobSpec) -> Vec<&Needs> {
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

pub(super) fn written(kinds: &[&Needs]) -> String {
    serde_json::to_string(kinds).expect("needs are always JSON")
}
