//! Reconciliation of the desired with the observed state. It needs no memory of earlier reconciliations, so it may run after
//! every input, and its outputs may be repeated.

use super::{Agent, Attempt, AttemptState, Leaving, MACHINE_RESTARTED, NOTHING_LEFT, Output, StopCause};
use crate::cluster::{Desired, DesiredState};
use crate::event::EndReason;
use crate::ids::AttemptId;
use crate::protocol::AttemptStatus;
use crate::spec::default_grace;
use crate::time::{Span, Time};
use smallvec::SmallVec;

/// Step that brings an attempt on this worker closer to its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Freeze,
    Thaw,
    Yield,
    Stop,
    Retire,
}

impl Agent {
    /// Whether the agent acts on attempts: the server's assignments are in force, or everything is ended before it leaves.
    pub(super) fn acts(&self) -> bool {
        self.in_force || self.leaving == Some(Leaving::Killing)
    }

    /// Desired state of an attempt; none of one that the server gave up, and of any while everything is ended.
    pub(super) fn wanted(&self, id: AttemptId) -> Option<DesiredState> {
        let killing = self.leaving == Some(Leaving::Killing);
        self.desired_of(id).filter(|_| !killing).map(|desired| desired.want)
    }

    /// Reconciles all attempts: after new assignments, or when an attempt that kept others from being launched has ended.
    pub(super) fn reconcile(&mut self, now: Time) {
        if !self.acts() {
            return;
        }
        let killing = self.leaving == Some(Leaving::Killing);
        let mut steps: SmallVec<[(AttemptId, Step); 4]> = SmallVec::new();
        let mut missing: SmallVec<[usize; 4]> = SmallVec::new();
        // An attempt that was given up and has not ended may be on devices that a new one was granted.
        let mut lingers = false;
        let desired: &[Desired] = if killing { &[] } else { &self.desired };
        let mut next = 0;
        for (&id, attempt) in &self.attempts {
            while desired.get(next).is_some_and(|d| d.attempt < id) {
                missing.push(next);
                next += 1;
            }
            let want = desired.get(next).filter(|d| d.attempt == id).map(|d| d.want);
            next += usize::from(want.is_some());
            lingers |= want.is_none() && !attempt.state.is_ended();
            steps.extend(self.step_for(want, attempt).map(|step| (id, step)));
        }
        missing.extend(next..desired.len());
        #[cfg(feature = "bugs")]
        let lingers = lingers && self.bug != Some(super::Bug::LaunchBesideLingering);
        let lingers = lingers || !self.foreign.is_empty();
        for (id, step) in steps {
            self.apply_step(id, step);
        }
        for at in missing {
            self.launch_missing(self.desired[at].clone(), lingers, now);
        }
    }

    /// Reconciles one attempt, whose state changed.
    pub(super) fn reconcile_one(&mut self, id: AttemptId) {
        if self.attempts.get(&id).is_some_and(|attempt| attempt.expired) {
            return self.stop_expired(id);
        }
        if !self.acts() {
            return;
        }
        let want = self.wanted(id);
        if let Some(step) = self.attempts.get(&id).and_then(|attempt| self.step_for(want, attempt)) {
            self.apply_step(id, step);
        }
    }

    /// Assignment of an attempt; none of one that the server gave up.
    pub(super) fn desired_of(&self, id: AttemptId) -> Option<&Desired> {
        let at = self.desired.binary_search_by_key(&id, |d| d.attempt).ok()?;
        Some(&self.desired[at])
    }

