//! Problems of requests: one type for checks made here and those only the server can make, the table of all codes, and
//! their rendering for terminals.

use crate::job::Source;
use crate::secrets::mask_text;
use crate::text::{escape_controls, truncate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;

/// The most problems reported of one request; beyond it only their number is.
pub const MAX_PROBLEMS: usize = 100;

/// A problem of a request: where it is, what it is, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Path in the document, such as `tasks[2].gpu_memory`; empty for the whole of it.
    pub path: String,
    /// Description.
    pub message: String,
    /// Advice, where there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Stable code for programs, one of [`CODES`].
    pub code: Cow<'static, str>,
    /// Line of the document, counted from 1, where a text was parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Problem {
    /// A problem without help. Text quoted from a document may be of any length, so it is truncated.
    pub fn new(code: &'static str, path: impl AsRef<str>, message: impl AsRef<str>) -> Self {
        Self {
            path: truncate(path.as_ref(), 300).into_owned(),
            message: truncate(message.as_ref(), 400).into_owned(),
            help: None,
            code: Cow::Borrowed(code),
            line: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl AsRef<str>) -> Self {
        self.help = Some(truncate(help.as_ref(), 400).into_owned());
        self
    }

    /// Whether the request is refused because of it.
    pub fn severity(&self) -> Severity {
        CODES.iter().find(|def| def.code == self.code).map_or(Severity::Error, |def| def.severity)
    }
}

/// Whether a problem refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The request is refused.
    Error,
    /// The request is accepted.
    Warning,
}

/// A row of the table of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeDef {
    /// The code.
    pub code: &'static str,
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
    /// Whether requests are refused because of it.
    pub severity: Severity,
}

