//! Detection of out-of-memory kills in the attempt's cgroup.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use nix::sys::eventfd::EventFd;

use super::{Supervisor, control::RunState};
use crate::supervise::{
    cgroup::{AttemptCgroup, CgroupLimit, Limit},
    clock::Instant,
    launch::Launch,
    record::ExitCause,
};

/// Interval and number of looks at the counter of kills after the limit was reached.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const POLLS: u32 = 100;

/// The watch over an attempt's memory limit.
pub(super) struct OomWatch {
    limit_bytes: Option<u64>,
    /// Becomes readable when the limit is reached (cgroup v1 only).
    event: Option<EventFd>,
    /// When to look at the counter of kills again.
    poll_at: Option<Instant>,
    polls_left: u32,
}

impl OomWatch {
    pub(super) fn new(cgroup: &AttemptCgroup, launch: &Launch) -> Self {
        let limit_bytes = launch.cgroups.iter().find_map(|CgroupLimit { limit, .. }| match limit {
            Limit::Memory(bytes) => Some(*bytes),
            _ => None,
        });
        Self {
            limit_bytes,
            event: limit_bytes.and_then(|_| cgroup.oom_event()),
            poll_at: None,
            polls_left: 0,
        }
    }

    /// The descriptor to wait for.
    pub(super) fn event(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    /// When to look at the counter of kills again.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.poll_at
    }

    /// The exit cause, if a process was killed because the limit was reached.
    pub(super) fn cause(&self, cgroup: &AttemptCgroup) -> Option<ExitCause> {
        let limit_bytes = self.limit_bytes.filter(|_| cgroup.oom_kills() > 0)?;
        Some(ExitCause::OutOfMemory { limit_bytes })
    }

    /// Handles the event that the limit was reached. The kernel signals it before it kills, and may reclaim memory instead,
    /// so the counter is polled for a while.
    pub(super) fn limit_reached(&mut self, now: Instant) {
        let _emptied = self.event.as_ref().map(EventFd::read);
        (self.poll_at, self.polls_left) = (Some(now), POLLS);
    }

    fn schedule_next_poll(&mut self, now: Instant) {
        self.polls_left = self.polls_left.saturating_sub(1);
        self.poll_at = (self.polls_left > 0).then_some(now + POLL_INTERVAL);
    }
}

impl Supervisor<'_> {
    /// Kills the whole attempt once the kernel has killed one of its processes for memory, as the unified hierarchy does by
    /// itself (`memory.oom.group`): the rest would only appear to work.
    pub(super) fn check_oom(&mut self, now: Instant) {
        match self.oom.cause(&self.cgroup) {
            None => self.oom.schedule_next_poll(now),
            Some(cause) => {
                self.oom.poll_at = None;
                if !matches!(self.run_state, RunState::Terminating { .. } | RunState::Killing { .. }) {
                    self.kill(cause, now, now);
                }
            }
        }
    }
}
