//! Jobs, tasks and attempts.

use super::{Needs, StartRange, Timestamp};
use crate::quantity::{ArraySpec, Micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a task. A job is done once all its tasks are; until then it is in the state of the task that is furthest
/// along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waiting for other tasks or jobs, or held.
    Blocked,
    /// Waiting in the queue.
    Ready,
    /// Placed on devices and being started.
    Placed,
    /// Running.
    Running,
    /// Suspended in place; it will resume.
    Paused,
    /// Being ended.
    Stopping,
    /// Ended.
    Done,
}

impl State {
    /// Every state, in the order a task goes through them.
    pub const ALL: [Self; 7] =
        [Self::Blocked, Self::Ready, Self::Placed, Self::Running, Self::Paused, Self::Stopping, Self::Done];

    /// The word in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Ready => "ready",
            Self::Placed => "placed",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Done => "done",
        }
    }
}

/// Outcome of a task or an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Exited with 0.
    Succeeded,
    /// Exited with another code, was ended by a signal, or could not be started.
    Failed,
    /// Reached its timeout.
    TimedOut,
    /// Was cancelled.
    Cancelled,
    /// Its worker was lost.
    Lost,
    /// Never ran, because a dependency did not end as required.
    Skipped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Lost, Self::Skipped];

    /// The word in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
        }
    }
}

/// Cause of a failure, where more is known than the exit code or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// Exceeded the main memory it requested, and was killed.
    OutOfMemory,
    /// Exceeded the process limit, and was killed.
    TooManyProcesses,
    /// Its program could not be started.
    NotStarted,
}

impl FailureReason {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::OutOfMemory, Self::TooManyProcesses, Self::NotStarted];

    /// The word in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out-of-memory",
            Self::TooManyProcesses => "too-many-processes",
            Self::NotStarted => "not-started",
        }
    }

    /// Parses the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// A job. Where the request selects tasks (`412.train`), `state` and `outcome` are those of the tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Id; larger ids were submitted later.
    pub job: String,
    /// Name.
    pub name: String,
    /// State.
    pub state: State,
    /// Outcome, once it has ended; `succeeded` only if all its tasks succeeded.
    pub outcome: Option<Outcome>,
    /// User it belongs to.
    pub user: String,
    /// Priority: a larger number is more urgent.
    pub priority: i64,
    /// Project it belongs to.
    pub project: Option<String>,
    /// Whether it is held.
    pub held: bool,
    /// Time of submission.
    pub submitted_at: Timestamp,
    /// Start of its first task.
    pub started_at: Option<Timestamp>,
    /// End of its last task.
    pub ended_at: Option<Timestamp>,
    /// Number of GPUs of its largest task.
    pub gpus: u32,
    /// Number of its tasks in each state.
    pub counts: StateCounts,
    /// Number of its ended tasks by outcome.
    pub outcomes: OutcomeCounts,
    /// Position in the queue, counted from 1, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Expected start, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<StartRange>,
    /// Why no start can be predicted, or what a wide range depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Whether it missed its deadline: it ended later, or has not ended yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_missed: Option<bool>,
    /// Why it waits or ended as it did, in one line; where several tasks failed, the most common cause and an
    /// example.
    pub why: Option<String>,
    /// Tasks that use more GPU memory than they requested, which are charged for what they use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_request: Vec<MemoryOveruse>,
    /// Notes, such as requested limits that are not enforced here, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Last lines of output of the failed task that `why` is about, with control characters escaped. Only where one
    /// job is requested, by its owner or an admin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
    /// Task that `log_tail` comes from, as a selector, where the job has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_of: Option<String>,
    /// Snapshot of the working directory it runs in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<super::SnapshotView>,
    /// Programs of its tasks, with secrets masked. Only where one job is requested, by its owner or an admin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<ProgramView>,
    /// Tasks; an array is one entry unless it is expanded.
    pub tasks: Vec<TaskView>,
    /// Cursor of the next page of tasks, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A task that uses more GPU memory than it requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryOveruse {
    /// Task, as a selector: `412.train[3]`.
    pub task: String,
    /// GPU, such as `worker/0`.
    pub gpu: String,
    /// Requested memory in bytes.
    pub requested_bytes: u64,
    /// Memory it is charged for in bytes: about what it uses.
    pub charged_bytes: u64,
}

