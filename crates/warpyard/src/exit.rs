//! Exit codes, and the presentation of errors.

use crate::usage_error::{UsageError, quoted};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::io::{self, Write as _};
use std::process::ExitCode;
use warpyard_api::client::ClientError;
use warpyard_api::problem::{Problem, code};
use warpyard_api::text::escape_lines;
use warpyard_server::backup::BackupError;
use warpyard_server::config::ConfigError;
use warpyard_server::daemon::DaemonError;
use warpyard_server::recovery::RecoveryError;

/// No line of an error has more characters than this.
const LONGEST_LINE: usize = 2_000;

/// The exit code of a command that did what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// What was asked for was done, but the work it was about failed.
    WorkFailed,
    /// As a task ended.
    Task(u8),
    /// The calling task should yield (`EX_TEMPFAIL` of sysexits), so that `warpyard progress N || exit` makes a shell script
    /// do so.
    GiveWay,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::WorkFailed => Self::from(1),
            Exit::Task(code) => Self::from(code),
            Exit::GiveWay => Self::from(75),
        }
    }
}

/// An error for programs: one JSON object on standard error.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    /// A stable code, for programs.
    code: Cow<'static, str>,
    /// The message.
    message: String,
    /// What to do about it, if not part of the message.
    help: Option<String>,
    /// Each thing that is wrong with a document, where it can be told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
}

impl Report {
    /// A mistake in the words of a command line.
    pub(crate) fn of_usage(message: &str, help: String) -> Self {
        let message = escape_lines(message, LONGEST_LINE);
        Self { code: "usage".into(), message, help: Some(help), problems: vec![] }
    }

    fn of(error: &anyhow::Error) -> Self {
        let problems = match error.downcast_ref::<ClientError>() {
            Some(ClientError::Refused(body)) => body.problems.clone(),
            _ => match error.downcast_ref::<UsageError>() {
                Some(UsageError::Document { problems, .. }) => problems.clone(),
                _ => vec![],
            },
        };
        let (message, help) = match problems.first() {
            Some(Problem { path, message, help, .. }) if path.is_empty() => (message.clone(), help.clone()),
            Some(Problem { path, message, help, .. }) => (format!("{path}: {message}"), help.clone()),
            None => (with_causes(error), None),
        };
        let code = kind(error, &problems);
        // What a file holds may be quoted in any of it, and JSON leaves what turns text round as it is.
        let harmless = |text: String| escape_lines(&text, LONGEST_LINE);
        let problem = |problem: Problem| Problem {
            path: harmless(problem.path),
            message: harmless(problem.message),
            help: problem.help.map(harmless),
            ..problem
        };
        let problems = problems.into_iter().map(problem).collect();
        Self { code, message: harmless(message), help: help.map(harmless), problems }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).expect("an error is always JSON"))
    }
}

/// The stable code of an error.
fn kind(error: &anyhow::Error, problems: &[Problem]) -> Cow<'static, str> {
    if let Some(first) = problems.first() {
        return first.code.clone();
    }
    let known = match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(body)) => return body.code.clone().into(),
        Some(ClientError::Unreachable { .. }) => "unreachable",
        Some(ClientError::NoAddress { .. } | ClientError::NoSocket { .. }) => "no-server",
        Some(ClientError::NotPrivate(_) | ClientError::ExposedFile { .. }) => "not-private",
        Some(ClientError::BadToken(_)) => "bad-token",
        Some(ClientError::BadFingerprint(_)) => "bad-fingerprint",
        Some(ClientError::Untrusted { .. }) => "not-trusted",
        Some(ClientError::UnreadableFile { .. }) => "unreadable-file",
        Some(ClientError::BadAddress { .. }) => "bad-address",
        Some(ClientError::Unauthorised { .. }) => "unauthorised",
        Some(ClientError::Unreadable { .. }) => "unexpected-answer",
        None if error.is::<UsageError>() => code::BAD_REQUEST,
        None if error.is::<ConfigError>() => "bad-configuration",
        None if error.is::<DaemonError>() => "cannot-serve",
        None if error.is::<BackupError>() => "no-backup",
        None if error.is::<RecoveryError>() => "not-recovered",
        None => "failed",
    };
    known.into()
}

/// The error and its causes in one line.
fn with_causes(error: &anyhow::Error) -> String {
    let mut out = error.to_string();
    for cause in error.chain().skip(1).map(quoted) {
        if !out.contains(&cause) {
            write!(out, ": {cause}").expect("a string takes all");
        }
    }
    out
}

