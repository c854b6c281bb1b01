//! The simulated executor of a machine: supervisors with their processes and records. It does what it is asked to and says
//! what it sees; what to ask for is decided by the worker's agent. Records and processes outlive the agent, but not the
//! machine.

use super::machine::{MachineEffects, MachineTimer};
use super::users::AttemptScript;
use std::collections::BTreeMap;
use warpyard_core::agent::{ForeignRecordId, FoundRecord, Observation, RecordOwner, StopCause};
use warpyard_core::cluster::DesiredState;
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span, Time};

#[derive(Default)]
pub(super) struct Supervisors {
    supervised: BTreeMap<AttemptId, Supervised>,
    /// Attempts of another log, by name and when each ends.
    strangers: BTreeMap<ForeignRecordId, Stranger>,
    next_stranger: u32,
}

/// An attempt as its supervisor has it.
#[derive(Default)]
struct Supervised {
    want: Option<DesiredState>,
    /// Whether that is because the lease expired.
    expired: bool,
    stage: SupervisedState,
}

#[derive(Default)]
enum SupervisedState {
    /// There are files, but nothing to begin.
    #[default]
    NotStarted,
    /// A launch is on its way, or was lost.
    Planned(AttemptScript),
    Alive(Process),
    Over(End),
}

/// An attempt that another log, which used the machine before, left running.
struct Stranger {
    name: AttemptId,
    /// When it ends by itself, or once it was asked to.
    ends: Time,
    asked: bool,
}

struct Process {
    brief: AttemptScript,
    /// Running time until it ends by itself, counted from `since`.
    left: Span,
    ran: Span,
    since: Time,
    frozen: bool,
    /// When something happens to it by itself; other alarms are void.
    alarm: Option<Time>,
    /// Whether it was asked to end.
    asked: bool,
}

impl Supervisors {
    /// The attempts whose processes are there, frozen or not.
    pub(super) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let alive = self.supervised.iter().filter(|(_, s)| matches!(s.stage, SupervisedState::Alive(_)));
        alive.map(|(&id, _)| id)
    }

    /// The attempts whose processes are there, and what happens to each when the worker is lost.
    pub(super) fn on_loss(&self) -> impl Iterator<Item = (AttemptId, OnLost)> + '_ {
        self.supervised.iter().filter_map(|(&id, supervised)| match &supervised.stage {
            SupervisedState::Alive(process) => Some((id, process.brief.on_lost)),
            _ => None,
        })
    }

    /// Whether processes of another log's attempts are there.
    pub(super) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// Whether a launch is on its way, or was lost.
    pub(super) fn has_launches(&self) -> bool {
        self.supervised.values().any(|s| matches!(s.stage, SupervisedState::Planned(_)))
    }

    /// Everything an agent finds when it starts.
    pub(super) fn records(&self) -> Vec<FoundRecord> {
        let ours = self.supervised.iter().map(|(&attempt, supervised)| {
            let on_lost = match &supervised.stage {
                SupervisedState::Planned(AttemptScript { on_lost, .. }) => *on_lost,
                SupervisedState::Alive(process) => process.brief.on_lost,
                SupervisedState::NotStarted | SupervisedState::Over(_) => OnLost::default(),
            };
            FoundRecord { attempt, owner: RecordOwner::ThisLog, on_lost, seen: supervised.seen() }
        });
        let theirs = self.strangers.iter().map(|(&id, stranger)| {
            let (owner, on_lost) = (RecordOwner::AnotherLog(id), OnLost::default());
            FoundRecord { attempt: stranger.name, owner, on_lost, seen: Observation::Running }
        });
        ours.chain(theirs).collect()
    }

    /// How an attempt is.
    pub(super) fn seen(&self, id: AttemptId) -> Observation {
        self.supervised.get(&id).map_or(Observation::NotStarted, Supervised::seen)
    }

    /// Another log left an attempt of this name.
    pub(super) fn leave_stranger(&mut self, name: AttemptId, ends: Time, out: &mut MachineEffects) {
        let id = ForeignRecordId(self.next_stranger);
        self.next_stranger += 1;
        self.strangers.insert(id, Stranger { name, ends, asked: false });
        out.later.push((ends, MachineTimer::StrangerEnds(id)));
    }

    pub(super) fn stop_stranger(
        &mut self,
        now: Time,
        id: ForeignRecordId,
        grace: Span,
        out: &mut MachineEffects,
    ) {
        if let Some(stranger) = self.strangers.get_mut(&id).filter(|stranger| !stranger.asked) {
            stranger.asked = true;
            stranger.ends = stranger.ends.min(now + grace);
            out.later.push((stranger.ends, MachineTimer::StrangerEnds(id)));
        }
    }

    /// Whether a stranger has ended by now.
    pub(super) fn stranger_ends(&mut self, now: Time, id: ForeignRecordId) -> bool {
        let ends = self.strangers.get(&id).is_some_and(|stranger| stranger.ends <= now);
        if ends {
            self.strangers.remove(&id);
        }
        ends
    }

    pub(super) fn launch(
        &mut self,
        now: Time,
        id: AttemptId,
        brief: AttemptScript,
        out: &mut MachineEffects,
    ) {
        let supervised = self.supervised.entry(id).or_default();
        // What began once does not begin again, however often it is launched.
        if matches!(supervised.stage, SupervisedState::NotStarted | SupervisedState::Planned(_)) {
            if let Some(delay) = brief.begins_after {
                out.later.push((now + delay, MachineTimer::Begin(id)));
            }
            supervised.stage = SupervisedState::Planned(brief);
            // An earlier agent may have called it off and died before the server heard of that.
            supervised.want = supervised.want.filter(|want| *want != DesiredState::Stop);
            supervised.expired = false;
        }
    }

    /// Notes why an attempt is to end, for its record to tell.
    pub(super) fn note_cause(&mut self, id: AttemptId, cause: StopCause) {
        self.supervised.entry(id).or_default().expired |= cause == StopCause::LeaseExpired;
    }

    /// Says what is wanted of an attempt.
    pub(super) fn want(
        &mut self,
        now: Time,
        id: AttemptId,
        want: DesiredState,
        grace: Span,
        out: &mut MachineEffects,
    ) {
        let supervised = self.supervised.entry(id).or_default();
        supervised.want = Some(want);
        if let SupervisedState::Alive(process) = &mut supervised.stage {
            process.heed(now, want, grace);
            if let Some(at) = process.alarm {
                out.later.push((at, MachineTimer::Ring(id)));
            }
        }
    }

    /// Has an attempt never begin, unless it has.
    pub(super) fn call_off(&mut self, id: AttemptId) {
        let supervised = self.supervised.entry(id).or_default();
        if matches!(supervised.stage, SupervisedState::NotStarted | SupervisedState::Planned(_)) {
            supervised.want = Some(DesiredState::Stop);
        }
    }

    /// A supervisor has its launch.
    pub(super) fn begin(&mut self, now: Time, id: AttemptId, out: &mut MachineEffects) {
        let supervised = self.supervised.entry(id).or_default();
        let SupervisedState::Planned(brief) = &supervised.stage else { return };
        if supervised.want == Some(DesiredState::Stop) {
            let how = supervised.cause().how();
            supervised.stage = SupervisedState::Over(End { how: how.clone(), usage: Usage::default() });
            out.ended.push((id, how));
            return;
        }
        let mut process = Process::new(brief.clone(), now);
        if supervised.want == Some(DesiredState::Freeze) {
            process.heed(now, DesiredState::Freeze, Span::ZERO);
        }
        if let Some(at) = process.alarm {
            out.later.push((at, MachineTimer::Ring(id)));
        }
        supervised.stage = SupervisedState::Alive(process);
        out.began.push(id);
    }

    /// Something happens to a process by itself.
    pub(super) fn ring(&mut self, now: Time, id: AttemptId, out: &mut MachineEffects) {
        let Some(supervised) = self.supervised.get(&id) else { return };
        let SupervisedState::Alive(process) = &supervised.stage else { return };
        if process.alarm == Some(now) {
            let how = process.end_by_itself(now, supervised.cause());
            self.end(now, id, how, out);
        }
    }

    /// An attempt's process ends.
    pub(super) fn end(&mut self, now: Time, id: AttemptId, how: EndReason, out: &mut MachineEffects) {
        let supervised = self.supervised.get_mut(&id).expect("what ends is known");
        let ran = match &mut supervised.stage {
            SupervisedState::Alive(process) => {
                process.stand(now);
                process.ran
            }
            _ => Span::ZERO,
        };
        supervised.stage =
            SupervisedState::Over(End { how: how.clone(), usage: Usage { ran, ..Usage::default() } });
        out.ended.push((id, how));
    }

    /// Removes the record of an attempt that is over.
    pub(super) fn retire(&mut self, id: AttemptId) {
        if self.supervised.get(&id).is_some_and(|s| !matches!(s.stage, SupervisedState::Alive(_))) {
            self.supervised.remove(&id);
        }
    }
}

