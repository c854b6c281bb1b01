//! History of attempts, assembled from their events, and the run models derived from it.

use crate::{RecordedAttempt, RecordedAttempts};
use std::collections::BTreeMap;
use warpyard_core::event::{End, EndReason};
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{AttemptId, JobId, Span, TaskId, Time};

/// Attempt that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenAttempt {
    placed: Time,
    started: Option<Time>,
    /// Total length of completed pauses.
    paused_for: Span,
    paused: Option<Time>,
    stop_requested: Option<Time>,
}

/// Attempt that has ended, or was cut off by the end of the log.
#[derive(Clone, Debug)]
struct ClosedAttempt {
    delay: Span,
    length: Span,
    /// `None` if it was stopped or cut off: how long it would have run is unknown.
    how: Option<EndReason>,
    stop_delay: Option<Span>,
}

/// History of all attempts.
#[derive(Debug, Default)]
pub(super) struct AttemptHistory {
    open: BTreeMap<AttemptId, OpenAttempt>,
    closed: BTreeMap<TaskId, Vec<ClosedAttempt>>,
}

impl AttemptHistory {
    pub(super) fn placed(&mut self, attempt: AttemptId, at: Time) {
        let one = OpenAttempt {
            placed: at,
            started: None,
            paused_for: Span::ZERO,
            paused: None,
            stop_requested: None,
        };
        self.open.insert(attempt, one);
    }

    pub(super) fn started(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.open.get_mut(&attempt) {
            one.started.get_or_insert(at);
        }
    }

    pub(super) fn paused(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.open.get_mut(&attempt) {
            one.paused = Some(at);
        }
    }

    pub(super) fn resumed(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.open.get_mut(&attempt)
            && let Some(since) = one.paused.take()
        {
            one.paused_for += at.since(since);
        }
    }

    pub(super) fn asked_to_stop(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.open.get_mut(&attempt) {
            one.stop_requested.get_or_insert(at);
        }
    }

    /// Returns whether the attempt was known.
    pub(super) fn ended(&mut self, attempt: AttemptId, end: &End, at: Time) -> bool {
        let Some(one) = self.open.remove(&attempt) else { return false };
        let by_itself = !matches!(end.how, EndReason::Stopped);
        let closed = one.until(at, by_itself.then(|| end.how.clone()));
        self.put(attempt, closed);
        true
    }

    /// Restarts the history at this moment: open attempts are treated as if they had begun now.
    pub(super) fn count_from(&mut self, at: Time) {
        for one in self.open.values_mut() {
            one.placed = at;
            one.started = one.started.map(|_| at);
            one.paused = one.paused.map(|_| at);
            one.paused_for = Span::ZERO;
        }
        self.closed.clear();
    }

    fn put(&mut self, attempt: AttemptId, closed: ClosedAttempt) {
        let all = self.closed.entry(attempt.task).or_default();
        let at = attempt.number as usize - 1;
        // Earlier attempts may precede the recorded part; their places are filled and never read.
        while all.len() < at {
            all.push(closed.clone());
        }
        all.truncate(at);
        all.push(closed);
    }

    /// Closes the attempts that are open when the log ends; their lengths are unknown.
    pub(super) fn close(&mut self, at: Time) {
        for (attempt, one) in std::mem::take(&mut self.open) {
            let closed = one.until(at, None);
            self.put(attempt, closed);
        }
    }

    /// Mean length of the attempts that ended on their own.
    pub(super) fn mean_length(&self) -> Span {
        let lengths = || {
            self.closed.values().flatten().filter(|closed| closed.how.is_some()).map(|closed| closed.length.0)
        };
        let (sum, n) = lengths().fold((0u128, 0u64), |(sum, n), length| (sum + u128::from(length), n + 1));
        Span((sum / u128::from(n.max(1))) as u64)
    }

    /// Recorded attempts of a job; unknown lengths are the expected length, or else `usual`.
    pub(super) fn of(&self, job: JobId, spec: &JobSpec, usual: Span) -> RecordedAttempts {
        let from = TaskId { job, node: 0, index: 0 };
        let to = TaskId { job: JobId(job.0 + 1), node: 0, index: 0 };
        let default_lengths = spec.tasks.iter().map(|task| task.expected().unwrap_or(usual)).collect();
        let mut attempts = RecordedAttempts { by_task: BTreeMap::new(), default_lengths };
        for (task, closed) in self.closed.range(from..to) {
            let spec = &spec.tasks[task.node as usize];
            let whole = closed.iter().rev().find(|closed| closed.how.is_some());
            let tried = closed.iter().map(|one| one.recorded(whole, spec, usual)).collect();
            attempts.by_task.insert((task.node, task.index), tried);
        }
        attempts
    }
}

impl OpenAttempt {
    fn until(self, at: Time, how: Option<EndReason>) -> ClosedAttempt {
        let paused_for = self.paused_for + self.paused.map_or(Span::ZERO, |since| at.since(since));
        let started = self.started.unwrap_or(at);
        ClosedAttempt {
            delay: started.since(self.placed),
            length: at.since(started) - paused_for,
            how,
            stop_delay: self.stop_requested.map(|since| at.since(since)),
        }
    }
}

impl ClosedAttempt {
    /// Run model of the attempt. One that was cut short is assumed to have gone as the task's latest uninterrupted attempt,
    /// failing that for its expected length.
    fn recorded(&self, whole: Option<&ClosedAttempt>, spec: &TaskSpec, usual: Span) -> RecordedAttempt {
        let (length, how) = match (&self.how, whole) {
            (Some(how), _) => (self.length, how.clone()),
            (None, Some(ClosedAttempt { length, how: Some(how), .. })) => {
                ((*length).max(self.length), how.clone())
            }
            (None, _) => (spec.expected().unwrap_or(usual).max(self.length), EndReason::Exited(0)),
        };
        RecordedAttempt { start_delay: self.delay, length, how, stop_delay: self.stop_delay }
    }
}