    fn step_for(&self, want: Option<DesiredState>, attempt: &Attempt) -> Option<Step> {
        use AttemptState::{CallingOff, Launching, Status};
        use AttemptStatus::{Frozen, Over, Running};
        match (want, &attempt.state) {
            // While shutting down, the end may not have been reported yet.
            (None, Status(Over(_))) => self.leaving.is_none().then_some(Step::Retire),
            (Some(_), Status(Over(_))) | (_, CallingOff { .. }) => None,
            // It was stopped when the lease expired, and there is no way back: thawing or freezing it would overwrite that.
            _ if attempt.expired => None,
            (None | Some(DesiredState::Stop), Launching { .. } | Status(Running | Frozen)) => {
                Some(Step::Stop)
            }
            (Some(DesiredState::Freeze), Launching { .. } | Status(Running)) => Some(Step::Freeze),
            (Some(DesiredState::Run), Status(Frozen)) => Some(Step::Thaw),
            (Some(DesiredState::Run), Status(Running)) if attempt.freezing => Some(Step::Thaw),
            (Some(DesiredState::Yield), Status(Running)) => Some(Step::Yield),
            (Some(DesiredState::Run), Launching { .. } | Status(Running))
            | (Some(DesiredState::Freeze), Status(Frozen))
            | (Some(DesiredState::Yield), Launching { .. } | Status(Frozen)) => None,
        }
    }

    fn apply_step(&mut self, id: AttemptId, step: Step) {
        let grace = self.desired_of(id).map_or_else(default_grace, |desired| desired.grace);
        let attempt = self.attempts.get_mut(&id).expect("a step concerns an attempt on this worker");
        let output = match step {
            Step::Freeze => {
                attempt.freezing = true;
                Output::Freeze(id)
            }
            Step::Thaw => {
                attempt.freezing = false;
                Output::Thaw(id)
            }
            Step::Yield => Output::Yield(id),
            Step::Stop => Output::Stop { attempt: id, grace, cause: StopCause::Wanted },
            Step::Retire => {
                self.attempts.remove(&id);
                Output::Retire(id)
            }
        };
        self.emit(output);
    }

    /// Launches an assigned attempt that has no record here, or calls it off.
    fn launch_missing(&mut self, desired: Desired, lingers: bool, now: Time) {
        let Desired { attempt, started, want, .. } = desired;
        match want {
            // Launched again it would run twice.
            _ if started => {
                let why = if self.restarted { MACHINE_RESTARTED } else { NOTHING_LEFT };
                self.call_off(attempt, EndReason::Lost(why.into()));
            }
            DesiredState::Stop | DesiredState::Yield => self.call_off(attempt, EndReason::Stopped),
            DesiredState::Run | DesiredState::Freeze if lingers || self.leaving.is_some() => {}
            DesiredState::Run | DesiredState::Freeze => match self.launch_health.quarantined() {
                Some(why) => {
                    let how = EndReason::Declined(format!("the worker is quarantined: {why}"));
                    self.call_off(attempt, how);
                }
                None => {
                    let launching = Attempt::new(AttemptState::Launching { since: now });
                    let launched_in = self.launch_health.round();
                    self.attempts.insert(attempt, Attempt { launched_in, ..launching });
                    self.emit(Output::Launch(attempt));
                }
            },
        }
    }

    /// Ends an attempt at once, or prevents it from starting, because the lease expired.
    pub(super) fn stop_expired(&mut self, id: AttemptId) {
        #[cfg(feature = "bugs")]
        if self.bug == Some(super::Bug::OutliveTheLease) {
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        match attempt.state {
            AttemptState::Status(AttemptStatus::Running | AttemptStatus::Frozen) => {
                let (grace, cause) = (Span::ZERO, StopCause::LeaseExpired);
                self.emit(Output::Stop { attempt: id, grace, cause });
            }
            // The launch may still be in flight: should the attempt start, its record states why it is ended.
            AttemptState::Launching { .. } => {
                let (grace, cause) = (Span::ZERO, StopCause::LeaseExpired);
                attempt.state = AttemptState::CallingOff { how: cause.how() };
                self.emit(Output::Stop { attempt: id, grace, cause });
                self.emit(Output::CallOff(id));
            }
            AttemptState::CallingOff { .. } | AttemptState::Status(AttemptStatus::Over(_)) => {}
        }
    }
}
