//! Commands: requests to change the state, and their rejections.

use crate::event::{End, EndReason, Env, Usage, WorkerInfo};
use crate::ids::{AttemptId, DeviceId, JobId, NodeId, TaskId, WorkerId};
use crate::limits::Limits;
use crate::policy::PolicyChoice;
use crate::pool::DeviceState;
use crate::protocol::Report;
use crate::shares::{Allocation, SolveFailure, Speed};
use crate::small::SmallMap;
use crate::spec::JobSpec;
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Command: a request of a user, a worker or the engine itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Accepts a job.
    Submit {
        /// Submitting user.
        user: String,
        /// Environment its tasks inherit.
        env: Option<Arc<Env>>,
        /// Job specification; its `env` field is filled in when the command is decided.
        spec: Arc<JobSpec>,
    },
    /// Cancels tasks, with their grace period.
    Cancel(TaskSelector),
    /// Cancels tasks without a grace period, also tasks that are stopping already.
    Kill(TaskSelector),
    /// Ends an attempt that left its devices idle for this long.
    EndIdle(AttemptId, Span),
    /// Holds tasks: none of them starts.
    Hold(TaskSelector),
    /// Releases held tasks.
    Release(TaskSelector),
    /// Changes a job's priority.
    SetPriority(JobId, i64),
    /// Runs ended tasks again.
    Retry {
        /// Tasks to run again.
        target: TaskSelector,
        /// Only tasks that did not succeed.
        failed_only: bool,
    },
    /// Pauses running tasks and holds waiting ones.
    Pause(TaskSelector),
    /// Resumes paused tasks.
    Resume(TaskSelector),
    /// Executes several commands in order, in one step. Nothing is planned in between, so no task that a later
    /// command names starts because of an earlier one. A rejected command does not stop the others.
    Several(Vec<Command>),
    /// Drains a worker (it starts nothing new), or puts it back into service.
    Drain {
        /// Worker.
        worker: WorkerId,
        /// Whether to drain it.
        drained: bool,
        /// Why, for people.
        reason: Option<String>,
    },
    /// Accepts a claim for a process that already uses devices, and grants it those devices at once.
    Adopt {
        /// User the process belongs to.
        user: String,
        /// The claim.
        spec: JobSpec,
        /// Devices the process uses, all of one worker.
        devices: Vec<DeviceId>,
    },
    /// Renews the lease of a claim: its holder is alive.
    Heard(JobId),
    /// Extends a claim.
    Extend {
        /// Job.
        job: JobId,
        /// Extension.
        by: Span,
    },
    /// Puts a policy in force.
    SetPolicy(PolicyChoice),
    /// Puts limits in force.
    SetLimits(Arc<Limits>),
    /// Sets a user's membership of the groups that have limits.
    TellGroups {
        /// User.
        user: String,
        /// Names of the groups.
        groups: Vec<String>,
    },
    /// Sets speeds of profiles, and device-hour costs, as declared or measured.
    SetSpeeds {
        /// Speeds of profiles.
        speeds: Vec<Speed>,
        /// Costs of a device-hour, by type.
        costs: BTreeMap<String, f64>,
    },
    /// Records a task's progress.
    Progress {
        /// Attempt that reports it.
        attempt: AttemptId,
        /// Steps done since the task first started.
        steps: u64,
    },
    /// Puts a target allocation in force, or records that the solver found none. The result may be late: tasks that
    /// have ended meanwhile are left out, and a result solved for another policy is ignored.
    SetTarget(Result<Allocation, SolveFailure>),
    /// Registers a worker.
    Join(WorkerInfo),
    /// Receives a report as a link delivered it. The engine drops late and duplicate reports; of any other it
    /// executes the parts: [`Join`](Command::Join), [`Report`](Command::Report),
    /// [`MeasuredMemory`](Command::MeasuredMemory).
    Receive {
        /// Sender.
        worker: WorkerId,
        /// The report.
        report: Box<Report>,
    },
    /// Records what a worker observes of its attempts and devices.
    Report {
        /// Reporting worker.
        worker: WorkerId,
        /// Status of each attempt.
        attempts: SmallMap<AttemptId, AttemptStatus>,
        /// Device states, by the driver's device name.
        devices: BTreeMap<String, DeviceState>,
    },
    /// Records how much device memory attempts were measured to use.
    MeasuredMemory {
        /// Reporting worker.
        worker: WorkerId,
        /// Bytes in use.
        used: MemoryUse,
    },
    /// Declares a worker lost: its lease expired.
    GiveUp(WorkerId),
    /// Evicts an ended job from memory.
    Forget(JobId),
}

/// Device memory in use in bytes, by attempt and the driver's device name. An absent entry was not measured.
pub type MemoryUse = BTreeMap<AttemptId, BTreeMap<String, u64>>;

/// Selection of tasks that a command applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSelector {
    /// All tasks of a job.
    Job(JobId),
    /// All tasks of a node.
    Node(NodeId),
    /// Tasks of a node in a range of positions. A range stays a range, so that selecting a million tasks costs no
    /// more than selecting one.
    Range {
        /// Node of the tasks.
        node: NodeId,
        /// First position.
        start: u32,
        /// Position after the last.
        end: u32,
    },
    /// One task.
    Task(TaskId),
}

impl From<JobId> for TaskSelector {
    fn from(job: JobId) -> TaskSelector {
        TaskSelector::Job(job)
    }
}

