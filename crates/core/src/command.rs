//! What is asked of the cluster, and how it refuses.

use crate::event::{End, Env, WorkerInfo};
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

/// Something asked by a person, a worker or the engine itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Accept a job.
    Submit {
        /// Who asks.
        user: String,
        /// The environment its tasks start from.
        env: Option<Arc<Env>>,
        /// The job; its own `env` field is filled in here.
        spec: Arc<JobSpec>,
    },
    /// Give tasks up.
    Cancel(TaskSelector),
    /// Give tasks up and grant them no grace, even if they were asked to end before.
    Kill(TaskSelector),
    /// Give an attempt up that did nothing with its devices for so long.
    EndIdle(AttemptId, Span),
    /// Start none of these tasks.
    Hold(TaskSelector),
    /// Start held tasks again.
    Release(TaskSelector),
    /// Change a job's priority.
    SetPriority(JobId, i64),
    /// Run ended tasks again.
    Retry {
        /// Which.
        target: TaskSelector,
        /// Only those that did not succeed.
        failed_only: bool,
    },
    /// Freeze running tasks and start none of those that wait.
    Pause(TaskSelector),
    /// Let paused tasks go on.
    Resume(TaskSelector),
    /// Execute commands one after another in one step: nothing is planned in between, so nothing that a later one names
    /// starts because of an earlier one. One that is refused stops none of the others.
    Several(Vec<Command>),
    /// Start nothing new on a worker, or again.
    Drain {
        /// Which.
        worker: WorkerId,
        /// Whether to drain it.
        drained: bool,
    },
    /// Accept a claim for a process that uses devices already, and give it those at once.
    Adopt {
        /// Whose it is.
        user: String,
        /// The claim.
        spec: JobSpec,
        /// The devices it uses, all of one worker.
        devices: Vec<DeviceId>,
    },
    /// Whoever holds a claim is still there.
    Heard(JobId),
    /// Let a claim last longer.
    Extend {
        /// Which.
        job: JobId,
        /// By how much.
        by: Span,
    },
    /// Put another policy in force.
    SetPolicy(PolicyChoice),
    /// Put other limits in force.
    SetLimits(Arc<Limits>),
    /// Say in which groups a user is, of those that have limits.
    TellGroups {
        /// Who.
        user: String,
        /// Their names.
        groups: Vec<String>,
    },
    /// Speeds of profiles, and what an hour of each type costs, as said or measured.
    SetSpeeds {
        /// Speeds.
        speeds: Vec<Speed>,
        /// Costs by type.
        costs: BTreeMap<String, f64>,
    },
    /// A task is so far.
    Progress {
        /// The attempt that says so.
        attempt: AttemptId,
        /// Steps done since the task first began.
        steps: u64,
    },
    /// A target allocation was found, or was not. It may come late: what has ended meanwhile is left out, and one asked
    /// for by another policy is ignored.
    SetTarget(Result<Allocation, SolveFailure>),
    /// A worker presents itself.
    Join(WorkerInfo),
    /// Take in a report as a link delivered it. The engine drops a late or doubled one; of any other it executes the
    /// parts: [`Join`](Command::Join), [`Report`](Command::Report), [`MeasuredMemory`](Command::MeasuredMemory).
    Receive {
        /// Who sent it.
        worker: WorkerId,
        /// The report.
        report: Box<Report>,
    },
    /// A worker says what happened to attempts and devices.
    Report {
        /// Who says it.
        worker: WorkerId,
        /// Where attempts stand.
        attempts: SmallMap<AttemptId, AttemptStatus>,
        /// How its devices are, by the driver's name.
        devices: BTreeMap<String, DeviceState>,
    },
    /// A worker says how much memory of its devices attempts were measured to use.
    MeasuredMemory {
        /// The worker.
        worker: WorkerId,
        /// Bytes in use.
        used: MemoryUse,
    },
    /// A worker's lease ran out.
    GiveUp(WorkerId),
    /// An ended job may leave the memory.
    Forget(JobId),
}

/// Bytes of device memory in use, by attempt and the driver's name of the device. What is absent was not measured.
pub type MemoryUse = BTreeMap<AttemptId, BTreeMap<String, u64>>;

