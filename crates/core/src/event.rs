//! Events: the facts the log on disk consists of. Each carries every decision that was taken, so that replay decides
//! nothing, and event types only ever grow.

use crate::ids::{AttemptId, DeviceId, EnvId, JobId, NodeId, TaskId, WorkerId};
use crate::index::Ranges;
use crate::limits::Limits;
use crate::policy::PolicyChoice;
use crate::pool::{DeviceInfo, DeviceState, Placement};
use crate::shares::{Allocation, SolveFailure, Speed};
use crate::spec::{Boundary, JobSpec};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Environment variables, by name.
pub type Env = BTreeMap<String, String>;

/// Event: a fact, and when the engine recorded it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the engine's clock.
    pub at: Time,
    /// The fact.
    pub what: EventKind,
}

/// Kinds of events. The names of variants and fields are the log format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A worker joined, came back, or described itself again. Devices it had before keep their index.
    WorkerJoined {
        /// Worker id, assigned when a worker of this name first joins.
        worker: WorkerId,
        /// Description of the worker.
        info: WorkerInfo,
    },
    /// A worker's lease expired.
    WorkerLost {
        /// Worker.
        worker: WorkerId,
    },
    /// A worker was drained (starts nothing new), or put back into service.
    WorkerDrained {
        /// Worker.
        worker: WorkerId,
        /// Whether it is drained now.
        drained: bool,
        /// Why it was drained, where that is known: the quarantine reason of a worker that cannot start anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A device became usable, became busy with a foreign process, or disappeared.
    DeviceChanged {
        /// Device.
        device: DeviceId,
        /// New state.
        state: DeviceState,
    },
    /// An environment was stored, for jobs to refer to.
    EnvKept {
        /// Environment id.
        env: EnvId,
        /// Environment variables.
        vars: Arc<Env>,
    },
    /// A job was accepted.
    JobSubmitted {
        /// Job id.
        job: JobId,
        /// Submitting user.
        user: String,
        /// Job specification.
        spec: Arc<JobSpec>,
    },
    /// A job was held (starts nothing new), or released.
    JobHeld {
        /// Job.
        job: JobId,
        /// Whether it is held now.
        held: bool,
    },
    /// A job's priority was changed.
    JobPriority {
        /// Job.
        job: JobId,
        /// The new priority.
        priority: i64,
    },
    /// Tasks that were on no worker were cancelled.
    Cancelled {
        /// Node of the tasks.
        node: NodeId,
        /// Positions in the node.
        tasks: Ranges,
    },
    /// Ended tasks of a job are to run again.
    Retried {
        /// Job of the tasks.
        job: JobId,
        /// Only tasks that did not succeed, and their dependents.
        failed_only: bool,
    },
    /// Some tasks of a node were held or released one by one, apart from the rest of the job.
    TasksHeld {
        /// Node of the tasks.
        node: NodeId,
        /// Positions in the node.
        tasks: Ranges,
        /// Whether they are held now.
        held: bool,
    },
    /// Some ended tasks of a node are to run again, together with nodes that were skipped because of them.
    TasksRetried {
        /// Node of the tasks.
        node: NodeId,
        /// Positions in the node.
        tasks: Ranges,
    },
    /// The backoff of a task ended: its next attempt may start.
    RetryDue {
        /// Task.
        task: TaskId,
    },
    /// An ended job was evicted from memory; its history stays in the derived tables.
    JobForgotten {
        /// Job.
        job: JobId,
    },
    /// A task was placed on a worker.
    Placed {
        /// Attempt that begins.
        attempt: AttemptId,
        /// Worker and devices it was given.
        placement: Placement,
    },
    /// An attempt's process runs.
    Started {
        /// Attempt.
        attempt: AttemptId,
    },
    /// An attempt was asked to pause.
    PauseAsked {
        /// Attempt.
        attempt: AttemptId,
        /// Requester of the pause.
        by: RequestedBy,
        /// Moment of its work at which it pauses.
        #[serde(default, skip_serializing_if = "Boundary::is_any")]
        at: Boundary,
    },
    /// An attempt is paused.
    Paused {
        /// Attempt.
        attempt: AttemptId,
    },
    /// An attempt was asked to resume.
    ResumeAsked {
        /// Attempt.
        attempt: AttemptId,
    },
    /// An attempt resumed.
    Resumed {
        /// Attempt.
        attempt: AttemptId,
    },
    /// An attempt was asked to stop.
    StopAsked {
        /// Attempt.
        attempt: AttemptId,
        /// Reason for stopping it.
        why: StopReason,
    },
    /// An attempt ended.
    Ended {
        /// Attempt.
        attempt: AttemptId,
        /// End reason and usage.
        end: End,
        /// What becomes of the task.
        then: Disposition,
    },
    /// The memory charged on a shared device for an attempt changed: the larger of what its task requested and what
    /// its processes were measured to use. The measurement itself is telemetry; only a changed charge is an event.
    MemoryCharged {
        /// Attempt.
        attempt: AttemptId,
        /// Device index on the attempt's worker.
        device: u16,
        /// Bytes charged from now on.
        bytes: u64,
    },
    /// A claim was extended.
    ClaimExtended {
        /// Job.
        job: JobId,
        /// End of the claim, unless it is extended again.
        until: Time,
    },
    /// Speeds of profiles by device type, or hourly costs, were declared or measured.
    SpeedsSet {
        /// Speeds that changed.
        speeds: Vec<Speed>,
        /// Cost of a device-hour by type, where it changed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        costs: BTreeMap<String, f64>,
    },
    /// A task reported progress. Recorded only now and then, for planning.
    Progressed {
        /// Task.
        task: TaskId,
        /// Steps done since the task first started.
        steps: u64,
    },
    /// A new target allocation is in force.
    TargetSet {
        /// Target.
        target: Arc<Allocation>,
    },
    /// The solver found no target allocation; the one in force stays.
    TargetFailed {
        /// Cause of the failure.
        failed: SolveFailure,
    },
    /// A round of the policy in force began.
    RoundBegun {
        /// End of the round.
        until: Time,
    },
    /// Job numbers below `next` belong to another log and are not assigned again.
    NumbersSkipped {
        /// Number of the next job.
        next: JobId,
    },
    /// A policy was put in force.
    PolicySet {
        /// Policy and its parameters.
        policy: PolicyChoice,
    },
    /// New limits were put in force.
    LimitsSet {
        /// All limits.
        limits: Arc<Limits>,
    },
    /// A user's membership of the groups that have limits changed.
    GroupsTold {
        /// User.
        user: String,
        /// Names of the groups.
        groups: Vec<String>,
    },
}

