//! The protocol between server and worker: the worker states what it runs in numbered [`Report`]s, the server what it should
//! run in [`Assignments`] that acknowledge them. Assignments are always complete, reports full or deltas, and every entry is
//! absolute. So any message may be lost, duplicated or late.

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

/// A worker's report of its attempts and devices: full, or the changes since the report before.
///
/// Reports are numbered, and the server drops one that is not later than another it received ([`Inbox`](crate::inbox::Inbox)).
/// That matters above all between two sessions: a machine that restarted may launch an attempt again while the server has yet
/// to hear that its first launch ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Report number; zero where the agent does not number its reports.
    #[serde(default)]
    pub id: ReportId,
    /// The report of the same session that this one is a delta to; absent in a full report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// Description of the worker; present at first and whenever it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<WorkerInfo>,
    /// Attempts on the worker, or in a delta those that changed.
    pub attempts: SmallVec<[ReportedAttempt; 1]>,
    /// Device states, by the driver's name; empty where none changed.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceState>,
    /// Device memory in use by attempts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: MemoryUse,
    /// Quarantine reason: why nothing can be started on the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
}

impl Report {
    /// Executes the report as commands, part by part.
    pub(crate) fn execute(self, worker: WorkerId, mut execute: impl FnMut(Command)) {
        let Report { info, attempts, devices, used, quarantined, .. } = self;
        if let Some(info) = info {
            execute(Command::Join(info));
        }
        // Before the attempts it could not start are placed again.
        if let Some(why) = quarantined {
            execute(Command::Drain { worker, drained: true, reason: Some(format!("{QUARANTINED}{why}")) });
        }
        // Gangs do not exist yet, so no other rank was ever assigned.
        let attempts = attempts.into_iter().filter(|one| one.rank == 0);
        let attempts = attempts.map(|one| (one.attempt, one.standing)).collect();
        execute(Command::Report { worker, attempts, devices });
        if !used.is_empty() {
            execute(Command::MeasuredMemory { worker, used });
        }
    }
}

/// The beginning of the drain reason of a worker that drained itself.
const QUARANTINED: &str = "quarantined: ";

/// Whether a drain reason is a quarantine: the worker could not start anything.
pub fn is_quarantine(reason: &str) -> bool {
    reason.starts_with(QUARANTINED)
}

/// The number of a report. The later of two reports of a worker has the larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReportId {
    /// Session of the agent: one run of its process. Each start takes a larger number than those before.
    pub session: u64,
    /// Sequence number within the session, from 1.
    pub seq: u64,
}

/// An attempt in a report. The order of the fields lets the pair (attempt, standing) of earlier versions be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportedAttempt {
    /// Attempt id.
    pub attempt: AttemptId,
    /// Status of the attempt.
    pub standing: AttemptStatus,
    /// Rank within a gang; 0 for an attempt on one worker.
    #[serde(default)]
    pub rank: u32,
}

/// The complete desired state of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignments {
    /// Number of events the assignments are as of: a worker ignores assignments older than the latest it has received. Only
    /// committed events count, so a restarted server never counts back.
    #[serde(default)]
    pub as_of: u64,
    /// Acknowledgement: the latest report the server had received, by which a worker knows that its lease was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<ReportId>,
    /// Whether the server missed a report and requests a full one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_all: bool,
    /// Attempts the worker should have.
    pub attempts: Vec<Assignment>,
}

/// An attempt assigned to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Attempt id.
    pub attempt: AttemptId,
    /// Rank within a gang; 0 for an attempt on one worker.
    #[serde(default)]
    pub rank: u32,
    /// Whether its process was ever reported running.
    pub started: bool,
    /// Desired state of the attempt.
    pub want: DesiredState,
    /// Grace period between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Disposition when the worker is lost: an attempt that is rerun elsewhere must have ended here before the lease expires.
    #[serde(default)]
    pub on_lost: OnLost,
    /// Process that holds a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_for: Option<ClaimHolder>,
    /// Granted devices, by the driver's name.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Launch specification; present until it was reported running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Arc<LaunchSpec>>,
}

impl Assignment {
    /// The part of the assignment that the agent reconciles by.
    pub fn desired(&self) -> Desired {
        let Assignment { attempt, started, want, grace, on_lost, .. } = *self;
        Desired { attempt, started, want, grace, on_lost }
    }
}

/// Launch specification of an attempt, with placeholders (`%{index}`, `%{job}`) substituted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The job's name.
    pub job_name: String,
    /// The task's name.
    pub task_name: String,
    /// Array index of the task.
    pub array_index: Option<u32>,
    /// User the job belongs to.
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
    /// Whether an earlier attempt of the task ran.
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
    /// Assignments of a worker, with launch specifications for attempts that have not started.
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

/// Values of the placeholders `%{index}` and `%{job}`.
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
