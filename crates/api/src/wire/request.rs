//! Requests, their direct answers, pages of long lists, and the body of a refusal.

use super::{Outcome, State};
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The job document, read by [`crate::job::read_value`] so that all that is wrong is told.
    #[schemars(with = "crate::job::AnyJob")]
    pub doc: serde_json::Value,
    /// Whose job it is, from the login of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where tasks run that name no directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The environment of tasks, under what each sets itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether tasks have the login environment of the user they run as, under `env`, and run in that user's home where no
    /// directory is named: for whoever submits from elsewhere than a shell, as the pages do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_environment: bool,
    /// The snapshot of `workdir` it runs in a copy of, all of which was sent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The size of the terminal it was submitted from, for those of its tasks that run in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// The same key twice by the same user is the same job, however often it is sent, also after a restart of the server;
    /// for as long as the job is known (the last 10,000 that ended are). At most 255 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// How many lines.
    pub rows: u16,
    /// How many characters to a line.
    pub columns: u16,
}

/// The job that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitReply {
    /// Its id.
    pub job: String,
    /// What is odd about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}

/// A job's new priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityRequest {
    /// More is more urgent.
    pub priority: i64,
}

/// How to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelOptions {
    /// Kill at once, without a grace period, also what was asked to end before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

/// What of a job to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Only what did not succeed.
    #[serde(default)]
    pub failed_only: bool,
}

/// How to stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// End running tasks too; otherwise they go on and are found again.
    #[serde(default)]
    pub kill_tasks: bool,
}

/// What a request changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActionResult {
    /// The jobs it was about.
    pub jobs: Vec<String>,
    /// How many tasks it changed; those already where they should be do not count.
    pub tasks: u64,
}

/// What recreating the derived tables did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildResult {
    /// How many rows they have now.
    pub rows: u64,
}

/// A part of a long list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// This part.
    pub items: Vec<T>,
    /// The cursor that asks for the part after it, if there is one.
    pub next: Option<String>,
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFilter {
    /// Those of a [`Selector`](crate::selector::Selector): `3-7`, `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
    /// Those of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Those of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Those of a name; `*` stands for any characters and `?` for any one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Those in a state, held, or ended in a certain way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateFilter>,
    /// In which order.
    #[serde(default, skip_serializing_if = "JobOrder::is_default")]
    pub order: JobOrder,
    /// Also what their tasks run, secrets masked; of one's own jobs, and for admins of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
    /// Also those that are done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The order of a list of jobs. A cursor belongs to the order it came from and is a place in it: whatever comes or goes
/// between two pages, a job that keeps its place is on exactly one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobOrder {
    /// The first submitted first.
    #[default]
    Id,
    /// As the policy will run them: those on a worker, then the queue, then those that wait for something else, and last
    /// those that are over, the newest first.
    Run,
    /// The last submitted first.
    Newest,
}

impl JobOrder {
    fn is_default(&self) -> bool {
        *self == Self::Id
    }
}

/// What a list of jobs can be narrowed to: a state, being held, or how a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateFilter {
    /// Waits for other tasks, or is held.
    Blocked,
    /// Held back by someone.
    Held,
    /// Waits for its turn and for room.
    Ready,
    /// Has its devices; is being started.
    Placed,
    /// Runs.
    Running,
    /// Was stopped in place and will go on.
    Paused,
    /// Is being ended.
    Stopping,
    /// Has ended, however it did.
    Done,
    /// All its tasks succeeded.
    Succeeded,
    /// A task of it failed.
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

impl StateFilter {
    /// Every one, in the order of a job's way.
    pub const ALL: [Self; 14] = [
        Self::Blocked,
        Self::Held,
        Self::Ready,
        Self::Placed,
        Self::Running,
        Self::Paused,
        Self::Stopping,
        Self::Done,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Lost,
        Self::Skipped,
    ];

