//! Following a job to its end: its log or its progress, Ctrl-C on the way, and what its end means for our own.

mod interrupt;
mod log;
mod progress;
mod silence;

pub(crate) use interrupt::Interrupts;
pub(crate) use log::{ASK_AGAIN_AFTER, AWAY_AT_MOST, copy_log, follow_task, latest_attempt, patiently};
pub(crate) use progress::follow_progress;
pub(crate) use silence::explain_silence;

use warpyard_api::wire::{JobView, Outcome};

/// What timeout(1) exits with.
const TIMED_OUT: u8 = 124;
/// What a shell says of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// What to exit with after a job: as its task did where it has only one, otherwise 1 unless all succeeded.
pub(crate) fn exit_code(job: &JobView, interrupted: bool) -> u8 {
    let only = match job.tasks.as_slice() {
        [only] if job.counts.total() == 1 => Some(only),
        _ => None,
    };
    let (signal, code) = (only.and_then(|task| task.signal), only.and_then(|task| task.exit_code));
    match (job.outcome, signal, code) {
        (Some(Outcome::Succeeded), _, _) => 0,
        (Some(Outcome::TimedOut), _, _) if only.is_some() => TIMED_OUT,
        (Some(Outcome::Cancelled), _, _) if interrupted => INTERRUPTED,
        (_, Some(signal), _) => u8::try_from(128 + signal).unwrap_or(1),
        (_, None, Some(code)) => u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1),
        _ => 1,
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
        let code = |outcome, exit_code, signal| exit_code_of(&ended(outcome, exit_code, signal));
        assert_eq!(code("succeeded", json!(0), json!(null)), 0);
        assert_eq!(code("failed", json!(3), json!(null)), 3);
        assert_eq!(code("failed", json!(null), json!(9)), 137);
        assert_eq!(code("failed", json!(null), json!(null)), 1, "it could not be started");
        assert_eq!(code("timed-out", json!(null), json!(15)), 124);
        assert_eq!(code("cancelled", json!(0), json!(null)), 1, "a cancelled task did not succeed");
        assert_eq!(code("cancelled", json!(null), json!(15)), 143);
        assert_eq!(code("lost", json!(null), json!(null)), 1);
        assert_eq!(code("skipped", json!(null), json!(null)), 1);
    }

    fn exit_code_of(job: &JobView) -> u8 {
        exit_code(job, false)
    }

    #[test]
    fn a_cancelled_run_exits_as_one_that_was_interrupted() {
        assert_eq!(exit_code(&ended("cancelled", json!(null), json!(15)), true), 130);
        assert_eq!(exit_code(&ended("succeeded", json!(0), json!(null)), true), 0, "it ended first");
    }

    #[test]
    fn a_job_of_many_tasks_succeeds_or_does_not() {
        let many = |outcome: &str| {
            let mut job = ended(outcome, json!(3), json!(null));
            job.counts.done = 10;
            exit_code_of(&job)
        };
        assert_eq!([many("succeeded"), many("failed"), many("timed-out")], [0, 1, 1]);
    }
}
