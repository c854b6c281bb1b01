//! What happened. Events are the log on disk: they are facts, they carry every decision that was taken, and their types
//! only ever grow.

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

/// The variables of an environment.
pub type Env = BTreeMap<String, String>;

/// Something that happened, and when the engine learned of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The engine's clock.
    pub at: Time,
    /// What it was.
    pub what: EventKind,
}

/// The kinds of things that happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A worker came, came back, or describes itself anew. Devices known before keep their index.
    WorkerJoined {
        /// Its number, given at first sight of its name.
        worker: WorkerId,
        /// What it is.
        info: WorkerInfo,
    },
    /// A worker's lease ran out.
    WorkerLost {
        /// Which.
        worker: WorkerId,
    },
    /// A worker starts nothing new (or does again).
    WorkerDrained {
        /// Which.
        worker: WorkerId,
        /// Whether it is drained now.
        drained: bool,
    },
    /// A device became usable, busy with someone else's work, or vanished.
    DeviceChanged {
        /// Which.
        device: DeviceId,
        /// What it is now.
        state: DeviceState,
    },
    /// An environment is kept for jobs to refer to.
    EnvKept {
        /// Its number.
        env: EnvId,
        /// Its variables.
        vars: Arc<Env>,
    },
    /// A job was accepted.
    JobSubmitted {
        /// Its number.
        job: JobId,
        /// Who submitted it.
        user: String,
        /// What it asks for.
        spec: Arc<JobSpec>,
    },
    /// A job starts nothing new (or does again).
    JobHeld {
        /// Which.
        job: JobId,
        /// Whether it is held now.
        held: bool,
    },
    /// A job's priority was changed.
    JobPriority {
        /// Which.
        job: JobId,
        /// The new priority.
        priority: i64,
    },
    /// Tasks that were not on any worker were cancelled.
    Cancelled {
        /// Their node.
        node: NodeId,
        /// Their positions.
        tasks: Ranges,
    },
    /// Ended tasks are to run again.
    Retried {
        /// Their job.
        job: JobId,
        /// Only those that did not succeed, and what depends on them.
        failed_only: bool,
    },
    /// Some tasks of a node start no more (or may again), whatever the job's others do.
    TasksHeld {
        /// Their node.
        node: NodeId,
        /// Their positions.
        tasks: Ranges,
        /// Whether they are held now.
        held: bool,
    },
    /// Some ended tasks of a node are to run again, and nodes that were skipped because of it.
    TasksRetried {
        /// Their node.
        node: NodeId,
        /// Their positions.
        tasks: Ranges,
    },
    /// A task whose next try was put off may be tried now.
    RetryDue {
        /// Which.
        task: TaskId,
    },
    /// An ended job left the memory; its history stays in the derived tables.
    JobForgotten {
        /// Which.
        job: JobId,
    },
    /// A task was given a place.
    Placed {
        /// The try it begins.
        attempt: AttemptId,
        /// Where.
        placement: Placement,
    },
    /// The process runs.
    Started {
        /// Which try.
        attempt: AttemptId,
    },
    /// An attempt is to pause.
    PauseAsked {
        /// Which try.
        attempt: AttemptId,
        /// Who wants it.
        by: RequestedBy,
        /// At which moment of its work.
        #[serde(default, skip_serializing_if = "Boundary::is_any")]
        at: Boundary,
    },
    /// An attempt stands still.
    Paused {
        /// Which try.
        attempt: AttemptId,
    },
    /// An attempt is to go on.
    ResumeAsked {
        /// Which try.
        attempt: AttemptId,
    },
    /// An attempt goes on.
    Resumed {
        /// Which try.
        attempt: AttemptId,
    },
    /// An attempt is to end.
    StopAsked {
        /// Which try.
        attempt: AttemptId,
        /// Why.
        why: StopReason,
    },
    /// An attempt is over.
    Ended {
        /// Which try.
        attempt: AttemptId,
        /// How its process ended and what it used.
        end: End,
        /// What becomes of the task.
        then: Disposition,
    },
    /// A shared device is charged another amount of memory for an attempt: the larger of what its task requested and what
    /// its processes were measured to use. The measurement itself is telemetry; an event only where the charge changes.
    MemoryCharged {
        /// Which try.
        attempt: AttemptId,
        /// The device, by index on the attempt's worker.
        device: u16,
        /// Bytes charged from now on.
        bytes: u64,
    },
    /// A claim lasts until then.
    ClaimExtended {
        /// Which.
        job: JobId,
        /// When it ends unless extended again.
        until: Time,
    },
    /// Speeds of profiles on types of device, and what those cost, as said or measured.
    SpeedsSet {
        /// Those that changed.
        speeds: Vec<Speed>,
        /// What an hour of a device of each type costs, where that changed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        costs: BTreeMap<String, f64>,
    },
    /// A task said how far it is. Kept now and then only, for plans to go by.
    Progressed {
        /// Which.
        task: TaskId,
        /// Steps done since it first began.
        steps: u64,
    },
    /// Another target allocation is in force.
    TargetSet {
        /// Which.
        target: Arc<Allocation>,
    },
    /// No target allocation was found; the one in force stays.
    TargetFailed {
        /// Why.
        failed: SolveFailure,
    },
    /// A round of the policy in force began.
    RoundBegun {
        /// When it ends.
        until: Time,
    },
    /// Job numbers below this one belong to another log, and are not given again.
    NumbersSkipped {
        /// The number of the next job.
        next: JobId,
    },
    /// Another policy is in force.
    PolicySet {
        /// Which, with its parameters.
        policy: PolicyChoice,
    },
    /// Other limits are in force.
    LimitsSet {
        /// All of them.
        limits: Arc<Limits>,
    },
    /// A user is in these of the groups that have limits.
    GroupsTold {
        /// Who.
        user: String,
        /// Their names.
        groups: Vec<String>,
    },
}