macro_rules! codes {
    ($($name:ident $code:literal $severity:ident $meaning:literal)*) => {
        /// Every code by name, so that a misspelt one does not compile.
        pub mod code {
            $(#[doc = $meaning] pub const $name: &str = $code;)*
        }

        /// Every code an error may carry, with what it means.
        pub const CODES: &[CodeDef] = &[
            $(CodeDef { code: code::$name, meaning: $meaning, severity: Severity::$severity },)*
        ];
    };
}

codes! {
    // The document as a text.
    SYNTAX "syntax" Error "The text is not TOML or JSON."
    DOCUMENT_TOO_LARGE "document-too-large" Error "The document is larger than 8 MiB."
    NESTED_TOO_DEEPLY "nested-too-deeply" Error "Lists or tables are nested more deeply than is supported."
    TOO_MANY_PROBLEMS "too-many-problems" Error "There are more problems than are listed."
    // Fields.
    UNKNOWN_FIELD "unknown-field" Error "The field does not exist."
    DUPLICATE_FIELD "duplicate-field" Error "The field is given twice."
    MISSING_FIELD "missing-field" Error "A required field is missing."
    MISPLACED_FIELD "misplaced-field" Error "The field belongs to a task but was given to the job, or the other way round."
    WRONG_TYPE "wrong-type" Error "The value has the wrong type."
    UNKNOWN_WORD "unknown-word" Error "The value is not one of the field's words."
    BAD_NAME "bad-name" Error "The text cannot be a name: empty, too long, or with characters that cannot be printed."
    BAD_SIZE "bad-size" Error "The text is not a size."
    BAD_DURATION "bad-duration" Error "The text is not a duration."
    BAD_CPUS "bad-cpus" Error "The value is not a number of CPUs."
    BAD_ARRAY "bad-array" Error "The text is not a list of array indices."
    BAD_DEVICE "bad-device" Error "The value does not name a device."
    BAD_JOB_ID "bad-job-id" Error "The value is not the id of a job."
    BAD_ENV "bad-env" Error "The environment variable cannot be set: its name or value is not allowed by the system."
    BAD_TEXT "bad-text" Error "The text is empty or has a zero byte where neither is allowed."
    NEGATIVE "negative" Error "The value is below zero."
    ZERO "zero" Error "The value must be more than zero."
    TOO_LARGE "too-large" Error "The number is too large."
    OUT_OF_RANGE "out-of-range" Error "The number is out of range."
    // The job as a whole.
    USER_NOT_ACCEPTED "user-not-accepted" Error "The document names a user, which is taken from the login."
    NO_TASKS "no-tasks" Error "The job has no task."
    TOO_MANY_TASKS "too-many-tasks" Error "The job has more tasks than one may have."
    ARRAY_TOO_LARGE "array-too-large" Error "The array has more tasks than one may have."
    NONE_AT_ONCE "none-at-once" Error "The array's limit of running tasks is 0."
    DUPLICATE_INDEX "duplicate-index" Error "An array index is listed twice."
    DUPLICATE_TASK "duplicate-task" Error "Two tasks have the same name."
    DUPLICATE_DEPENDENCY "duplicate-dependency" Error "A dependency is listed twice."
    DUPLICATE_DEVICE "duplicate-device" Error "A device is listed twice."
    UNKNOWN_TASK "unknown-task" Error "A dependency names a task the job does not have."
    SELF_DEPENDENCY "self-dependency" Error "A task depends on itself."
    CYCLE "cycle" Error "Tasks depend on each other in a cycle."
    EMPTY_COMMAND "empty-command" Error "The command is empty."
    GPUS_NOT_ASKED "gpus-not-asked" Error "A field is about GPUs, but the task requests none."
    NO_MODEL "no-model" Error "A field is about a model, but the task names none."
    NOT_TRAINED "not-trained" Error "The task names an optimiser, but its model is not trained."
    BAD_MODEL "bad-model" Error "The model's file cannot be read or estimated."
    NOT_ESTIMATED "not-estimated" Warning "The model has no estimate, so the memory request was not made from it."
    ESTIMATE_COMMAND "estimate-command" Warning "The server's estimate command failed, so its estimates are missing."
    ESTIMATE_TOO_LARGE "estimate-too-large" Warning "The model is estimated to need more memory than any GPU it may use has."
    SCOPE_TOO_SMALL "scope-too-small" Error "The task requests more GPUs than are in its scope."
    PREFERRED_TOO_FEW "preferred-too-few" Error "The task waits for its preferred GPUs only, and requests more than these."
    PREFERRED_OUT_OF_SCOPE "preferred-out-of-scope" Error "A preferred GPU is not in the task's scope."
    NO_TERMINAL "no-terminal" Error "The task does not run in a terminal."
    FULL "full" Error "The terminal has as many clients attached as it may have."
    ONE_STREAM "one-stream" Error "A task in a terminal has one output stream, so standard error has no file of its own."
    EXPECTED_OVER_TIMEOUT "expected-over-timeout" Warning "The expected run time exceeds the timeout."
    // What only the server knows.
    NO_DEVICE_LARGE_ENOUGH "no-device-large-enough" Error "No GPU has as much memory as the task requests."
    NO_SUCH_GPU_TYPE "no-such-gpu-type" Error "No worker has a GPU of a type the task accepts."
    NO_SUCH_DEVICE "no-such-device" Error "No worker has the device the task names."
    TOO_FEW_GPUS "too-few-gpus" Error "No worker has as many GPUs as the task asks for."
    TOO_FEW_CPUS "too-few-cpus" Error "No worker has as many CPUs as the task asks for."
    TOO_LITTLE_MEMORY "too-little-memory" Error "No worker has as much memory as the task asks for."
    TIMEOUT_TOO_LONG "timeout-too-long" Error "The policy refuses a timeout this long."
    OVER_LIMIT "over-limit" Error "It would be more than its user may have."
    NO_SNAPSHOT "no-snapshot" Error "The snapshot does not exist, or is incomplete."
    BAD_SNAPSHOT "bad-snapshot" Error "The snapshot cannot be stored."
    UNKNOWN_JOB "unknown-job" Error "No job has this id."
    UNKNOWN_ATTEMPT "unknown-attempt" Error "The task has no such attempt."
    UNKNOWN_WORKER "unknown-worker" Error "No worker has this name."
    UNKNOWN_POLICY "unknown-policy" Error "No policy has this name."
    UNKNOWN_PARAMETER "unknown-parameter" Error "The policy has no such parameter."
    BAD_PARAMETER "bad-parameter" Error "The parameter does not accept this value."
    BAD_SELECTOR "bad-selector" Error "The text is not a selector."
    BAD_REQUEST "bad-request" Error "The request cannot be parsed."
    WRONG_STATE "wrong-state" Error "The state of the job or task does not allow this."
    IDEMPOTENCY_MISMATCH "idempotency-mismatch" Error "The idempotency key was used before for another job."
    UNAUTHORISED "unauthorised" Error "The token is missing or wrong."
    WRONG_TOKEN "wrong-token" Error "The join token is unknown: it was revoked, or is another server's."
    TOKEN_EXPIRED "token-expired" Error "The token has expired."
    TOKEN_USED_UP "token-used-up" Error "As many workers as may have joined with the token."
    WORKER_EXISTS "worker-exists" Error "Another worker has joined by this name."
    ANOTHER_LOG "another-log" Error "The server's jobs are numbered by another event log."
    NOT_REGISTERED "not-registered" Error "The server does not know the worker, or gave it up."
    KEY_REVOKED "key-revoked" Error "The worker was forgotten, and its key revoked."
    UNKNOWN_TOKEN "unknown-token" Error "No token has this id."
    READ_ONLY "read-only" Error "The token is a viewer's, which changes nothing."
    WORKERS_ONLY "workers-only" Error "Only workers may do this."
    PEOPLE_ONLY "people-only" Error "A worker's key does not allow this."
    MAY_NOT_VOUCH "may-not-vouch" Error "The worker may not vouch for this user, or for any."
    WRONG_HOST "wrong-host" Error "The request names a host that the server does not answer for; `hosts` in its configuration lists more."
    TOO_MANY_CONNECTIONS "too-many-connections" Error "The caller has reached the limit of connections."
    NOT_YOURS "not-yours" Error "The job belongs to another user."
    ADMINS_ONLY "admins-only" Error "Only admins may do this."
    NO_ACCOUNT "no-account" Error "The user has no account that tasks can run as on this machine."
    FORBIDDEN "forbidden" Error "The login does not allow this."
    NOT_FOUND "not-found" Error "Nothing exists at this address."
    WRONG_METHOD "wrong-method" Error "The method is not supported at this address; the header Allow lists those that are."
    NOT_READY "not-ready" Error "The server is starting or stopping; try again."
    INTERNAL "internal" Error "Internal error; the server's log has the details."
}

/// Renders problems for a terminal, each with the line of the document it is about.
///
/// ```
/// use warpyard_api::problem::{Problem, code, render};
/// let text = "command = \"./t.sh\"\ngpus = 1\ngpu_memory = \"24GiB\"\n";
/// let problem = Problem::new(code::NO_DEVICE_LARGE_ENOUGH, "gpu_memory", "24 GiB is more than any GPU here has")
///     .with_help("lower it, or add a larger GPU; `warpyard gpus` lists them");
/// assert_eq!(render(&[problem], "job.toml", text), "\
/// error: gpu_memory: 24 GiB is more than any GPU here has
///   job.toml:3: gpu_memory = \"24GiB\"
///   help: lower it, or add a larger GPU; `warpyard gpus` lists them        (code: no-device-large-enough)
/// ");
/// ```
pub fn render(problems: &[Problem], filename: &str, source_text: &str) -> String {
    let source = Source::new(filename, source_text);
    problems.iter().map(|problem| render_one(problem, Some(&source))).collect()
}

/// Renders problems of a request that has no file.
pub fn render_bare(problems: &[Problem]) -> String {
    problems.iter().map(|problem| render_one(problem, None)).collect()
}

fn render_one(problem: &Problem, source: Option<&Source<'_>>) -> String {
    let label = match problem.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let colon = if problem.path.is_empty() { "" } else { ": " };
    let mut out =
        format!("{label}: {}{colon}{}\n", escape_controls(&problem.path), escape_controls(&problem.message));
    let line = source.and_then(|source| source.line_of(problem).map(|line| (source, line)));
    if let Some((source, (number, text))) = line {
        let text = mask_text(text.trim());
        let text = escape_controls(truncate(&text, 120).as_ref()).into_owned();
        writeln!(out, "  {}:{number}: {text}", escape_controls(source.filename()))
            .expect("a string takes all");
    }
    match &problem.help {
        Some(help) => writeln!(
            out,
            "  help: {}        (code: {})",
            escape_controls(help),
            escape_controls(&problem.code)
        ),
        None => writeln!(out, "  (code: {})", escape_controls(&problem.code)),
    }
    .expect("a string takes all");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_kebab_case_unique_and_explained() {
        for (i, def) in CODES.iter().enumerate() {
            assert!(def.code.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", def.code);
            assert!(def.meaning.ends_with('.'), "{}", def.code);
            assert!(CODES[..i].iter().all(|other| other.code != def.code), "{} is there twice", def.code);
        }
    }

    #[test]
    fn a_terminal_obeys_nothing_a_document_says() {
        let problem =
            Problem::new(code::BAD_NAME, "name", "'\u{1b}[2J' has a character that cannot be printed");
        let text = render(&[problem], "a\u{202e}b.toml", "name = '\u{1b}[2J\u{7}'");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
}
