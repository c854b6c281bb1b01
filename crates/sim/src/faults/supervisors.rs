//! Simulated executor of a machine: supervisors with their processes and records. It does as the worker's agent tells it and
//! reports what it observes. Records and processes survive a crash of the agent, but not of the machine.

use super::machine::{MachineEffects, MachineTimer};
use super::users::AttemptScript;
use std::collections::BTreeMap;
use warpyard_core::agent::{ForeignRecordId, FoundRecord, Observation, RecordOwner, StopCause};
use warpyard_core::cluster::DesiredState;
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::protocol::AttemptStatus;
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span, Time};

/// All supervisors of a machine.
#[derive(Default)]
pub(super) struct Supervisors {
    supervised: BTreeMap<AttemptId, Supervised>,
    /// Attempts of another log.
    foreign: BTreeMap<ForeignRecordId, ForeignAttempt>,
    next_foreign: u32,
}

/// Supervised attempt.
#[derive(Default)]
struct Supervised {
    want: Option<DesiredState>,
    /// Whether it is to stop because the lease expired.
    expired: bool,
    state: SupervisedState,
}

/// State of a supervised attempt.
#[derive(Default)]
enum SupervisedState {
    /// There is a record, but no launch.
    #[default]
    NotStarted,
    /// A launch is in flight, or was lost.
    Launching(AttemptScript),
    Running(Process),
    Ended(End),
}

/// Attempt of another log that used the machine before and left it running.
struct ForeignAttempt {
    name: AttemptId,
    /// When it ends, on its own or by a stop request.
    ends: Time,
    stop_requested: bool,
}

struct Process {
    script: AttemptScript,
    /// Running time until it ends on its own, counted from `since`.
    left: Span,
    ran: Span,
    since: Time,
    frozen: bool,
    /// When it ends next; timers of other moments are obsolete.
    ends: Option<Time>,
    /// Whether it was requested to stop.
    stop_requested: bool,
}