/// The program of a task. Anything that looks like a secret is masked; the task itself receives it as submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramView {
    /// Name of the task.
    pub task: String,
    /// Program and arguments, as one line.
    pub command: String,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Model it runs, and how: `model.pt2, batch 32, training with adamw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment variables it sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Environment variables it inherited at submission.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
}

/// A task, or an array as one entry with counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Name.
    pub name: String,
    /// Array index; null for a task that is not part of an array, and for an array as one entry.
    pub index: Option<u32>,
    /// State.
    pub state: State,
    /// Outcome, once it has ended.
    pub outcome: Option<Outcome>,
    /// Exit code of its last attempt.
    pub exit_code: Option<i32>,
    /// Signal that ended its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Cause of its last attempt's failure, where more is known than the exit code or signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// Attempts, where they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
    /// Why it waits or ended as it did, in one line; for a skipped task, the dependency that did not end as required.
    pub why: Option<String>,
    /// Terminal it runs in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalView>,
    /// Resources it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// Time limit of an attempt in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Time left of that limit in seconds, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_seconds: Option<f64>,
    /// How often it is retried after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Indices of an array as one entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// Number of an array's tasks in each state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<StateCounts>,
    /// Number of an array's ended tasks by outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<OutcomeCounts>,
}

/// Terminal of a task, which clients can attach to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalView {
    /// Time after which the task is ended if nothing was typed or printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Micros>,
}

/// An attempt: one try of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Number, counted from 1.
    pub number: u32,
    /// Worker it ran on.
    pub worker: String,
    /// Devices it had, such as `worker/0`.
    pub devices: Vec<String>,
    /// Start; null while it is being started.
    pub started_at: Option<Timestamp>,
    /// End.
    pub ended_at: Option<Timestamp>,
    /// Outcome.
    pub outcome: Option<Outcome>,
    /// Cause of its failure, where more is known than the exit code or signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// How it ended in words, unless it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Peak GPU memory in bytes, where the device reports it.
    pub peak_gpu_memory_bytes: Option<u64>,
    /// Peak resident memory of its processes in bytes.
    pub peak_rss_bytes: Option<u64>,
    /// CPU time in seconds.
    pub cpu_seconds: Option<f64>,
    /// GPU time in seconds: its GPUs times its run time.
    pub gpu_seconds: f64,
}

/// Number of tasks in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StateCounts {
    /// Waiting for other tasks or jobs, or held.
    pub blocked: u64,
    /// Waiting in the queue.
    pub ready: u64,
    /// Being started.
    pub placed: u64,
    /// Running.
    pub running: u64,
    /// Suspended in place.
    pub paused: u64,
    /// Being ended.
    pub stopping: u64,
    /// Ended.
    pub done: u64,
}

impl StateCounts {
    /// The count of a state, to read or to increase.
    pub fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Blocked => &mut self.blocked,
            State::Ready => &mut self.ready,
            State::Placed => &mut self.placed,
            State::Running => &mut self.running,
            State::Paused => &mut self.paused,
            State::Stopping => &mut self.stopping,
            State::Done => &mut self.done,
        }
    }

    /// The sum of all counts.
    pub fn total(mut self) -> u64 {
        State::ALL.into_iter().map(|state| *self.of(state)).sum()
    }
}

/// Number of tasks by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OutcomeCounts {
    /// Exited with 0.
    pub succeeded: u64,
    /// Exited with another code, or could not be started.
    pub failed: u64,
    /// Reached their timeout.
    pub timed_out: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Lost with their workers.
    pub lost: u64,
    /// Never ran.
    pub skipped: u64,
}

impl OutcomeCounts {
    /// The count of an outcome, to read or to increase.
    pub fn of(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Failed => &mut self.failed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Lost => &mut self.lost,
            Outcome::Skipped => &mut self.skipped,
        }
    }

    /// The sum of all counts.
    pub fn total(mut self) -> u64 {
        Outcome::ALL.into_iter().map(|outcome| *self.of(outcome)).sum()
    }
}

/// An attempt that has ended, as the history lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    /// Id of the job.
    pub job: String,
    /// Name of the job.
    pub name: String,
    /// Name of the task.
    pub task: String,
    /// Array index of the task.
    pub index: Option<u32>,
    /// User it belonged to.
    pub user: String,
    /// Project it belonged to.
    pub project: Option<String>,
    /// Priority.
    pub priority: i64,
    /// Submission of the job.
    pub submitted_at: Timestamp,
    /// Time limit in seconds.
    pub timeout_seconds: Option<f64>,
    /// The attempt.
    pub attempt: AttemptView,
}