/// Prints an error, as JSON where that is asked for, and says what to exit with.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    // Whoever read our output has read enough.
    if is_broken_pipe(error) {
        // What there is to know beside it, such as that a job goes on.
        if error.is::<io::Error>() && error.chain().count() > 1 {
            tell(&format!("{error}\n"));
        }
        return ExitCode::SUCCESS;
    }
    match json {
        true => tell(&format!("{}\n", Report::of(error))),
        false => tell(&rendered(error)),
    }
    ExitCode::from(exit_code(error))
}

/// Whether our own output was closed; a server that hung up is another matter.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    !error.is::<ClientError>() && error.chain().any(broken)
}

/// Writes to standard error, if anyone is there to read it.
pub(crate) fn tell(text: &str) {
    let _nobody_reads = io::stderr().write_all(text.as_bytes());
}

/// Prints a note to standard error, with control characters of quoted input escaped.
pub(crate) fn note(text: &str) {
    tell(&format!("{}\n", escape_lines(text, LONGEST_LINE)));
}

/// The code for an error: 2 where the request was wrong or cannot be met, 3 where the server could not take it.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<ClientError>() {
        error.exit_code()
    } else if error.is::<UsageError>()
        || error.is::<ConfigError>()
        || error.is::<DaemonError>()
        || error.is::<BackupError>()
        || error.is::<RecoveryError>()
    {
        2
    } else {
        1
    }
}

/// The error with all that led to it, each cause once.
pub(crate) fn rendered(error: &anyhow::Error) -> String {
    let mut out = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        let cause = quoted(cause);
        if !out.contains(&cause) {
            writeln!(out, "  because: {cause}").expect("a string takes all");
        }
    }
    // What a file holds may be quoted in any of it.
    escape_lines(&out, LONGEST_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use std::path::PathBuf;
    use warpyard_api::wire::ProblemBody;

    #[test]
    fn each_kind_of_error_has_its_code() {
        let refused =
            |status| ClientError::Refused(Box::new(ProblemBody::new(status, "unknown-job", "no job 4")));
        assert_eq!(exit_code(&refused(404).into()), 2);
        assert_eq!(exit_code(&refused(503).into()), 3);
        assert_eq!(exit_code(&ClientError::NoAddress { path: PathBuf::from("/d/address") }.into()), 3);
        assert_eq!(exit_code(&UsageError::NothingToSubmit.into()), 2);
        assert_eq!(exit_code(&io::Error::other("disk").into()), 1);
    }

    #[test]
    fn a_code_survives_being_told_where_it_came_from() {
        let error = Err::<(), _>(ClientError::NoAddress { path: PathBuf::from("/d/address") });
        assert_eq!(exit_code(&error.context("submitting").unwrap_err()), 3);
    }

    #[test]
    fn an_error_is_told_with_its_causes_once() {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "permission denied");
        let error = ClientError::UnreadableFile { path: PathBuf::from("/d/token"), source };
        assert_eq!(rendered(&error.into()), "error: cannot read /d/token\n  because: permission denied\n");
    }

    #[test]
    fn what_a_server_says_to_do_is_on_a_line_of_its_own() {
        let mut body = ProblemBody::new(400, "bad-parameter", "");
        body.problems.push(warpyard_api::problem::Problem {
            help: Some("its parameters: round".into()),
            ..warpyard_api::problem::Problem::new("bad-parameter", "rond", "there is no such parameter")
        });
        let error = anyhow::Error::from(ClientError::Refused(Box::new(body))).context("not changed");
        let said = rendered(&error);
        assert!(
            said.lines().any(|line| line.trim_start().starts_with("help: its parameters: round")),
            "{said}"
        );
    }

    #[test]
    fn an_error_for_programs_is_one_object() {
        let told = |error: anyhow::Error| serde_json::to_value(Report::of(&error)).expect("JSON");
        let known =
            Problem { help: Some("lower it".into()), ..Problem::new("too-few-gpus", "gpus", "8 of 4") };
        let mut body = ProblemBody::new(400, "too-few-gpus", "");
        body.problems.push(known);
        let refused = told(ClientError::Refused(Box::new(body)).into());
        assert_eq!(
            (&refused["code"], &refused["message"], &refused["help"]),
            (&"too-few-gpus".into(), &"gpus: 8 of 4".into(), &"lower it".into())
        );
        let wrong = told(UsageError::NothingToSubmit.into());
        assert_eq!((&wrong["code"], &wrong["help"]), (&"bad-request".into(), &serde_json::Value::Null));
        let failed = told(io::Error::other("disk").into());
        assert_eq!((&failed["code"], &failed["message"]), (&"failed".into(), &"disk".into()));
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&io::Error::other("disk").into()));
    }
}
