//! How attempts went, put together from the events about them.

use crate::{RecordedAttempt, RecordedAttempts};
use std::collections::BTreeMap;
use warpyard_core::event::{End, EndReason};
use warpyard_core::spec::{JobSpec, TaskSpec};
use warpyard_core::{AttemptId, JobId, Span, TaskId, Time};

/// An attempt that is not over.
#[derive(Clone, Copy, Debug)]
struct OpenAttempt {
    placed: Time,
    started: Option<Time>,
    /// Standing still until `paused`, left out of its length.
    stood: Span,
    paused: Option<Time>,
    asked: Option<Time>,
}

/// An attempt that is over, or was not when the log ended.
#[derive(Clone, Debug)]
struct ClosedAttempt {
    delay: Span,
    length: Span,
    /// None where it was ended by someone, or has not ended: how long it would have run is not known.
    how: Option<EndReason>,
    stop_delay: Option<Span>,
}

/// All attempts there were.
#[derive(Debug, Default)]
pub(super) struct AttemptHistory {
    under_way: BTreeMap<AttemptId, OpenAttempt>,
    went: BTreeMap<TaskId, Vec<ClosedAttempt>>,
}

impl AttemptHistory {
    pub(super) fn placed(&mut self, attempt: AttemptId, at: Time) {
        let one = OpenAttempt { placed: at, started: None, stood: Span::ZERO, paused: None, asked: None };
        self.under_way.insert(attempt, one);
    }

    pub(super) fn started(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.under_way.get_mut(&attempt) {
            one.started.get_or_insert(at);
        }
    }

    pub(super) fn paused(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.under_way.get_mut(&attempt) {
            one.paused = Some(at);
        }
    }

    pub(super) fn resumed(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.under_way.get_mut(&attempt)
            && let Some(since) = one.paused.take()
        {
            one.stood += at.since(since);
        }
    }

    pub(super) fn asked_to_stop(&mut self, attempt: AttemptId, at: Time) {
        if let Some(one) = self.under_way.get_mut(&attempt) {
            one.asked.get_or_insert(at);
        }
    }

    /// Says whether the attempt was known.
    pub(super) fn ended(&mut self, attempt: AttemptId, end: &End, at: Time) -> bool {
        let Some(one) = self.under_way.remove(&attempt) else { return false };
        let by_itself = !matches!(end.how, EndReason::Stopped);
        let went = one.until(at, by_itself.then(|| end.how.clone()));
        self.put(attempt, went);
        true
    }

    /// From now on lengths count from this moment: what is under way began no earlier.
    pub(super) fn count_from(&mut self, at: Time) {
        for one in self.under_way.values_mut() {
            one.placed = at;
            one.started = one.started.map(|_| at);
            one.paused = one.paused.map(|_| at);
            one.stood = Span::ZERO;
        }
        self.went.clear();
    }

    fn put(&mut self, attempt: AttemptId, went: ClosedAttempt) {
        let all = self.went.entry(attempt.task).or_default();
        let at = attempt.number as usize - 1;
        // Earlier attempts may be from before the beginning; nobody will ask for those.
        while all.len() < at {
            all.push(went.clone());
        }
        all.truncate(at);
        all.push(went);
    }

    /// What is still under way when the log ends goes on for an unknown time.
    pub(super) fn close(&mut self, at: Time) {
        for (attempt, one) in std::mem::take(&mut self.under_way) {
            let went = one.until(at, None);
            self.put(attempt, went);
        }
    }

    /// The mean length of those that ended by themselves.
    pub(super) fn mean_length(&self) -> Span {
        let lengths =
            || self.went.values().flatten().filter(|went| went.how.is_some()).map(|went| went.length.0);
        let (sum, n) = lengths().fold((0u128, 0u64), |(sum, n), length| (sum + u128::from(length), n + 1));
        Span((sum / u128::from(n.max(1))) as u64)
    }

    /// How the attempts of a job went; where that is not known, as long as was expected, or else `usual`.
    pub(super) fn of(&self, job: JobId, spec: &JobSpec, usual: Span) -> RecordedAttempts {
        let from = TaskId { job, node: 0, index: 0 };
        let to = TaskId { job: JobId(job.0 + 1), node: 0, index: 0 };
        let default_lengths = spec.tasks.iter().map(|task| task.expected().unwrap_or(usual)).collect();
        let mut attempts = RecordedAttempts { by_task: BTreeMap::new(), default_lengths };
        for (task, went) in self.went.range(from..to) {
            let spec = &spec.tasks[task.node as usize];
            let whole = went.iter().rev().find(|went| went.how.is_some());
            let tried = went.iter().map(|one| one.as_try(whole, spec, usual)).collect();
            attempts.by_task.insert((task.node, task.index), tried);
        }
        attempts
    }
}

impl OpenAttempt {
    fn until(self, at: Time, how: Option<EndReason>) -> ClosedAttempt {
        let stood = self.stood + self.paused.map_or(Span::ZERO, |since| at.since(since));
        let started = self.started.unwrap_or(at);
        ClosedAttempt {
            delay: started.since(self.placed),
            length: at.since(started) - stood,
            how,
            stop_delay: self.asked.map(|asked| at.since(asked)),
        }
    }
}

impl ClosedAttempt {
    /// One that was cut short would have gone as one did that was not; failing that, as long as was expected.
    fn as_try(&self, whole: Option<&ClosedAttempt>, spec: &TaskSpec, usual: Span) -> RecordedAttempt {
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
