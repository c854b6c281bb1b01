//! Requests and their replies, pages of long lists, and problem documents.

use super::{Outcome, State};
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request to submit a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The job document. All of its problems are reported at once.
    #[schemars(with = "crate::job::AnyJob")]
    pub doc: serde_json::Value,
    /// User the job belongs to. Taken from the login unless the caller may act for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Working directory of tasks that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Environment that tasks inherit; their own variables take precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether tasks also inherit the login environment of their user, and by default run in that user's home. For
    /// clients that do not submit from a shell, as the pages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_environment: bool,
    /// Snapshot of `workdir` to run in a copy of, all of which was uploaded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Size of the client's terminal, for tasks that run in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// Idempotency key: the same key of the same user is the same job, however often it is sent, also after a restart
    /// of the server, for as long as the job is known (the last 10,000 that ended are). At most 255 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters to a line.
    pub columns: u16,
}

/// The reply to a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubmitReply {
    /// Id of the job.
    pub job: String,
    /// Warnings about the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}

/// A request to change the priority of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityRequest {
    /// Priority: a larger number is more urgent.
    pub priority: i64,
}

/// Options of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelOptions {
    /// Kill at once, without a grace period, including tasks that are being ended already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

/// A request to run a job again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Only retry tasks that did not succeed.
    #[serde(default)]
    pub failed_only: bool,
}

/// A request to stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// End running tasks too; otherwise they keep running and are found again.
    #[serde(default)]
    pub kill_tasks: bool,
}

/// The result of an action on jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActionResult {
    /// Jobs it was applied to.
    pub jobs: Vec<String>,
    /// Number of tasks that changed; those already in the requested state do not count.
    pub tasks: u64,
}

/// The result of rebuilding the derived tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildResult {
    /// Number of rows.
    pub rows: u64,
}

/// A page of a long list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    /// Items of this page.
    pub items: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A filter of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFilter {
    /// Jobs of a [`Selector`](crate::selector::Selector): `3-7`, `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
    /// Jobs of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Jobs of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Jobs whose name matches a pattern: `*` stands for any characters and `?` for any one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Jobs in a state, held, or with an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateFilter>,
    /// Order of the list.
    #[serde(default, skip_serializing_if = "JobOrder::is_default")]
    pub order: JobOrder,
    /// Include the programs of tasks, with secrets masked: of one's own jobs, for admins of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
    /// Include jobs that have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Most items on a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Order of a list of jobs. A cursor is a position in the order it came from: a job that keeps its position is on
/// exactly one page, whatever comes and goes between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobOrder {
    /// Oldest submission first.
    #[default]
    Id,
    /// As the policy will run them: jobs on workers, then the queue, then blocked ones, and last those that have
    /// ended, newest first.
    Run,
    /// Newest submission first.
    Newest,
}

impl JobOrder {
    fn is_default(&self) -> bool {
        *self == Self::Id
    }
}

/// State, hold or outcome by which jobs are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateFilter {
    /// Waiting for other tasks or jobs, or held.
    Blocked,
    /// Held.
    Held,
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
    /// Ended, with any outcome.
    Done,
    /// All its tasks succeeded.
    Succeeded,
    /// One of its tasks failed.
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

impl StateFilter {
    /// Every filter, in the order a job goes through the states.
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

    /// The word in JSON and on the command line.
    pub fn word(self) -> &'static str {
        match self.criterion() {
            Criterion::Held => "held",
            Criterion::In(state) => state.word(),
            Criterion::Ended(outcome) => outcome.word(),
        }
    }

    /// Whether it selects only jobs that have ended.
    pub fn is_over(self) -> bool {
        matches!(self.criterion(), Criterion::In(State::Done) | Criterion::Ended(_))
    }

    /// The state of all selected jobs, where they share one.
    pub fn state(self) -> Option<State> {
        match self.criterion() {
            Criterion::In(state) => Some(state),
            Criterion::Ended(_) => Some(State::Done),
            Criterion::Held => None,
        }
    }

    /// Whether it selects a job in this state, with this outcome once it has ended.
    pub fn fits(self, state: State, outcome: Option<Outcome>, held: bool) -> bool {
        match self.criterion() {
            Criterion::Held => held && state < State::Placed,
            Criterion::In(wanted) => state == wanted,
            Criterion::Ended(wanted) => outcome == Some(wanted),
        }
    }

    fn criterion(self) -> Criterion {
        match self {
            Self::Held => Criterion::Held,
            Self::Blocked => Criterion::In(State::Blocked),
            Self::Ready => Criterion::In(State::Ready),
            Self::Placed => Criterion::In(State::Placed),
            Self::Running => Criterion::In(State::Running),
            Self::Paused => Criterion::In(State::Paused),
            Self::Stopping => Criterion::In(State::Stopping),
            Self::Done => Criterion::In(State::Done),
            Self::Succeeded => Criterion::Ended(Outcome::Succeeded),
            Self::Failed => Criterion::Ended(Outcome::Failed),
            Self::TimedOut => Criterion::Ended(Outcome::TimedOut),
            Self::Cancelled => Criterion::Ended(Outcome::Cancelled),
            Self::Lost => Criterion::Ended(Outcome::Lost),
            Self::Skipped => Criterion::Ended(Outcome::Skipped),
        }
    }
}

enum Criterion {
    Held,
    In(State),
    Ended(Outcome),
}

/// A filter of finished attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryFilter {
    /// Attempts of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Attempts of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Attempts of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Attempts that ended since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<super::Timestamp>,
    /// Most items on a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Output stream of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Both, as they were printed.
    #[default]
    Both,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Selection of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFilter {
    /// Task; optional where the job has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Array index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Attempt; the last by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Stream.
    #[serde(default)]
    pub stream: LogStream,
    /// Follow the log until the task ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Number of bytes to skip at the beginning; where several attempts follow each other, of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
}

/// A problem document, `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemBody {
    /// URI of the kind of problem; it need not be resolvable.
    #[serde(rename = "type")]
    pub kind: String,
    /// Meaning of the code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Stable code, one of [`CODES`](crate::problem::CODES).
    pub code: String,
    /// Description of this occurrence.
    pub detail: String,
    /// Each problem, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

impl ProblemBody {
    /// A document of one problem.
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

    /// A document of several problems, with the code of the first.
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