/// Which tasks are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSelector {
    /// All of a job's.
    Job(JobId),
    /// All of a node's.
    Node(NodeId),
    /// Those of a node at these positions. Ranges stay ranges, so that naming a million tasks costs what naming one does.
    Range {
        /// Their node.
        node: NodeId,
        /// The first position.
        start: u32,
        /// The position after the last.
        end: u32,
    },
    /// One.
    Task(TaskId),
}

impl From<JobId> for TaskSelector {
    fn from(job: JobId) -> TaskSelector {
        TaskSelector::Job(job)
    }
}

impl TaskSelector {
    /// The job meant, or whose part is meant.
    pub fn job(self) -> JobId {
        match self {
            TaskSelector::Job(job) => job,
            TaskSelector::Node(node) | TaskSelector::Range { node, .. } => node.job,
            TaskSelector::Task(task) => task.job,
        }
    }

    /// The node meant, or whose part is meant; none where the whole job is.
    pub fn node(self) -> Option<NodeId> {
        match self {
            TaskSelector::Job(_) => None,
            TaskSelector::Node(node) | TaskSelector::Range { node, .. } => Some(node),
            TaskSelector::Task(task) => Some(task.node_id()),
        }
    }

    /// The positions meant of a node that has so many.
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

    /// The same target in another job.
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

    /// Whether a task is meant.
    pub fn contains(self, task: TaskId) -> bool {
        self.positions(task.node_id(), u32::MAX).contains(&task.index)
    }
}

/// Where an attempt stands, as its worker tells it. Workers tell what *is*, again and again; what *changed* is worked
/// out here, so that a lost, late or doubled message does no harm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// Its process runs.
    Running,
    /// It stands still.
    Frozen,
    /// It is over.
    Over(End),
}

/// A refused command: a stable code for programs, words for people, and the field it is about if it is about one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// Stable, in kebab-case.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// Where, such as `tasks[2].gpu_memory`.
    pub path: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Rejection {
    /// A refusal with nothing but a code and words.
    pub fn new(code: Code, message: impl Into<String>) -> Rejection {
        Rejection { code, message: message.into(), path: None, help: None }
    }

    /// Says which field is meant.
    pub fn at(mut self, path: impl Into<String>) -> Rejection {
        self.path = Some(path.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<String>) -> Rejection {
        self.help = Some(help.into());
        self
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why commands are refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as programs see it.
            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// There is no such job (any more).
    NoSuchJob = "unknown-job",
    /// There is no such task in the job.
    NoSuchTask = "unknown-task",
    /// There is no such worker.
    NoSuchWorker = "unknown-worker",
    /// The job named in `after` does not exist.
    NoSuchDependency = "unknown-job",
    /// Everything meant is over already.
    AlreadyDone = "wrong-state",
    /// Nothing meant is over yet.
    NotDone = "wrong-state",
    /// There is nothing to run again.
    NothingToRetry = "wrong-state",
    /// Tasks that depend on the one to be run again have begun, or one it depends on has not ended well.
    DependsOnOthers = "wrong-state",
    /// The job is held already.
    AlreadyHeld = "wrong-state",
    /// The job is not held.
    NotHeld = "wrong-state",
    /// This can be done to claims only, or to anything but claims.
    Claims = "wrong-state",
    /// The device is given to others already.
    DeviceTaken = "wrong-state",
    /// No device here is of an acceptable type.
    NoDeviceOfType = "no-such-gpu-type",
    /// No device here has so much memory.
    NoDeviceLargeEnough = "no-device-large-enough",
    /// No worker here has so many (acceptable) devices.
    TooManyGpus = "too-few-gpus",
    /// No worker here has so many processors.
    TooManyCpus = "too-few-cpus",
    /// No worker here has so much memory.
    TooMuchMemory = "too-little-memory",
    /// A device named in the scope or preference does not exist.
    NoSuchDevice = "no-such-device",
    /// No policy has that name.
    NoSuchPolicy = "unknown-policy",
    /// The policy has no such parameter, or the value is not one it takes.
    BadParameter = "bad-parameter",
    /// The key of a submission was used before for something else.
    KeyUsed = "idempotency-mismatch",
    /// The policy in force does not take such a job.
    RefusedByPolicy = "refused-by-policy",
    /// It would be more than its user may have.
    OverLimit = "over-limit",
    /// A speed or cost is no such number.
    BadSpeed = "bad-speed",
    /// A plan asked for something that is no longer so.
    StalePlan = "stale-plan",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
