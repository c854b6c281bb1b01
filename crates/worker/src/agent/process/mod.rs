//! The process executor: attempts are processes of this machine, each below a supervisor that the spawner forked. The desired
//! state of an attempt and the record of its end are in its directory, so that supervisors outlive the executor.

mod exit;
mod finding;
mod launching;

use super::devices::Watched;
use super::executor::Executor;
use super::handle::{AgentError, Repaired};
use super::keep::{self, Layout};
use super::reaper::Reaper;
use super::run::tell;
use crate::supervise::{
    AttemptDir, Bounds, DesiredRecord, LEASE_EXPIRED, Phase, ProcessRef, RecordError,
    RecordedAttempt as Record, Spawner, boot_id,
};
use exit::{end_of, lost};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warpyard_core::agent::{
    ForeignRecordId, FoundRecord, LaunchRefusal, MACHINE_RESTARTED, Observation, StopCause,
};
use warpyard_core::event::EndReason;
use warpyard_core::protocol::{Assignment, AttemptStatus};
use warpyard_core::{AttemptId, Span};

/// Number of retired records that may wait for their removal.
const RETIRED_KEPT: usize = 20_000;

/// Number of retired records removed in one batch.
const RETIRE_AT_ONCE: usize = 500;

/// Settings of a process executor: the machine and its limits.
pub(super) struct Machine {
    pub(super) layout: Layout,
    pub(super) log_cap: u64,
    pub(super) shared_at: Option<PathBuf>,
    pub(super) bounds: Bounds,
    pub(super) max_grace: Span,
    /// The file by which supervisors end attempts where the agent does not.
    pub(super) deadlines: Option<PathBuf>,
    /// This executable, which is also the claim holder.
    pub(super) program: PathBuf,
    pub(super) repaired: Repaired,
    /// Socket at which supervisors notify the agent.
    pub(super) poke: PathBuf,
}

/// Executor that runs attempts as processes.
pub(super) struct ProcessExecutor {
    machine: Machine,
    spawner: Spawner,
    reaper: Reaper,
    /// Directories of attempts, found or created.
    dirs: BTreeMap<AttemptId, AttemptDir>,
    /// Supervisors of attempts that were observed running, for when their records are removed.
    supervisors: BTreeMap<AttemptId, ProcessRef>,
    /// Attempts of another log.
    foreign: Vec<AttemptDir>,
    /// Retired records. They are removed while the worker is idle, because on some file systems removal slows down creation.
    retired: VecDeque<AttemptDir>,
    launches_lost: bool,
    /// Whether it was logged that the file system in memory is full.
    told_full: bool,
}

impl ProcessExecutor {
    pub(super) fn new(machine: Machine, spawner: Spawner, reaper: Reaper) -> ProcessExecutor {
        ProcessExecutor {
            machine,
            spawner,
            reaper,
            dirs: BTreeMap::new(),
            supervisors: BTreeMap::new(),
            foreign: Vec::new(),
            retired: VecDeque::new(),
            launches_lost: false,
            told_full: false,
        }
    }

    /// Observation of an attempt whose supervisor was killed, once no process of it is left.
    pub(super) fn reaped(&mut self, id: AttemptId) -> Observation {
        self.reaper.done(id);
        lost("its supervisor was killed")
    }

    fn dir(&mut self, id: AttemptId) -> AttemptDir {
        let layout = &self.machine.layout;
        self.dirs.entry(id).or_insert_with(|| AttemptDir::new(layout.attempt_dir(id))).clone()
    }

    /// Desired state of an attempt that is to stop within a grace period.
    fn stop_within(&self, grace: Span) -> DesiredRecord {
        DesiredRecord::Stop { grace_ms: grace.min(self.machine.max_grace).0 / 1000 }
    }

    fn want(&mut self, id: AttemptId, want: DesiredRecord) {
        let dir = self.dir(id);
        let unchanged = dir.desired().is_ok_and(|w| w == Some(want));
        // An attempt that was not observed running may have been launched again since.
        if unchanged && self.supervisors.contains_key(&id) {
            return;
        }
        if let Err(e) = dir.write_desired(want) {
            tell(format_args!("cannot say what is wanted of attempt {id}: {e}"));
        }
    }

    /// Observation of an attempt by its record.
    fn read(&mut self, id: AttemptId, dir: &AttemptDir, record: Record) -> Result<Observation, RecordError> {
        Ok(match record {
            Record::NotStarted => Observation::NotStarted,
            Record::Supervised(running, phase) => {
                self.supervisors.insert(id, running.supervisor);
                match phase {
                    // Until its last thread is frozen it runs.
                    Phase::Running | Phase::Freezing => AttemptStatus::Running.into(),
                    Phase::Frozen => AttemptStatus::Frozen.into(),
                }
            }
            Record::Exited(exit) => {
                let mut end = end_of(&exit);
                if end.how == EndReason::Stopped && dir.path().join(LEASE_EXPIRED).exists() {
                    end.how = StopCause::LeaseExpired.how();
                }
                AttemptStatus::Over(end).into()
            }
            // No process survives a reboot.
            Record::Died(running) if running.boot != boot_id() => lost(MACHINE_RESTARTED),
            Record::Died(running) => {
                self.reaper.take(id, dir, running)?;
                // Its devices are in use until its last process has ended.
                AttemptStatus::Running.into()
            }
        })
    }

