//! What server and worker tell each other: the worker what it has, in numbered [`Report`]s, the server what it should have,
//! in [`Assignments`] that acknowledge them. Assignments are always complete, reports now and then, and every entry is
//! absolute. So any message may be lost, doubled or late.

use crate::cluster::{Cluster, Desired, DesiredState};
use crate::event::{Env, WorkerInfo};
use crate::ids::{AttemptId, JobId, WorkerId};
use crate::pool::DeviceState;
use crate::spec::{Claim, ClaimHolder, OnLost, Origin, Program, Snapshot, Terminal};
use crate::time::Span;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::Command;
pub use crate::command::{AttemptStatus, MemoryUse};

/// What a worker has: all of it, or what changed since the report before.
///
/// Reports are numbered, and the server drops one that is not later than another it received ([`Inbox`](crate::inbox::Inbox)).
/// That matters above all between two sessions: a machine that went down may begin an attempt anew of which the server has
/// yet to hear that it was over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its number; absent where the agent does not number its reports.
    #[serde(default)]
    pub id: ReportId,
    /// The report of the same session that this one is a delta to; absent in a full report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// Who speaks; present at first and whenever it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<WorkerInfo>,
    /// Its attempts, or those that changed.
    pub attempts: SmallVec<[ReportedAttempt; 1]>,
    /// Its devices, by the driver's name; none where none changed.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceState>,
    /// Device memory its attempts use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: MemoryUse,
    /// Why nothing can be started on the worker; absent while that is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
}

impl Report {
    /// Has what it asks of the cluster executed, part by part.
    pub(crate) fn execute(self, worker: WorkerId, mut execute: impl FnMut(Command)) {
        let Report { info, attempts, devices, used, quarantined, .. } = self;
        if let Some(info) = info {
            execute(Command::Join(info));
        }
        // Before the attempts it could not start are placed again.
        if quarantined.is_some() {
            execute(Command::Drain { worker, drained: true });
        }
        // Attempts over several workers are yet to come; until then nobody asked for any other rank.
        let attempts = attempts.into_iter().filter(|one| one.rank == 0);
        let attempts = attempts.map(|one| (one.attempt, one.standing)).collect();
        execute(Command::Report { worker, attempts, devices });
        if !used.is_empty() {
            execute(Command::MeasuredMemory { worker, used });
        }
    }
}

/// The number of a report. The later of two reports of a worker has the larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReportId {
    /// The life of an agent's process that the report is of. Each start of an agent has a larger one than those before.
    pub session: u64,
    /// Counts the session's reports, from 1.
    pub seq: u64,
}

/// An attempt in a report. The order of the fields lets the pair (attempt, standing) of earlier versions be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportedAttempt {
    /// Which.
    pub attempt: AttemptId,
    /// Where it stands.
    pub standing: AttemptStatus,
    /// Which part of it, where it runs on several workers; 0 as long as none does.
    #[serde(default)]
    pub rank: u32,
}

/// Everything a worker should have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignments {
    /// How many events the server knew of when it said so: a worker that has heard a later word ignores an earlier one,
    /// which may only be late. Told is what is kept, so no server that starts again counts back.
    #[serde(default)]
    pub as_of: u64,
    /// The latest report the server had received by then, which is how a worker knows that its lease was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<ReportId>,
    /// Whether the server misses a report, and so asks for a full one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_all: bool,
    /// Its attempts.
    pub attempts: Vec<Assignment>,
}

/// One attempt a worker should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which.
    pub attempt: AttemptId,
    /// Which part of it, where it runs on several workers; 0 as long as none does.
    #[serde(default)]
    pub rank: u32,
    /// Whether its process was seen running.
    pub started: bool,
    /// What is wanted of it.
    pub want: DesiredState,
    /// Between asking it to end and ending it.
    pub grace: Span,
    /// What happens when the worker is lost: one that runs elsewhere then must be over here by that time.
    #[serde(default)]
    pub on_lost: OnLost,
    /// The process a claim is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_for: Option<ClaimHolder>,
    /// The devices it is given, by the driver's name.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How to begin it; present while it was not seen running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Arc<LaunchSpec>>,
}

impl Assignment {
    /// What reconciling needs of it.
    pub fn desired(&self) -> Desired {
        let Assignment { attempt, started, want, grace, on_lost, .. } = *self;
        Desired { attempt, started, want, grace, on_lost }
    }
}

/// How to begin an attempt. Places to be filled in (`%{index}`, `%{job}`) are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The job's name.
    pub job_name: String,
    /// The task's name.
    pub task_name: String,
    /// The value of its place in the array.
    pub array_index: Option<u32>,
    /// Whose it is.
    pub user: String,
    /// The program to run.
    #[serde(flatten)]
    pub program: Program,
    /// The environment the job was submitted from, to which the program's is added.
    pub base_env: Arc<Env>,
    /// Main memory in bytes that it may use; none where it requested none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Thousandths of a processor that it may use; none where it requested none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u32>,
    /// After this much running time it is ended.
    pub timeout: Option<Span>,
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
                rank: 0,
                started: d.started,
                want: d.want,
                grace: d.grace,
                on_lost: d.on_lost,
                holds_for: spec.claim.and_then(|claim| claim.process),
                devices: devices.collect(),
                work: if d.started { None } else { self.work(d.attempt).map(Arc::new) },
            }
        });
        Assignments { as_of: self.seq(), received: None, send_all: false, attempts: attempts.collect() }
    }

    fn work(&self, id: AttemptId) -> Option<LaunchSpec> {
        let job = self.job(id.task.job)?;
        let (_, spec) = job.node(id.task.node)?;
        let array_index = spec.array.as_ref().and_then(|a| a.value(id.task.index));
        let fill = Placeholders { job: job.id, index: array_index };
        Some(LaunchSpec {
            job_name: job.spec.name.clone(),
            task_name: spec.name.clone(),
            array_index,
            user: job.user.clone(),
            program: spec.program.map_text(|text| fill.fill(text)),
            base_env: job.spec.env.and_then(|e| self.env(e)).cloned().unwrap_or_default(),
            memory_limit: Some(spec.needs.memory).filter(|bytes| *bytes > 0),
            cpu_quota: spec.cpu_quota,
            timeout: spec.timeout,
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
struct Placeholders {
    job: JobId,
    index: Option<u32>,
}

impl Placeholders {
    fn fill(self, text: &str) -> String {
        let text = text.replace("%{job}", &self.job.to_string());
        match self.index {
            Some(index) => text.replace("%{index}", &index.to_string()),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_assignments_of_earlier_versions_are_read() {
        let attempt = r#"{"task":{"job":1,"node":0,"index":0},"number":1}"#;
        let report: Report =
            serde_json::from_str(&format!(r#"{{"attempts":[[{attempt},"running"]]}}"#)).expect("a report");
        let [ReportedAttempt { standing: AttemptStatus::Running, rank: 0, .. }] = report.attempts[..] else {
            panic!("{report:?}")
        };
        assert_eq!((report.id, report.base), (ReportId::default(), None), "full, and without a number");
        let assigned = format!(r#"{{"attempt":{attempt},"started":true,"want":"run","grace":1}}"#);
        let assigned: Assignments =
            serde_json::from_str(&format!(r#"{{"attempts":[{assigned}]}}"#)).expect("assignments");
        assert_eq!((assigned.attempts[0].rank, assigned.attempts[0].on_lost), (0, OnLost::Rerun));
        assert_eq!((assigned.received, assigned.send_all), (None, false));
    }
}