impl Supervisors {
    /// Attempts with a process, frozen or not.
    pub(super) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let alive = self.supervised.iter().filter(|(_, s)| matches!(s.state, SupervisedState::Running(_)));
        alive.map(|(&id, _)| id)
    }

    /// Attempts with a process, and what happens to each if the worker is lost.
    pub(super) fn on_loss(&self) -> impl Iterator<Item = (AttemptId, OnLost)> + '_ {
        self.supervised.iter().filter_map(|(&id, supervised)| match &supervised.state {
            SupervisedState::Running(process) => Some((id, process.script.on_lost)),
            _ => None,
        })
    }

    /// Whether attempts of another log have processes here.
    pub(super) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// Whether a launch is in flight, or was lost.
    pub(super) fn has_launches(&self) -> bool {
        self.supervised.values().any(|s| matches!(s.state, SupervisedState::Launching(_)))
    }

    /// Records that an agent finds when it starts.
    pub(super) fn records(&self) -> Vec<FoundRecord> {
        let ours = self.supervised.iter().map(|(&attempt, supervised)| {
            let on_lost = match &supervised.state {
                SupervisedState::Launching(AttemptScript { on_lost, .. }) => *on_lost,
                SupervisedState::Running(process) => process.script.on_lost,
                SupervisedState::NotStarted | SupervisedState::Ended(_) => OnLost::default(),
            };
            FoundRecord { attempt, owner: RecordOwner::ThisLog, on_lost, seen: supervised.seen() }
        });
        let theirs = self.foreign.iter().map(|(&id, attempt)| {
            let (owner, on_lost) = (RecordOwner::AnotherLog(id), OnLost::default());
            FoundRecord { attempt: attempt.name, owner, on_lost, seen: AttemptStatus::Running.into() }
        });
        ours.chain(theirs).collect()
    }

    /// Observation of an attempt.
    pub(super) fn seen(&self, id: AttemptId) -> Observation {
        self.supervised.get(&id).map_or(Observation::NotStarted, Supervised::seen)
    }

    /// Adds an attempt of another log with this id.
    pub(super) fn leave_foreign(&mut self, name: AttemptId, ends: Time, effects: &mut MachineEffects) {
        let id = ForeignRecordId(self.next_foreign);
        self.next_foreign += 1;
        self.foreign.insert(id, ForeignAttempt { name, ends, stop_requested: false });
        effects.timers.push((ends, MachineTimer::ForeignEnds(id)));
    }

    pub(super) fn stop_foreign(
        &mut self,
        now: Time,
        id: ForeignRecordId,
        grace: Span,
        effects: &mut MachineEffects,
    ) {
        if let Some(attempt) = self.foreign.get_mut(&id).filter(|attempt| !attempt.stop_requested) {
            attempt.stop_requested = true;
            attempt.ends = attempt.ends.min(now + grace);
            effects.timers.push((attempt.ends, MachineTimer::ForeignEnds(id)));
        }
    }

    /// Whether an attempt of another log has ended by now.
    pub(super) fn foreign_ends(&mut self, now: Time, id: ForeignRecordId) -> bool {
        let ends = self.foreign.get(&id).is_some_and(|attempt| attempt.ends <= now);
        if ends {
            self.foreign.remove(&id);
        }
        ends
    }

    pub(super) fn launch(
        &mut self,
        now: Time,
        id: AttemptId,
        script: AttemptScript,
        effects: &mut MachineEffects,
    ) {
        let supervised = self.supervised.entry(id).or_default();
        // Launching is idempotent: an attempt that has started does not start again.
        if matches!(supervised.state, SupervisedState::NotStarted | SupervisedState::Launching(_)) {
            if let Some(delay) = script.start_delay {
                effects.timers.push((now + delay, MachineTimer::Start(id)));
            }
            supervised.state = SupervisedState::Launching(script);
            // An earlier agent may have called it off and crashed before the server heard of it.
            supervised.want = supervised.want.filter(|want| *want != DesiredState::Stop);
            supervised.expired = false;
        }
    }

    /// Notes why an attempt is to stop, for its record.
    pub(super) fn note_cause(&mut self, id: AttemptId, cause: StopCause) {
        self.supervised.entry(id).or_default().expired |= cause == StopCause::LeaseExpired;
    }

    /// Sets the desired state of an attempt.
    pub(super) fn want(
        &mut self,
        now: Time,
        id: AttemptId,
        want: DesiredState,
        grace: Span,
        effects: &mut MachineEffects,
    ) {
        let supervised = self.supervised.entry(id).or_default();
        supervised.want = Some(want);
        if let SupervisedState::Running(process) = &mut supervised.state {
            process.apply(now, want, grace);
            if let Some(at) = process.ends {
                effects.timers.push((at, MachineTimer::Process(id)));
            }
        }
    }

    /// Cancels a launch, unless the attempt has started.
    pub(super) fn call_off(&mut self, id: AttemptId) {
        let supervised = self.supervised.entry(id).or_default();
        if matches!(supervised.state, SupervisedState::NotStarted | SupervisedState::Launching(_)) {
            supervised.want = Some(DesiredState::Stop);
        }
    }

    /// Starts the process of a launched attempt.
    pub(super) fn start(&mut self, now: Time, id: AttemptId, effects: &mut MachineEffects) {
        let supervised = self.supervised.entry(id).or_default();
        let SupervisedState::Launching(script) = &supervised.state else { return };
        if supervised.want == Some(DesiredState::Stop) {
            let how = supervised.cause().how();
            supervised.state = SupervisedState::Ended(End { how: how.clone(), usage: Usage::default() });
            effects.ended.push((id, how));
            return;
        }
        let mut process = Process::new(script.clone(), now);
        if supervised.want == Some(DesiredState::Freeze) {
            process.apply(now, DesiredState::Freeze, Span::ZERO);
        }
        if let Some(at) = process.ends {
            effects.timers.push((at, MachineTimer::Process(id)));
        }
        supervised.state = SupervisedState::Running(process);
        effects.started.push(id);
    }

    /// Ends a process, if this is its moment.
    pub(super) fn process_due(&mut self, now: Time, id: AttemptId, effects: &mut MachineEffects) {
        let Some(supervised) = self.supervised.get(&id) else { return };
        let SupervisedState::Running(process) = &supervised.state else { return };
        if process.ends == Some(now) {
            let how = process.end_reason(now, supervised.cause());
            self.end(now, id, how, effects);
        }
    }

    /// Ends a process.
    pub(super) fn end(&mut self, now: Time, id: AttemptId, how: EndReason, effects: &mut MachineEffects) {
        let supervised = self.supervised.get_mut(&id).expect("an attempt that ends has a record");
        let ran = match &mut supervised.state {
            SupervisedState::Running(process) => {
                process.accrue(now);
                process.ran
            }
            _ => Span::ZERO,
        };
        supervised.state =
            SupervisedState::Ended(End { how: how.clone(), usage: Usage { ran, ..Usage::default() } });
        effects.ended.push((id, how));
    }

    /// Removes the record of an ended attempt.
    pub(super) fn retire(&mut self, id: AttemptId) {
        if self.supervised.get(&id).is_some_and(|s| !matches!(s.state, SupervisedState::Running(_))) {
            self.supervised.remove(&id);
        }
    }
}

