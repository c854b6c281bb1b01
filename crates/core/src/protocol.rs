//! What server and worker tell each other. Both sides tell the whole truth every time: the worker what it has, the
//! server what it should have. So any message may be lost, doubled or late.

use crate::cluster::{Cluster, Desired, TaskState, Want};
use crate::event::{Env, StopWhy, WorkerInfo};
use crate::ids::{AttemptId, JobId, WorkerId};
use crate::pool::DeviceState;
use crate::spec::{Claim, Held, Origin, Snapshot, TaskSpec, Terminal};
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::command::{MemoryUse, Standing};

/// Everything a worker has.
///
/// Whoever carries reports drops one that comes after a later one of the same worker, above all of an earlier agent's: a
/// machine that went down may begin an attempt anew of which the server has yet to hear that it was over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Who speaks; present at first and whenever it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<WorkerInfo>,
    /// Its attempts.
    pub attempts: Vec<(AttemptId, Standing)>,
    /// Its devices, by the driver's name.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceState>,
    /// Device memory its attempts use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: MemoryUse,
}

/// Everything a worker should have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignments {
    /// How many events the server knew of when it said so: a worker that has heard a later word ignores an earlier one,
    /// which may only be late. Told is what is kept, so no server that starts again counts back.
    #[serde(default)]
    pub as_of: u64,
    /// Its attempts.
    pub attempts: Vec<Assignment>,
}

/// One attempt a worker should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which.
    pub attempt: AttemptId,
    /// Whether its process was seen running.
    pub started: bool,
    /// What is wanted of it.
    pub want: Want,
    /// Between asking it to end and ending it.
    pub grace: Span,
    /// The process a claim is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_for: Option<Held>,
    /// The devices it is given, by the driver's name.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How to begin it; present while it was not seen running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Arc<Work>>,
}

impl Assignment {
    /// What reconciling needs of it.
    pub fn desired(&self) -> Desired {
        Desired { attempt: self.attempt, started: self.started, want: self.want }
    }
}

/// How to begin an attempt. Places to be filled in (`%{index}`, `%{job}`) are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The job's name.
    pub job_name: String,
    /// The task's name.
    pub task_name: String,
    /// The value of its place in the array.
    pub array_index: Option<u32>,
    /// Whose it is.
    pub user: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The environment the job was submitted from.
    pub base_env: Arc<Env>,
    /// Added to it.
    pub env: BTreeMap<String, String>,
    /// Where to run.
    pub workdir: Option<String>,
    /// Main memory in bytes that it may use; none where it requested none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Thousandths of a processor that it may use; none where it requested none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u32>,
    /// After this much running time it is ended.
    pub timeout: Option<Span>,
    /// Where its standard output goes, beside the log.
    pub stdout: Option<String>,
    /// Where its standard error goes, beside the log.
    pub stderr: Option<String>,
    /// Whether an earlier attempt ran.
    pub restarted: bool,
    /// Present where nothing is run but devices are held for someone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// What else it takes over from the process that submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The directory it was submitted from, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
    /// Bytes of its output that are kept, where that is less than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
    /// Present where it runs in a terminal that people can attach to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
}

impl Cluster {
    /// What a worker should have, with all it needs to begin what it does not have yet.
    pub fn assignments(&self, worker: WorkerId) -> Assignments {
        let infos = self.worker(worker).map(|w| &w.info.devices[..]).unwrap_or_default();
        let attempts = self.desired(worker).map(|d| {
            let (attempt, spec) =
                self.view().attempt(d.attempt.task).expect("what is desired has an attempt");
            let devices = attempt.placement.devices.iter().map(|&(i, _)| infos[usize::from(i)].uuid.clone());
            Assignment {
                attempt: d.attempt,
                started: d.started,
                want: d.want,
                grace: match self.state(d.attempt.task) {
                    Some(TaskState::Stopping(_, StopWhy::Killed)) => Span::ZERO,
                    _ => spec.grace,
                },
                holds_for: spec.claim.and_then(|claim| claim.process),
                devices: devices.collect(),
                work: if d.started { None } else { self.work(d.attempt).map(Arc::new) },
            }
        });
        Assignments { as_of: self.seq(), attempts: attempts.collect() }
    }

    fn work(&self, id: AttemptId) -> Option<Work> {
        let job = self.job(id.task.job)?;
        let (_, spec) = job.node(id.task.node)?;
        let array_index = spec.array.as_ref().and_then(|a| a.value(id.task.index));
        let fill = Blanks { job: job.id, index: array_index };
        let TaskSpec { name, command, env, workdir, stdout, stderr, .. } = spec;
        let fill_in = |text: &Option<String>| text.as_deref().map(|t| fill.fill(t));
        Some(Work {
            job_name: job.spec.name.clone(),
            task_name: name.clone(),
            array_index,
            user: job.user.clone(),
            command: command.iter().map(|c| fill.fill(c)).collect(),
            base_env: job.spec.env.and_then(|e| self.env(e)).cloned().unwrap_or_default(),
            env: env.iter().map(|(k, v)| (k.clone(), fill.fill(v))).collect(),
            workdir: fill_in(workdir),
            memory_limit: Some(spec.needs.memory).filter(|bytes| *bytes > 0),
            cpu_quota: spec.cpu_quota,
            timeout: spec.timeout,
            stdout: fill_in(stdout),
            stderr: fill_in(stderr),
            restarted: id.number > 1,
            claim: spec.claim,
            origin: job.spec.origin.clone(),
            log_size: spec.log_size,
            terminal: spec.terminal,
            snapshot: job.spec.snapshot.clone(),
        })
    }
}

/// What is filled in where a command says `%{index}` or `%{job}`.
#[derive(Clone, Copy)]
struct Blanks {
    job: JobId,
    index: Option<u32>,
}

impl Blanks {
    fn fill(self, text: &str) -> String {
        let text = text.replace("%{job}", &self.job.to_string());
        match self.index {
            Some(index) => text.replace("%{index}", &index.to_string()),
            None => text,
        }
    }
}