impl EventKind {
    /// Job the event is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            EventKind::JobSubmitted { job, .. }
            | EventKind::JobHeld { job, .. }
            | EventKind::JobPriority { job, .. }
            | EventKind::Retried { job, .. }
            | EventKind::ClaimExtended { job, .. }
            | EventKind::JobForgotten { job } => Some(*job),
            EventKind::Cancelled { node, .. }
            | EventKind::TasksHeld { node, .. }
            | EventKind::TasksRetried { node, .. } => Some(node.job),
            EventKind::Placed { attempt, .. }
            | EventKind::Started { attempt }
            | EventKind::PauseAsked { attempt, .. }
            | EventKind::Paused { attempt }
            | EventKind::ResumeAsked { attempt }
            | EventKind::Resumed { attempt }
            | EventKind::StopAsked { attempt, .. }
            | EventKind::MemoryCharged { attempt, .. }
            | EventKind::Ended { attempt, .. } => Some(attempt.task.job),
            EventKind::Progressed { task, .. } | EventKind::RetryDue { task } => Some(task.job),
            EventKind::WorkerJoined { .. }
            | EventKind::WorkerLost { .. }
            | EventKind::WorkerDrained { .. }
            | EventKind::DeviceChanged { .. }
            | EventKind::EnvKept { .. }
            | EventKind::SpeedsSet { .. }
            | EventKind::TargetSet { .. }
            | EventKind::TargetFailed { .. }
            | EventKind::RoundBegun { .. }
            | EventKind::NumbersSkipped { .. }
            | EventKind::PolicySet { .. }
            | EventKind::LimitsSet { .. }
            | EventKind::GroupsTold { .. } => None,
        }
    }

    /// Whether the event changes a worker's assignments, so that the worker has to be sent them.
    pub fn concerns_workers(&self) -> bool {
        matches!(
            self,
            EventKind::Placed { .. }
                | EventKind::PauseAsked { .. }
                | EventKind::ResumeAsked { .. }
                | EventKind::StopAsked { .. }
                | EventKind::Ended { .. }
                | EventKind::WorkerJoined { .. }
                // Assignments acknowledge the report that drained the worker (quarantine), so it has to be sent them
                // as well.
                | EventKind::WorkerDrained { .. }
        )
    }
}

