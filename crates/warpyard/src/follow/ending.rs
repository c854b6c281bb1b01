//! The end of a followed job: the exit code, and a message where the program itself printed none.

use crate::show::history::reason_with_outcome;
use crate::show::{Screen, jobs};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, Outcome};

/// The exit code of timeout(1).
const TIMED_OUT: u8 = 124;
/// The exit code of a program ended by Ctrl-C in a shell; used for every cancelled job.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code for a job: its task's if it has only one, otherwise 1 unless all succeeded.
pub(crate) fn exit_code(job: &JobView) -> u8 {
    let only = match job.tasks.as_slice() {
        [only] if job.counts.total() == 1 => Some(only),
        _ => None,
    };
    let (signal, code) = (only.and_then(|task| task.signal), only.and_then(|task| task.exit_code));
    match (job.outcome, signal, code) {
        (Some(Outcome::Succeeded), _, _) => 0,
        (Some(Outcome::TimedOut), _, _) if only.is_some() => TIMED_OUT,
        (Some(Outcome::Cancelled), _, _) => INTERRUPTED,
        (_, Some(signal), _) => u8::try_from(128 + signal).unwrap_or(1),
        (_, None, Some(code)) => u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1),
        _ => 1,
    }
}

/// Whether a job's last words were its program's own.
pub(crate) fn ended_by_itself(job: &JobView) -> bool {
    match job.outcome {
        Some(Outcome::Succeeded) => true,
        Some(Outcome::Failed) => {
            job.tasks.first().is_some_and(|task| task.exit_code.is_some() || task.signal.is_some())
        }
        _ => false,
    }
}

/// How a job ended and why, one line each. `from_here`: the user cancelled it in this terminal.
pub(crate) fn last_words(job: &JobView, from_here: bool, screen: &Screen) -> String {
    let ended = jobs::ended(job, screen);
    let elsewhere = (job.outcome == Some(Outcome::Cancelled) && !from_here).then_some(
        "not from here, but from another terminal, a page, by an admin, or by the server for idle GPUs",
    );
    let why = elsewhere.or(job.why.as_deref()).or(job.tasks.first().and_then(|task| task.why.as_deref()));
    // That one's own Ctrl-C cancelled it needs no words.
    let why = why.filter(|_| !(job.outcome == Some(Outcome::Cancelled) && from_here));
    let Some(why) = why else { return ended };
    match job.outcome.and_then(|outcome| reason_with_outcome(outcome, why)) {
        Some(said) => format!(
            "{} {}  {}\n",
            escape_controls(&job.job),
            escape_controls(&job.name),
            escape_controls(&said)
        ),
        None => format!("{}: {}\n", ended.trim_end(), escape_controls(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::jobs::tests::{counts, job};
    use serde_json::{Value, json};

    fn ended(outcome: &str, exit_code: Value, signal: Value) -> JobView {
        job(json!({"state": "done", "outcome": outcome, "counts": counts(json!({"done": 1})), "tasks": [
            {"name": "train", "index": null, "state": "done", "outcome": outcome, "exit_code": exit_code,
             "signal": signal, "why": null}]}))
    }

    #[test]
    fn run_exits_as_its_task_did() {
        let code = |outcome, code, signal| exit_code(&ended(outcome, code, signal));
        assert_eq!(code("succeeded", json!(0), json!(null)), 0);
        assert_eq!(code("failed", json!(3), json!(null)), 3);
        assert_eq!(code("failed", json!(null), json!(9)), 137);
        assert_eq!(code("failed", json!(null), json!(null)), 1, "it could not be started");
        assert_eq!(code("timed-out", json!(null), json!(15)), 124);
        for (code_of_it, signal) in
            [(json!(0), json!(null)), (json!(null), json!(15)), (json!(null), json!(null))]
        {
            assert_eq!(code("cancelled", code_of_it, signal), 130, "as of one that Ctrl-C ended");
        }
        assert_eq!(code("lost", json!(null), json!(null)), 1);
        assert_eq!(code("skipped", json!(null), json!(null)), 1);
    }

    #[test]
    fn a_job_of_many_tasks_succeeds_or_does_not() {
        let many = |outcome: &str| {
            let mut job = ended(outcome, json!(3), json!(null));
            job.counts.done = 10;
            exit_code(&job)
        };
        assert_eq!([many("succeeded"), many("failed"), many("timed-out"), many("cancelled")], [0, 1, 1, 130]);
    }

    #[test]
    fn how_it_failed_is_said_in_one_line() {
        let mut failed = ended("failed", json!(1), json!(null));
        failed.why = Some("exited with code 1".into());
        let line = last_words(&failed, false, &Screen::for_tests(None));
        assert_eq!(line, "412 train  failed: exited with code 1\n");
        let mut late = ended("timed-out", json!(null), json!(15));
        late.why = Some("timed out after 2h".into());
        assert_eq!(last_words(&late, false, &Screen::for_tests(None)), "412 train  timed out after 2h\n");
    }

    #[test]
    fn who_did_not_cancel_it_is_told_that_someone_did() {
        let screen = Screen::for_tests(None);
        let cancelled = ended("cancelled", json!(null), json!(null));
        assert_eq!(last_words(&cancelled, true, &screen), "412 train  cancelled\n");
        assert_eq!(
            last_words(&cancelled, false, &screen),
            "412 train  cancelled: not from here, but from another terminal, a page, by an admin, or by the server for idle GPUs\n"
        );
    }
}