impl Supervised {
    fn cause(&self) -> StopCause {
        if self.expired { StopCause::LeaseExpired } else { StopCause::Wanted }
    }

    fn seen(&self) -> Observation {
        match &self.state {
            SupervisedState::NotStarted | SupervisedState::Launching(_) => Observation::NotStarted,
            SupervisedState::Running(process) if process.frozen => AttemptStatus::Frozen.into(),
            SupervisedState::Running(_) => AttemptStatus::Running.into(),
            SupervisedState::Ended(end) => AttemptStatus::Over(end.clone()).into(),
        }
    }
}

impl Process {
    fn new(script: AttemptScript, now: Time) -> Process {
        let mut process = Process {
            left: script.run.length,
            script,
            ran: Span::ZERO,
            since: now,
            frozen: false,
            ends: None,
            stop_requested: false,
        };
        process.schedule_end(now);
        process
    }

    fn allowed(&self) -> Span {
        self.script.timeout.map_or(Span::UNKNOWN, |t| t - self.ran)
    }

    fn schedule_end(&mut self, now: Time) {
        self.ends = Some(now + self.left.min(self.allowed()));
    }

    fn accrue(&mut self, now: Time) {
        if !self.frozen {
            let ran = now.since(self.since);
            self.ran += ran;
            self.left = self.left - ran;
        }
        self.since = now;
    }

    fn apply(&mut self, now: Time, want: DesiredState, grace: Span) {
        self.accrue(now);
        match want {
            // A second request with a shorter grace period ends it sooner.
            DesiredState::Stop if self.stop_requested && self.ends <= Some(now + grace) => {}
            DesiredState::Stop => {
                self.stop_requested = true;
                let takes =
                    if self.script.run.ignores_stop { grace } else { self.script.stop_delay.min(grace) };
                self.ends = Some(now + takes);
            }
            DesiredState::Freeze if !self.stop_requested => {
                self.frozen = true;
                self.ends = None;
            }
            DesiredState::Run if !self.stop_requested => {
                self.frozen = false;
                self.schedule_end(now);
            }
            DesiredState::Freeze | DesiredState::Run | DesiredState::Yield => {}
        }
    }

    fn end_reason(&self, now: Time, cause: StopCause) -> EndReason {
        let ran = if self.frozen { Span::ZERO } else { now.since(self.since) };
        if self.stop_requested {
            cause.how()
        } else if self.left - ran == Span::ZERO {
            self.script.run.how.clone()
        } else {
            EndReason::TimedOut
        }
    }
}
