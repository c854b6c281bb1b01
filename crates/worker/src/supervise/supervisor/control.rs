//! Control of a running attempt: freezing and thawing it as desired, terminating it with its grace period, killing it.

use std::{path::Path, time::Duration};

use super::{COUNT_INTERVAL, MAX_RETRY, Supervisor};
use crate::supervise::{
    clock::{self, Instant},
    process::{self, Descendant},
    record::{self, DesiredRecord, ExitCause, Phase, StateRecord, VERSION},
};

/// First interval between two checks whether everything is frozen.
const FREEZE_POLL: Duration = Duration::from_millis(1);
/// First interval between two rounds of SIGKILL: a process may fork between being listed and being killed.
const KILL_RETRY: Duration = Duration::from_millis(20);

/// What the supervisor does with the task's processes.
#[derive(Debug)]
pub(super) enum RunState {
    /// They run.
    Running,
    /// They are being frozen; some may still run.
    Freezing {
        check_at: Instant,
        /// The interval before that check.
        interval: Duration,
    },
    /// None of them runs.
    Frozen,
    /// SIGTERM was sent; SIGKILL follows.
    Terminating { cause: ExitCause, kill_at: Instant },
    /// SIGKILL was sent and is repeated until they are gone.
    Killing { cause: ExitCause, since: Instant, retry_at: Instant },
}

impl Supervisor<'_> {
    /// Applies a desired state. It is a level, not an edge: the same one again changes nothing, and once the attempt is
    /// ending only a shorter grace period has an effect.
    pub(super) fn apply(&mut self, desired: DesiredRecord, now: Instant) {
        match (desired, &mut self.run_state) {
            (DesiredRecord::Freeze, RunState::Running) => {
                // The state record names the freezer's cgroup before anything is in it, so that whoever cleans up after a
                // killed supervisor finds it.
                self.freezer.prepare();
                self.publish_phase(Phase::Freezing);
                self.freeze(now);
            }
            (DesiredRecord::Run, RunState::Freezing { .. } | RunState::Frozen) => {
                self.freezer.thaw(&self.tree);
                self.time.resume(now);
                self.run_state = RunState::Running;
                self.publish_phase(Phase::Running);
            }
            (
                DesiredRecord::Stop { grace_ms },
                RunState::Running | RunState::Freezing { .. } | RunState::Frozen,
            ) => {
                self.terminate(ExitCause::Stopped, Duration::from_millis(grace_ms), now);
            }
            (DesiredRecord::Stop { grace_ms }, RunState::Terminating { kill_at, .. }) => {
                *kill_at = (*kill_at).min(now + Duration::from_millis(grace_ms));
            }
            (DesiredRecord::Freeze, RunState::Freezing { .. } | RunState::Frozen)
            | (DesiredRecord::Run, RunState::Running)
            | (DesiredRecord::Run | DesiredRecord::Freeze, RunState::Terminating { .. })
            | (_, RunState::Killing { .. }) => {}
        }
    }

    /// Freezes what can be frozen now and checks again later if something still runs.
    pub(super) fn freeze(&mut self, now: Instant) {
        if self.freezer.freeze(&self.tree) {
            self.time.pause(Instant::now());
            self.run_state = RunState::Frozen;
            self.publish_phase(Phase::Frozen);
        } else {
            let interval = match &self.run_state {
                // A process in an uninterruptible system call may take for ever.
                RunState::Freezing { interval, .. } => (*interval * 2).min(MAX_RETRY),
                _ => FREEZE_POLL,
            };
            self.run_state = RunState::Freezing { check_at: now + interval, interval };
        }
    }

    /// Writes the state record and notifies the worker and attached clients.
    fn publish_phase(&mut self, phase: Phase) {
        if let Some(terminal) = &mut self.terminal {
            match phase {
                Phase::Freezing => {}
                Phase::Frozen => terminal.note("paused; it goes on when it is resumed"),
                Phase::Running => terminal.note("goes on"),
            }
            terminal.record_activity(Instant::now());
        }
        let state = StateRecord {
            v: VERSION,
            key: self.launch.key.clone(),
            phase,
            since: clock::unix_us(),
            group: self.freezer.group().map(Into::into),
        };
        // On a full disk the worker keeps believing the old state, which makes it wait rather than act wrongly.
        let _best_effort = record::write_record(Path::new(record::STATE), &state);
        self.notify_at = Some(Instant::now());
    }

    /// Sends SIGTERM to every process of the task and schedules SIGKILL after the grace period. A set-up has no use for a
    /// grace period and gets none.
    pub(super) fn terminate(&mut self, cause: ExitCause, grace: Duration, now: Instant) {
        let grace = if self.setup_child().is_some() { Duration::ZERO } else { grace };
        self.tree.signal(libc::SIGTERM);
        if self.terminal.is_some() {
            self.send_hangup();
        }
        if matches!(self.run_state, RunState::Freezing { .. } | RunState::Frozen) {
            // Thawed only after the signal was sent, so that a process handles it before it executes anything else.
            self.freezer.thaw(&self.tree);
            self.time.resume(now);
        }
        self.run_state = RunState::Terminating { cause, kill_at: now + grace };
    }

    /// Ends a session the way a lost terminal does: an interactive shell ignores SIGTERM but ends on SIGHUP, and jobs it has
    /// stopped would not run to handle either without SIGCONT.
    fn send_hangup(&self) {
        let first = self.task.as_ref().map(|task| task.process.pid);
        if let Some(pid) = first.filter(|pid| self.status.is_none() && process::ends_by_hanging_up(*pid)) {
            let _gone = self.tree.signal_one(Descendant { pid, parent: self.pid }, libc::SIGHUP);
        }
        self.tree.signal(libc::SIGCONT);
    }

    /// Kills every process of the task, again and again while any is left: often at first, for those that were just
    /// forked, and rarely later, for those that hang in the kernel.
    pub(super) fn kill(&mut self, cause: ExitCause, since: Instant, now: Instant) {
        self.cgroup.kill();
        self.tree.signal(libc::SIGKILL);
        let interval = now.saturating_duration_since(since).clamp(KILL_RETRY, MAX_RETRY);
        self.run_state = RunState::Killing { cause, since, retry_at: now + interval };
    }

    /// Counts the task's processes and kills them if there are too many. They are stopped first, so that they cannot fork
    /// while they are being killed.
    pub(super) fn check_process_count(&mut self, now: Instant) {
        self.count_at = Some(now + COUNT_INTERVAL);
        // One walk only: a fork bomb has new processes at every walk.
        let processes = self.tree.list().len() as u64;
        if self.launch.processes.is_some_and(|most| processes > most)
            && !matches!(self.run_state, RunState::Killing { .. })
        {
            self.tree.signal(libc::SIGSTOP);
            self.outputs.log_note(&format!("ended: it has {processes} processes (max_processes)"));
            self.kill(ExitCause::Crowded { processes }, now, now);
        }
    }
}
