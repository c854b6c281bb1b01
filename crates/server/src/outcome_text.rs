//! How attempts ended, in words: the one place where exit codes, signals, limits and losses become sentences. Everything
//! that tells of an end, on a page or in an answer, takes its words from here.

use crate::store::{AttemptRow, IDLE};
use crate::summary::outcome_of_word;
use warpyard_api::quantity::Micros;
use warpyard_api::wire::{FailureReason, Outcome};

/// How an attempt ended, as the rest of a sentence about its task: "exited with code 3". Nothing while it runs.
pub(crate) fn words(row: &AttemptRow) -> Option<String> {
    let detail = row.detail.as_deref();
    Some(match outcome_of_word(row.outcome.as_deref()?) {
        Some(Outcome::Succeeded) => "succeeded".into(),
        Some(Outcome::TimedOut) => match (detail.and_then(|d| d.strip_prefix(IDLE)), row.timeout) {
            (Some(idle), _) => format!("was ended after its terminal was idle for {idle}"),
            (None, Some(limit)) => format!("timed out after {}", Micros(limit.0)),
            (None, None) => "timed out".into(),
        },
        Some(Outcome::Cancelled) => match detail {
            Some(by_server) => format!("was {by_server}"),
            None if row.started.is_none() => "was cancelled before it started".into(),
            None => "was cancelled".into(),
        },
        Some(Outcome::Lost) => match detail {
            Some(how) => format!("was lost: {how}"),
            None => "was lost with its worker".into(),
        },
        // What gave way is none of the outcomes.
        None => "was preempted, to run again later".into(),
        Some(Outcome::Failed | Outcome::Skipped) => match (row.reason, detail) {
            // Its detail begins with "out of memory".
            (Some(FailureReason::OutOfMemory), Some(detail)) => format!("ran {detail}"),
            (Some(FailureReason::OutOfMemory), None) => "ran out of memory".into(),
            (Some(FailureReason::TooManyProcesses), Some(why)) => format!("was killed: {why}"),
            (Some(FailureReason::TooManyProcesses), None) => "was killed: it had too many processes".into(),
            _ => match (row.signal, row.exit_code, detail) {
                (Some(signal), ..) => by_signal(signal),
                (None, Some(code), _) => with_code(code),
                // The supervisor may have been seen before its command could not be executed; rows of older programs have
                // no reason. What is known says it all.
                (None, None, Some(why)) if row.started.is_some() => why.to_owned(),
                (None, None, Some(why)) => format!("did not start: {why}"),
                (None, None, None) if row.started.is_none() => "did not start".into(),
                (None, None, None) => "failed".into(),
            },
        },
    })
}

/// The same of one that did not succeed.
pub(crate) fn failure(row: &AttemptRow) -> Option<String> {
    words(row).filter(|_| row.outcome.as_deref() != Some(Outcome::Succeeded.word()))
}

/// How the tasks of a job ended that did not succeed: the most common reason, and the first task it holds for.
pub(crate) struct Failures {
    /// How many tasks have an attempt that did not succeed as their last.
    pub(crate) tasks: u64,
    /// How many of them for the most common reason.
    common: u64,
    /// The last attempt of the first of those.
    pub(crate) example: AttemptRow,
}

impl Failures {
    /// From the last attempts of tasks that did not succeed, alike ones counted together, the most common first.
    pub(crate) fn of(groups: Vec<(u64, AttemptRow)>) -> Option<Failures> {
        let tasks = groups.iter().map(|(count, _)| count).sum();
        let (common, example) = groups.into_iter().next()?;
        Some(Failures { tasks, common, example })
    }

    /// "2 of 3 failures: exited with code 1, for example 412.train[7]"; of the only task of a job, how it ended.
    pub(crate) fn words(&self, only_task: bool) -> String {
        let how = failure(&self.example).unwrap_or_default();
        match (self.tasks, self.common) {
            _ if only_task => how,
            (1, _) => format!("{} {how}", self.name()),
            (all, common) if all == common => {
                format!("each of {all} failures: {how}, for example {}", self.name())
            }
            (all, common) => format!("{common} of {all} failures: {how}, for example {}", self.name()),
        }
    }

    /// The task of the example, as it is selected.
    pub(crate) fn name(&self) -> String {
        let AttemptRow { attempt, task_name, array_index, .. } = &self.example;
        let index = array_index.map(|index| format!("[{index}]")).unwrap_or_default();
        format!("{}.{task_name}{index}", attempt.task.job)
    }
}

fn with_code(code: i32) -> String {
    let meaning = match code {
        126 => ": the command is not executable".into(),
        127 => ": the command was not found".into(),
        129..160 => format!(": its command {}", by_signal(code - 128)),
        _ => String::new(),
    };
    format!("exited with code {code}{meaning}")
}