    /// The word for it in JSON and on the command line.
    pub fn word(self) -> &'static str {
        match self.meaning() {
            Meaning::Held => "held",
            Meaning::In(state) => state.word(),
            Meaning::Ended(outcome) => outcome.word(),
        }
    }

    /// Whether it asks for jobs that are over.
    pub fn is_over(self) -> bool {
        matches!(self.meaning(), Meaning::In(State::Done) | Meaning::Ended(_))
    }

    /// The state all jobs asked for are in, where that is one.
    pub fn state(self) -> Option<State> {
        match self.meaning() {
            Meaning::In(state) => Some(state),
            Meaning::Ended(_) => Some(State::Done),
            Meaning::Held => None,
        }
    }

    /// Whether a job in this state, with this outcome once it is done, is one of those asked for.
    pub fn fits(self, state: State, outcome: Option<Outcome>, held: bool) -> bool {
        match self.meaning() {
            Meaning::Held => held && state < State::Placed,
            Meaning::In(wanted) => state == wanted,
            Meaning::Ended(wanted) => outcome == Some(wanted),
        }
    }

    fn meaning(self) -> Meaning {
        match self {
            Self::Held => Meaning::Held,
            Self::Blocked => Meaning::In(State::Blocked),
            Self::Ready => Meaning::In(State::Ready),
            Self::Placed => Meaning::In(State::Placed),
            Self::Running => Meaning::In(State::Running),
            Self::Paused => Meaning::In(State::Paused),
            Self::Stopping => Meaning::In(State::Stopping),
            Self::Done => Meaning::In(State::Done),
            Self::Succeeded => Meaning::Ended(Outcome::Succeeded),
            Self::Failed => Meaning::Ended(Outcome::Failed),
            Self::TimedOut => Meaning::Ended(Outcome::TimedOut),
            Self::Cancelled => Meaning::Ended(Outcome::Cancelled),
            Self::Lost => Meaning::Ended(Outcome::Lost),
            Self::Skipped => Meaning::Ended(Outcome::Skipped),
        }
    }
}

enum Meaning {
    Held,
    In(State),
    Ended(Outcome),
}

/// Which attempts to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryFilter {
    /// Those of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Those of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Those of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Those that ended since this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<super::Timestamp>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Which of a task's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Both, as they came.
    #[default]
    Both,
    /// What it printed.
    Stdout,
    /// The errors it printed.
    Stderr,
}

/// Which log to read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFilter {
    /// The task; may be left out where the job has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Its array index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Which try; the last where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Which stream.
    #[serde(default)]
    pub stream: LogStream,
    /// Whether to go on until the task ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// How many bytes to leave out from the beginning; where several attempts follow each other, of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
}

/// The body of a refusal: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemBody {
    /// The kind of problem, as an address that need not lead anywhere.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One of [`CODES`](crate::problem::CODES).
    pub code: String,
    /// What is wrong this time.
    pub detail: String,
    /// Each thing that is wrong, where it can be told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

impl ProblemBody {
    /// One thing that is wrong.
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let def = crate::problem::CODES.iter().find(|def| def.code == code);
        Self {
            kind: format!("urn:warpyard:{code}"),
            title: def.map_or(code, |def| def.meaning).to_owned(),
            status,
            code: code.to_owned(),
            detail: detail.into(),
            problems: Vec::new(),
        }
    }

    /// Everything that is wrong with a document; the first of it gives the whole its code.
    pub fn of_problems(status: u16, problems: Vec<Problem>) -> Self {
        let (code, detail) = match problems.first() {
            Some(first) if first.path.is_empty() => (first.code.to_string(), first.message.clone()),
            Some(first) => (first.code.to_string(), format!("{}: {}", first.path, first.message)),
            None => (crate::problem::code::BAD_REQUEST.to_owned(), String::new()),
        };
        let title = crate::problem::CODES
            .iter()
            .find(|def| def.code == code)
            .map_or("", |def| def.meaning)
            .to_owned();
        Self { kind: format!("urn:warpyard:{code}"), title, status, code, detail, problems }
    }
}