impl Supervised {
    fn cause(&self) -> StopCause {
        if self.expired { StopCause::LeaseExpired } else { StopCause::Wanted }
    }

    fn seen(&self) -> Observation {
        match &self.stage {
            SupervisedState::NotStarted | SupervisedState::Planned(_) => Observation::NotStarted,
            SupervisedState::Alive(process) if process.frozen => Observation::Frozen,
            SupervisedState::Alive(_) => Observation::Running,
            SupervisedState::Over(end) => Observation::Exited(end.clone()),
        }
    }
}

impl Process {
    fn new(brief: AttemptScript, now: Time) -> Process {
        let mut process = Process {
            left: brief.run.length,
            brief,
            ran: Span::ZERO,
            since: now,
            frozen: false,
            alarm: None,
            asked: false,
        };
        process.set_alarm(now);
        process
    }

    fn allowed(&self) -> Span {
        self.brief.timeout.map_or(Span::UNKNOWN, |t| t - self.ran)
    }

    fn set_alarm(&mut self, now: Time) {
        self.alarm = Some(now + self.left.min(self.allowed()));
    }

    fn stand(&mut self, now: Time) {
        if !self.frozen {
            let ran = now.since(self.since);
            self.ran += ran;
            self.left = self.left - ran;
        }
        self.since = now;
    }

    fn heed(&mut self, now: Time, want: DesiredState, grace: Span) {
        self.stand(now);
        match want {
            // Asked again with less time left, it ends sooner.
            DesiredState::Stop if self.asked && self.alarm <= Some(now + grace) => {}
            DesiredState::Stop => {
                self.asked = true;
                let takes =
                    if self.brief.run.ignores_stop { grace } else { self.brief.dies_after.min(grace) };
                self.alarm = Some(now + takes);
            }
            DesiredState::Freeze if !self.asked => {
                self.frozen = true;
                self.alarm = None;
            }
            DesiredState::Run if !self.asked => {
                self.frozen = false;
                self.set_alarm(now);
            }
            DesiredState::Freeze | DesiredState::Run | DesiredState::Yield => {}
        }
    }

    fn end_by_itself(&self, now: Time, cause: StopCause) -> EndReason {
        let ran = if self.frozen { Span::ZERO } else { now.since(self.since) };
        if self.asked {
            cause.how()
        } else if self.left - ran == Span::ZERO {
            self.brief.run.how.clone()
        } else {
            EndReason::TimedOut
        }
    }
}