impl EventKind {
    /// The job it happened to, if it did to one.
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

    /// Whether it changes what should be on a worker, which is then to be told.
    pub fn concerns_workers(&self) -> bool {
        matches!(
            self,
            EventKind::Placed { .. }
                | EventKind::PauseAsked { .. }
                | EventKind::ResumeAsked { .. }
                | EventKind::StopAsked { .. }
                | EventKind::Ended { .. }
                | EventKind::WorkerJoined { .. }
                // With the assignments a worker hears that its report was received, and with it what drained it.
                | EventKind::WorkerDrained { .. }
        )
    }
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Unique among workers.
    pub name: String,
    /// Its devices.
    pub devices: Vec<DeviceInfo>,
    /// Thousandths of a processor.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory: u64,
    /// How long its silence is borne; none for the worker inside the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

/// Who asked for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedBy {
    /// The policy, which may also take it back.
    Policy,
    /// A person, who alone may take it back.
    User,
}

/// Why an attempt is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person gave the task up.
    Cancelled,
    /// A person gave the task up and grants it no grace.
    Killed,
    /// It did nothing with its devices for so long, longer than is borne.
    Idle(Span),
    /// It gives way and runs again later.
    Requeued,
}

impl StopReason {
    /// Whether the task is over once its attempt is, and does not run again.
    pub fn gives_up(self) -> bool {
        match self {
            StopReason::Cancelled | StopReason::Killed | StopReason::Idle(_) => true,
            StopReason::Requeued => false,
        }
    }
}

/// How an attempt's process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, not sent by us.
    Signalled(i32),
    /// Ended because it ran too long.
    TimedOut,
    /// Ended because it had so many processes.
    Crowded(u64),
    /// Killed because it needed more main memory than the bytes its task requested.
    OutOfMemory(u64),
    /// Ended because nothing was typed or printed in its terminal for so long.
    Idle(Span),
    /// Ended because it was asked to.
    Stopped,
    /// Never began.
    NotStarted(String),
    /// Never began, through no fault of its own: the worker found a device taken at the last moment.
    Declined(String),
    /// Nobody knows: its machine or supervisor is gone.
    Lost(String),
}

/// How an attempt ended and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// EndReason.
    pub how: EndReason,
    /// What it used, as far as anyone could tell.
    #[serde(default)]
    pub usage: Usage,
}

/// What an attempt used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Running time, pauses left out.
    #[serde(default)]
    pub ran: Span,
    /// Processor time.
    #[serde(default)]
    pub cpu: Span,
    /// The most main memory at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<u64>,
    /// The most device memory at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory: Option<u64>,
}

/// What becomes of a task whose attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It is done.
    Done(Outcome),
    /// It waits to be tried again.
    Again,
    /// It waits to be tried again from this moment on, because it failed several times.
    Later(Time),
    /// It waits, and its job is held until someone looks.
    Hold,
}

/// How a task ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Exit code 0.
    Succeeded,
    /// Another exit code, a signal, or it could not start.
    Failed,
    /// It ran longer than it promised.
    TimedOut,
    /// Someone gave it up.
    Cancelled,
    /// Its machine was lost once too often.
    Lost,
    /// Something it depends on ended the wrong way.
    Skipped,
}

impl Outcome {
    /// All of them, in the order they are listed in tables.
    pub const ALL: [Outcome; 6] = [
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Cancelled,
        Outcome::Lost,
        Outcome::Skipped,
    ];

    /// The word used in JSON and tables.
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