/// Description of a worker, as the worker itself gives it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Name, unique among workers.
    pub name: String,
    /// Devices, by index.
    pub devices: Vec<DeviceInfo>,
    /// CPU capacity in thousandths of a core.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory: u64,
    /// Lease duration: how long the worker may be silent before it is lost. None for the worker inside the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Labels by which jobs select workers, such as `rack` = `a`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Requester of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedBy {
    /// The policy, which may also resume the attempt.
    Policy,
    /// A user; only a user resumes the attempt then.
    User,
}

/// Reason for asking an attempt to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A user cancelled the task.
    Cancelled,
    /// A user cancelled the task without a grace period.
    Killed,
    /// The attempt left its devices idle for this long, longer than allowed.
    Idle(Span),
    /// The attempt is preempted and runs again later.
    Requeued,
}

impl StopReason {
    /// Whether the task ends with the attempt, instead of running again.
    pub fn gives_up(self) -> bool {
        match self {
            StopReason::Cancelled | StopReason::Killed | StopReason::Idle(_) => true,
            StopReason::Requeued => false,
        }
    }
}

/// Reason for the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The process exited with this code.
    Exited(i32),
    /// A signal that warpyard did not send killed the process.
    Signalled(i32),
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The attempt reached the limit on processes; it had this many.
    Crowded(u64),
    /// The kernel killed the attempt because it needed more main memory than the bytes its task requested.
    OutOfMemory(u64),
    /// Nothing was typed or printed in the attempt's terminal for this long.
    Idle(Span),
    /// The attempt was asked to stop.
    Stopped,
    /// The attempt could not be launched.
    NotStarted(String),
    /// The worker refused to launch the attempt, for a reason that is not the task's: a device was in use at the last
    /// moment.
    Declined(String),
    /// The end was not observed: the machine or the supervisor is gone.
    Lost(String),
}

/// End of an attempt: its reason and its resource usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Reason for the end.
    pub how: EndReason,
    /// Resource usage, as far as it was measured.
    #[serde(default)]
    pub usage: Usage,
}

/// Resource usage of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Running time, without pauses.
    #[serde(default)]
    pub ran: Span,
    /// CPU time.
    #[serde(default)]
    pub cpu: Span,
    /// Peak main memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<u64>,
    /// Peak device memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory: Option<u64>,
}

/// Disposition of a task whose attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The task is done.
    Done(Outcome),
    /// The task is ready for another attempt.
    Again,
    /// The task waits for another attempt until this time (backoff after repeated failures).
    Later(Time),
    /// The task waits for another attempt, and its job is held until a user releases it.
    Hold,
}

/// Final outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Another exit code, a signal, or a failed launch.
    Failed,
    /// Timeout exceeded.
    TimedOut,
    /// Cancelled by a user.
    Cancelled,
    /// Lost with its worker more often than is tolerated.
    Lost,
    /// A dependency ended the wrong way.
    Skipped,
}

impl Outcome {
    /// All outcomes, in the order tables list them.
    pub const ALL: [Outcome; 6] = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Cancelled,
        Outcome::Lost,
        Outcome::Skipped,
    ];

    /// Name used in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::TimedOut => "timed-out",
            Outcome::Cancelled => "cancelled",
            Outcome::Lost => "lost",
            Outcome::Skipped => "skipped",
        }
    }
}
