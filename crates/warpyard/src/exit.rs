//! What the process exits with, and how an error is told.

use crate::wrong::{Wrong, quoted};
use std::fmt::Write;
use std::io::{self, Write as _};
use std::process::ExitCode;
use warpyard_api::client::ClientError;
use warpyard_api::text::shown_lines;
use warpyard_server::config::ConfigError;
use warpyard_server::up::UpError;

/// No line of an error has more characters than this.
const LONGEST_LINE: usize = 2_000;

/// How a command ended that did what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// What was asked for was done, but the work it was about failed.
    WorkFailed,
    /// As a task ended.
    Task(u8),
    /// Whoever asked should give way: what sysexits calls a temporary failure, so that `warpyard progress N || exit` has a
    /// task of a shell do so.
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

/// Prints an error and says what to exit with.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has read enough.
    if is_broken_pipe(error) {
        // What there is to know beside it, such as that a job goes on.
        if error.is::<io::Error>() && error.chain().count() > 1 {
            tell(&format!("{error}\n"));
        }
        return ExitCode::SUCCESS;
    }
    tell(&rendered(error));
    ExitCode::from(code(error))
}

/// Whether our own output was closed; a server that hung up is another matter.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    !error.is::<ClientError>() && error.chain().any(broken)
}

/// Writes to standard error, if anyone is there to read it.
fn tell(text: &str) {
    let _nobody_reads = io::stderr().write_all(text.as_bytes());
}

/// Something to know on standard error, which may have what stands in a file.
pub(crate) fn note(text: &str) {
    tell(&format!("{}\n", shown_lines(text, LONGEST_LINE)));
}

/// The code for an error: 2 where the request was wrong or cannot be met, 3 where the server could not take it.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<ClientError>() {
        error.exit_code()
    } else if error.is::<Wrong>() || error.is::<ConfigError>() || error.is::<UpError>() {
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
    shown_lines(&out, LONGEST_LINE)
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
        assert_eq!(code(&refused(404).into()), 2);
        assert_eq!(code(&refused(503).into()), 3);
        assert_eq!(code(&ClientError::NoAddress { path: PathBuf::from("/d/address") }.into()), 3);
        assert_eq!(code(&Wrong::NothingToSubmit.into()), 2);
        assert_eq!(code(&io::Error::other("disk").into()), 1);
    }

    #[test]
    fn a_code_survives_being_told_where_it_came_from() {
        let error = Err::<(), _>(ClientError::NoAddress { path: PathBuf::from("/d/address") });
        assert_eq!(code(&error.context("submitting").unwrap_err()), 3);
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
    fn a_reader_that_left_is_no_error() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&io::Error::other("disk").into()));
    }
}
