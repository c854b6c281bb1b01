//! Jobs, tasks and attempts as they are shown.

use super::{Needs, StartRange, Timestamp};
use crate::quantity::{ArraySpec, Micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a task is on its way. A job is done once all its tasks are, and until then where the one furthest along is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for other tasks.
    Blocked,
    /// Could run; waits for its turn and for room.
    Ready,
    /// Has its devices; is being started.
    Placed,
    /// Runs.
    Running,
    /// Was stopped in place and will go on.
    Paused,
    /// Is being ended.
    Stopping,
    /// Has ended.
    Done,
}

impl State {
    /// Every state, in the order of a task's way.
    pub const ALL: [Self; 7] =
        [Self::Blocked, Self::Ready, Self::Placed, Self::Running, Self::Paused, Self::Stopping, Self::Done];

    /// The word for it in JSON and tables.
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

/// How a task or an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It exited with 0.
    Succeeded,
    /// It exited with something else, or could not be started.
    Failed,
    /// It ran into its timeout.
    TimedOut,
    /// Someone cancelled it.
    Cancelled,
    /// Its worker was lost.
    Lost,
    /// It never ran, since a dependency ended the wrong way.
    Skipped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Lost, Self::Skipped];

    /// The word for it in JSON and tables.
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

/// Why an attempt failed, where more is known than its exit code or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// It needed more main memory than it requested, and was killed.
    OutOfMemory,
    /// It had more processes than a task may have, and was killed.
    TooManyProcesses,
    /// Its program could not be started.
    NotStarted,
}

impl FailureReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::OutOfMemory, Self::TooManyProcesses, Self::NotStarted];

    /// The word for it in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out-of-memory",
            Self::TooManyProcesses => "too-many-processes",
            Self::NotStarted => "not-started",
        }
    }

    /// The reason a word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// A job. Where tasks were selected (`412.train`), its `state` and `outcome` are theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Its id; a larger one was submitted later.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Where it is on its way.
    pub state: State,
    /// How it ended, once it has: succeeded only if all its tasks did.
    pub outcome: Option<Outcome>,
    /// Whose it is.
    pub user: String,
    /// How urgent it is; more is more urgent.
    pub priority: i64,
    /// What it is counted towards.
    pub project: Option<String>,
    /// Whether someone holds it back.
    pub held: bool,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When its first task started.
    pub started_at: Option<Timestamp>,
    /// When its last task ended.
    pub ended_at: Option<Timestamp>,
    /// How many GPUs one of its tasks asks for, at most.
    pub gpus: u32,
    /// How many of its tasks are where.
    pub counts: StateCounts,
    /// How those that are done ended.
    pub outcomes: OutcomeCounts,
    /// Its place in line, counted from 1, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When it will likely start, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<StartRange>,
    /// Why no start can be named, or what a wide range hinges on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// When it should have ended, by its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Whether it ended, or still goes on, after its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_missed: Option<bool>,
    /// In one line, why it waits or ended as it did; of several tasks that failed, the most common reason and an example.
    pub why: Option<String>,
    /// Where its tasks use more GPU memory than they requested; they are charged for what they use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_request: Vec<MemoryOveruse>,
    /// What should be known of it: limits it requested that are not enforced here, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The last lines that the task printed which `why` tells of, where it failed and one job is asked for; for its owner
    /// and admins. What a terminal might obey is written out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
    /// The task `log_tail` is of, as a selector, where the job has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_of: Option<String>,
    /// The directory it runs in a copy of, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<super::SnapshotView>,
    /// What its tasks run, secrets masked; for its owner and admins, where one job is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<ProgramView>,
    /// Its tasks; an array is one entry unless expanded.
    pub tasks: Vec<TaskView>,
    /// Where the tasks go on, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A task that uses more memory of a GPU than it requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryOveruse {
    /// The task, as it is selected: `412.train[3]`.
    pub task: String,
    /// The GPU, `worker/0`.
    pub gpu: String,
    /// What it requested.
    pub requested_bytes: u64,
    /// What it is charged for: about what it uses.
    pub charged_bytes: u64,
}