    /// Recreates the directory of a running attempt that was removed, and signals its supervisor to write its records again.
    /// Without a supervisor the attempt is lost.
    fn restore(&self, id: AttemptId, dir: &AttemptDir) -> Observation {
        let Some(supervisor) = self.supervisors.get(&id).filter(|supervisor| supervisor.is_alive()) else {
            return lost("its records were removed");
        };
        let told = std::fs::create_dir_all(dir.path()).and_then(|()| supervisor.signal(libc::SIGUSR1));
        if let Err(e) = told {
            tell(format_args!("cannot restore the records of attempt {id}: {e}"));
        }
        AttemptStatus::Running.into()
    }
}

impl Executor for ProcessExecutor {
    fn find(&mut self) -> Result<Vec<FoundRecord>, AgentError> {
        self.find_records()
    }

    fn launch(&mut self, assignment: &Assignment, devices: &Watched) -> Result<(), LaunchRefusal> {
        self.send_launch(assignment, devices)
    }

    fn launches_lost(&mut self) -> bool {
        if self.spawner.has_died() {
            match self.spawner.restart() {
                Ok(()) => self.launches_lost = true,
                Err(e) => tell(format_args!("cannot start the spawner again: {e}")),
            }
        }
        std::mem::take(&mut self.launches_lost)
    }

    fn observe(&mut self, id: AttemptId) -> Option<Observation> {
        let dir = self.dir(id);
        let begun = self.supervisors.contains_key(&id);
        let seen = dir.inspect().and_then(|record| match record {
            Record::NotStarted if begun => Ok(self.restore(id, &dir)),
            record => self.read(id, &dir, record),
        });
        or_unreadable(id, seen)
    }

    fn examine(&mut self, id: AttemptId) -> Option<Observation> {
        let dir = AttemptDir::new(self.machine.layout.attempt_dir(id));
        self.dirs.insert(id, dir.clone());
        let seen = dir.inspect().and_then(|record| match self.misfiled(id, &dir, &record)? {
            Some(why) => Ok(Observation::Unreadable(why)),
            None => self.read(id, &dir, record),
        });
        or_unreadable(id, seen)
    }

    fn stop(&mut self, id: AttemptId, grace: Span, cause: StopCause) {
        if cause == StopCause::LeaseExpired {
            let dir = self.dir(id);
            let noted = std::fs::create_dir_all(dir.path());
            if let Err(e) = noted.and_then(|()| std::fs::write(dir.path().join(LEASE_EXPIRED), "")) {
                tell(format_args!("cannot note why attempt {id} is ended: {e}"));
            }
        }
        self.want(id, self.stop_within(grace));
    }

    fn freeze(&mut self, id: AttemptId) {
        self.want(id, DesiredRecord::Freeze);
    }

    fn thaw(&mut self, id: AttemptId) {
        self.want(id, DesiredRecord::Run);
    }

    fn call_off(&mut self, id: AttemptId) -> Option<Observation> {
        self.write_off(id)
    }

    fn discard(&mut self, id: AttemptId, why: &str) {
        let dir = self.dir(id);
        self.set_aside(id, &dir, why);
    }

    fn retire(&mut self, id: AttemptId) {
        let dir = self.dir(id);
        self.dirs.remove(&id);
        self.supervisors.remove(&id);
        self.retired.push_back(dir);
    }

    fn stop_foreign(&mut self, record: ForeignRecordId, grace: Span) -> bool {
        self.end_foreign(record, grace)
    }

    fn retire_foreign(&mut self, record: ForeignRecordId) {
        self.retired.extend(self.foreign.get(record.0 as usize).cloned());
    }

    fn processes(&self, id: AttemptId) -> BTreeSet<u32> {
        let running = self.dirs.get(&id).and_then(|dir| dir.running().ok().flatten());
        running.map(|r| r.processes()).unwrap_or_default().into_iter().map(|pid| pid as u32).collect()
    }

    fn tidy(&mut self, idle: bool) {
        let over = self.retired.len().saturating_sub(RETIRED_KEPT);
        let now = if idle { over.max(RETIRE_AT_ONCE).min(self.retired.len()) } else { over };
        for dir in self.retired.drain(..now) {
            if let Err(e) = keep::retire(dir.path()) {
                tell(format_args!("cannot remove {}: {e}", dir.path().display()));
            }
        }
    }

    fn leave(&mut self, within: Duration) {
        let begun = Instant::now();
        while !self.retired.is_empty() && begun.elapsed() < within {
            self.tidy(true);
        }
    }
}

/// The observation, or that the record is damaged; none where it could not be read for now.
fn or_unreadable(id: AttemptId, seen: Result<Observation, RecordError>) -> Option<Observation> {
    match seen {
        Ok(seen) => Some(seen),
        Err(e) if e.is_damage() => Some(Observation::Unreadable(finding::in_words(&e))),
        Err(e) => {
            tell(format_args!("cannot read how attempt {id} is: {e}"));
            None
        }
    }
}