/// The signals of Linux that end a process, by number.
const SIGNALS: [(i32, &str); 18] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

fn by_signal(signal: i32) -> String {
    let name = SIGNALS.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name);
    match name {
        "" => format!("was ended by signal {signal}"),
        "SIGKILL" => format!("was killed by {name} (signal {signal}), as when memory runs out"),
        "SIGSEGV" => format!("crashed with {name} (signal {signal}): a segmentation fault"),
        "SIGBUS" => format!("crashed with {name} (signal {signal}), as when /dev/shm is full"),
        "SIGABRT" => format!("aborted with {name} (signal {signal})"),
        "SIGILL" | "SIGFPE" => format!("crashed with {name} (signal {signal})"),
        _ => format!("was ended by {name} (signal {signal})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::{JobId, Span, TaskId, Time};

    fn row(outcome: &str, exit_code: Option<i32>, signal: Option<i32>, detail: Option<&str>) -> AttemptRow {
        AttemptRow {
            attempt: TaskId { job: JobId(412), node: 0, index: 6 }.attempt(1),
            job_name: "train".into(),
            task_name: "train".into(),
            array_index: Some(7),
            user: "ann".into(),
            worker: "w".into(),
            devices: vec![],
            placed: Time(0),
            started: Some(Time(1)),
            ended: Some(Time(2)),
            outcome: Some(outcome.into()),
            exit_code,
            signal,
            timeout: Some(Span::from_secs(5400.0)),
            detail: detail.map(str::to_owned),
            reason: None,
            ran: Span::ZERO,
            cpu: Span::ZERO,
            peak_rss: None,
            peak_gpu_memory: None,
        }
    }

    #[test]
    fn every_end_has_words() {
        let said = |outcome, code, signal, detail| words(&row(outcome, code, signal, detail)).unwrap();
        assert_eq!(said("failed", Some(3), None, None), "exited with code 3");
        assert_eq!(
            said("failed", Some(126), None, None),
            "exited with code 126: the command is not executable"
        );
        assert_eq!(said("failed", Some(127), None, None), "exited with code 127: the command was not found");
        assert_eq!(
            said("failed", Some(137), None, None),
            "exited with code 137: its command was killed by SIGKILL (signal 9), as when memory runs out"
        );
        assert_eq!(
            said("failed", None, Some(11), None),
            "crashed with SIGSEGV (signal 11): a segmentation fault"
        );
        assert_eq!(said("failed", None, Some(40), None), "was ended by signal 40");
        assert_eq!(said("timed-out", None, None, None), "timed out after 1h30m");
        assert_eq!(
            said("timed-out", None, None, Some("idle for 10m")),
            "was ended after its terminal was idle for 10m"
        );
        assert_eq!(said("cancelled", None, None, None), "was cancelled");
        assert_eq!(said("lost", None, None, Some("its lease ran out")), "was lost: its lease ran out");
        assert_eq!(said("requeued", None, None, None), "was preempted, to run again later");
        let not_found = "command not found: train is in no directory of its PATH";
        assert_eq!(said("failed", None, None, Some(not_found)), not_found);
        let not_started =
            AttemptRow { started: None, ..row("failed", None, None, Some("no such directory")) };
        assert_eq!(words(&not_started).unwrap(), "did not start: no such directory");
        assert_eq!(words(&AttemptRow { outcome: None, ..not_started }), None);
        let detail = Some("out of memory: it needed more than the 50 MiB it requested");
        let oom =
            AttemptRow { reason: Some(FailureReason::OutOfMemory), ..row("failed", None, None, detail) };
        assert_eq!(words(&oom).unwrap(), "ran out of memory: it needed more than the 50 MiB it requested");
    }

    #[test]
    fn many_failures_are_told_by_the_most_common_reason_and_an_example() {
        let told = |groups: &[u64], only| {
            let row = |count: &u64| (*count, row("failed", Some(1), None, None));
            Failures::of(groups.iter().map(row).collect()).map(|failures| failures.words(only))
        };
        assert_eq!(told(&[], false), None);
        assert_eq!(told(&[1], true).unwrap(), "exited with code 1");
        assert_eq!(told(&[1], false).unwrap(), "412.train[7] exited with code 1");
        assert_eq!(
            told(&[3], false).unwrap(),
            "each of 3 failures: exited with code 1, for example 412.train[7]"
        );
        assert_eq!(
            told(&[2, 1], false).unwrap(),
            "2 of 3 failures: exited with code 1, for example 412.train[7]"
        );
    }
}