impl TaskSelector {
    /// Job of the selected tasks.
    pub fn job(self) -> JobId {
        match self {
            TaskSelector::Job(job) => job,
            TaskSelector::Node(node) | TaskSelector::Range { node, .. } => node.job,
            TaskSelector::Task(task) => task.job,
        }
    }

    /// Node of the selected tasks; none if the whole job is selected.
    pub fn node(self) -> Option<NodeId> {
        match self {
            TaskSelector::Job(_) => None,
            TaskSelector::Node(node) | TaskSelector::Range { node, .. } => Some(node),
            TaskSelector::Task(task) => Some(task.node_id()),
        }
    }

    /// Positions selected of a node with `len` tasks.
    pub fn positions(self, node: NodeId, len: u32) -> Range<u32> {
        match self {
            TaskSelector::Job(job) if node.job == job => 0..len,
            TaskSelector::Node(meant) if node == meant => 0..len,
            TaskSelector::Range { node: meant, start, end } if node == meant => start.min(len)..end.min(len),
            TaskSelector::Task(task) if node == task.node_id() && task.index < len => {
                task.index..task.index + 1
            }
            _ => 0..0,
        }
    }

    /// The same selection in another job.
    pub fn in_job(self, job: JobId) -> TaskSelector {
        match self {
            TaskSelector::Job(_) => TaskSelector::Job(job),
            TaskSelector::Node(node) => TaskSelector::Node(NodeId { job, ..node }),
            TaskSelector::Range { node, start, end } => {
                TaskSelector::Range { node: NodeId { job, ..node }, start, end }
            }
            TaskSelector::Task(task) => TaskSelector::Task(TaskId { job, ..task }),
        }
    }

    /// Whether a task is selected.
    pub fn contains(self, task: TaskId) -> bool {
        self.positions(task.node_id(), u32::MAX).contains(&task.index)
    }
}

/// Status of an attempt that a worker has begun. Executors observe it, agents keep it and workers report it, absolute and
/// again and again; the core derives what changed, so that a lost, late or duplicate message does no harm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The process runs.
    Running,
    /// The process is frozen.
    Frozen,
    /// The attempt ended.
    Over(End),
}

impl AttemptStatus {
    /// Status of an attempt that ended without having started, or without a record of its usage.
    pub fn ended(how: EndReason) -> AttemptStatus {
        AttemptStatus::Over(End { how, usage: Usage::default() })
    }
}

/// Rejection of a command: a stable code for programs, a message for people, and the field it is about, if any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// Stable code, in kebab-case for programs.
    pub code: Code,
    /// Message for people.
    pub message: String,
    /// Path of the rejected field, such as `tasks[2].gpu_memory`.
    pub path: Option<String>,
    /// Suggested remedy.
    pub help: Option<String>,
}

impl Rejection {
    /// Rejection with a code and a message only.
    pub fn new(code: Code, message: impl Into<String>) -> Rejection {
        Rejection { code, message: message.into(), path: None, help: None }
    }

    /// Names the rejected field.
    pub fn at(mut self, path: impl Into<String>) -> Rejection {
        self.path = Some(path.into());
        self
    }

    /// Suggests a remedy.
    pub fn help(mut self, help: impl Into<String>) -> Rejection {
        self.help = Some(help.into());
        self
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Codes of rejections.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Name of the code, as programs see it.
            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The job does not exist, or no longer does.
    NoSuchJob = "unknown-job",
    /// The job has no such task.
    NoSuchTask = "unknown-task",
    /// The worker does not exist.
    NoSuchWorker = "unknown-worker",
    /// The job named in `after` does not exist.
    NoSuchDependency = "unknown-job",
    /// All selected tasks have ended already.
    AlreadyDone = "wrong-state",
    /// No selected task has ended yet.
    NotDone = "wrong-state",
    /// No selected task can run again.
    NothingToRetry = "wrong-state",
    /// A dependent of the task to run again has already started, or one of its dependencies has not succeeded.
    DependsOnOthers = "wrong-state",
    /// The job is held already.
    AlreadyHeld = "wrong-state",
    /// The job is not held.
    NotHeld = "wrong-state",
    /// The command applies to claims only, or to anything but claims.
    Claims = "wrong-state",
    /// The device is allocated already.
    DeviceTaken = "wrong-state",
    /// No device of the cluster has an acceptable type.
    NoDeviceOfType = "no-such-gpu-type",
    /// No device of the cluster has enough memory.
    NoDeviceLargeEnough = "no-device-large-enough",
    /// No worker has enough (acceptable) devices.
    TooManyGpus = "too-few-gpus",
    /// No worker has enough CPUs.
    TooManyCpus = "too-few-cpus",
    /// No worker has enough main memory.
    TooMuchMemory = "too-little-memory",
    /// A device named in `scope` or `preferred` does not exist.
    NoSuchDevice = "no-such-device",
    /// No policy has this name.
    NoSuchPolicy = "unknown-policy",
    /// The policy has no such parameter, or the value is invalid.
    BadParameter = "bad-parameter",
    /// The idempotency key was used before for a different submission.
    KeyUsed = "idempotency-mismatch",
    /// The policy in force rejects the job.
    RefusedByPolicy = "refused-by-policy",
    /// The job exceeds a limit of its user.
    OverLimit = "over-limit",
    /// A speed or cost is not a valid number.
    BadSpeed = "bad-speed",
    /// A part of a plan no longer applies.
    StalePlan = "stale-plan",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
