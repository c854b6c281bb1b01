//! Reaping: exit statuses and resource usage of children, and the end of what a task leaves behind.
#![expect(unsafe_code, reason = "children are waited for together with their resource usage")]

use std::time::Duration;

use super::{Supervisor, control::RunState};
use crate::supervise::{
    clock::Instant,
    record::{ExitCause, Status, Usage},
};

/// Grace period of processes a task leaves behind when it exits by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// Whether the supervisor has children left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    Remain,
    AllReaped,
}

impl Supervisor<'_> {
    /// Reaps children that have exited, and begins to end what the task left behind when it exited by itself.
    pub(super) fn reap(&mut self) -> Children {
        let children = self.reap_exited();
        if children == Children::Remain
            && self.status.is_some()
            && !matches!(self.run_state, RunState::Terminating { .. } | RunState::Killing { .. })
        {
            let grace = LEFTOVER_GRACE.min(Duration::from_millis(self.launch.grace_ms));
            self.terminate(ExitCause::Exited, grace, Instant::now());
        }
        children
    }

    /// As this process is a subreaper, every descendant becomes its child in the end: once none is left, `wait4` fails with
    /// ECHILD and the whole tree is gone.
    fn reap_exited(&mut self) -> Children {
        loop {
            let mut status = 0;
            // SAFETY: rusage is plain numbers, for which zeroes are valid; both pointers are to our own variables.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
            };
            match pid {
                0 => return Children::Remain,
                1.. => {
                    self.usage.add(&usage);
                    if self.task.as_ref().is_some_and(|task| task.process.pid == pid) {
                        self.status = Some(exit_status(status));
                    }
                }
                _ => return Children::AllReaped,
            }
        }
    }
}

fn exit_status(status: i32) -> Status {
    if libc::WIFSIGNALED(status) {
        Status::Signal(libc::WTERMSIG(status))
    } else {
        Status::Code(libc::WEXITSTATUS(status))
    }
}

impl Usage {
    /// Adds the usage of one child, which includes that of the descendants it waited for.
    fn add(&mut self, usage: &libc::rusage) {
        let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        self.cpu_us += us(usage.ru_utime) + us(usage.ru_stime);
        self.peak_rss_bytes = self.peak_rss_bytes.max(usage.ru_maxrss as u64 * 1024);
    }
}