/// What a task runs. Whatever looks like a secret is masked; the task itself has it as it was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramView {
    /// The task's name.
    pub task: String,
    /// The program and its arguments, as one line.
    pub command: String,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The variables set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it has besides of the environment it was submitted from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
}

/// A task, or a whole array folded to counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Its name.
    pub name: String,
    /// Its array index; nothing for a task that is no array's, and for a folded array.
    pub index: Option<u32>,
    /// Where it is on its way.
    pub state: State,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// What its last attempt exited with.
    pub exit_code: Option<i32>,
    /// The signal that ended its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why its last attempt failed, where more is known than exit code or signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// Its attempts, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
    /// In one line, why it waits or ended as it did; of a skipped one, which dependency ended the wrong way.
    pub why: Option<String>,
    /// The terminal it runs in, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalView>,
    /// What it needs to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// How long an attempt may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// How much of that its attempt has left, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_seconds: Option<f64>,
    /// How many failed attempts are followed by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The indices of a folded array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// How many tasks of a folded array are where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<StateCounts>,
    /// How those of a folded array that are done ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<OutcomeCounts>,
}

/// A terminal that a task runs in and people can attach to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalView {
    /// It is ended when nothing was typed or printed for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Micros>,
}

/// One try of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Which try, counted from 1.
    pub number: u32,
    /// Where it ran.
    pub worker: String,
    /// The devices it had, as `worker/0`.
    pub devices: Vec<String>,
    /// When it started; nothing while it is being started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why it failed, where more is known than exit code or signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// How it ended in words, unless it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it exited with.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The most GPU memory it had, where the device tells.
    pub peak_gpu_memory_bytes: Option<u64>,
    /// The most memory its processes had.
    pub peak_rss_bytes: Option<u64>,
    /// CPU time it used.
    pub cpu_seconds: Option<f64>,
    /// GPUs it held times how long it ran.
    pub gpu_seconds: f64,
}

/// How many tasks are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StateCounts {
    /// Waiting for other tasks.
    pub blocked: u64,
    /// Waiting for their turn.
    pub ready: u64,
    /// Being started.
    pub placed: u64,
    /// Running.
    pub running: u64,
    /// Stopped in place.
    pub paused: u64,
    /// Being ended.
    pub stopping: u64,
    /// Ended.
    pub done: u64,
}

impl StateCounts {
    /// The count of one state, to read or to raise.
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

    /// All of them together.
    pub fn total(mut self) -> u64 {
        State::ALL.into_iter().map(|state| *self.of(state)).sum()
    }
}

/// How many tasks ended in each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OutcomeCounts {
    /// Exited with 0.
    pub succeeded: u64,
    /// Exited with something else.
    pub failed: u64,
    /// Ran into their timeout.
    pub timed_out: u64,
    /// Were cancelled.
    pub cancelled: u64,
    /// Their workers were lost.
    pub lost: u64,
    /// Never ran.
    pub skipped: u64,
}

impl OutcomeCounts {
    /// The count of one outcome, to read or to raise.
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

    /// All of them together.
    pub fn total(mut self) -> u64 {
        Outcome::ALL.into_iter().map(|outcome| *self.of(outcome)).sum()
    }
}

/// One attempt that ended, as history lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    /// The job's id.
    pub job: String,
    /// The job's name.
    pub name: String,
    /// The task's name.
    pub task: String,
    /// The task's array index.
    pub index: Option<u32>,
    /// Whose it was.
    pub user: String,
    /// What it was counted towards.
    pub project: Option<String>,
    /// How urgent it was.
    pub priority: i64,
    /// When the job was submitted.
    pub submitted_at: Timestamp,
    /// What it promised as its longest run.
    pub timeout_seconds: Option<f64>,
    /// The attempt itself.
    pub attempt: AttemptView,
}
