//! The worker's agent: a state machine without IO. Its inputs are assignments, the executor's observations, device readings
//! and timers; its outputs are launches, stops, freezes, retirements, timers and reports. The live worker, the simulator and
//! the fault simulator transport both and decide nothing themselves.
//!
//! The agent is level-triggered: after every input it compares the desired state with the observed one, and repeats outputs
//! that have had no effect yet. It keeps nothing that the executor's records do not contain, so an agent that restarts is
//! given the records found ([`Input::Found`]) and continues.
//!
//! [`AttemptState`] is an attempt's life, `reconcile` the comparison, `lease` the behaviour without contact to the server,
//! `reports` the messages to it. Executors and links are not here.

#[cfg(feature = "bugs")]
mod bugs;
mod input;
mod launch_health;
mod lease;
mod output;
mod reconcile;
mod reports;
mod state;
#[cfg(test)]
mod tests;

#[cfg(feature = "bugs")]
pub use bugs::Bug;
pub use input::{FoundRecord, Input, LaunchRefusal, Observation, RecordOwner};
pub use lease::LeaseDeadlines;
pub use output::{ForeignRecordId, Output, StopCause};
pub use state::AttemptState;

use crate::cluster::Desired;
use crate::event::{End, EndReason};
use crate::ids::AttemptId;
use crate::pool::DeviceState;
use crate::protocol::{Assignments, AttemptStatus, MemoryUse, ReportId};
use crate::small::SmallMap;
use crate::spec::OnLost;
use crate::time::{Span, Time};
use launch_health::LaunchHealth;
use lease::Lease;
use smallvec::SmallVec;
use state::Attempt;
use std::collections::{BTreeMap, VecDeque};

/// Grace period of a foreign attempt: its own, which its job states, is not known here.
const FOREIGN_GRACE: Span = Span(10_000_000);

/// Loss reason of an attempt that has no record on the worker.
pub const NOTHING_LEFT: &str = "nothing of it is left on the worker";

/// Loss reason of attempts that died with the machine.
pub const MACHINE_RESTARTED: &str = "the machine restarted";

/// Loss reason of an attempt that was ended because it may run elsewhere by now.
pub const CONTACT_LOST: &str = "contact with the server was lost";

/// Settings of an agent, given at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Larger than that of any agent of this worker before it: see [`ReportId::session`].
    pub session: u64,
    /// Lease: time without a report after which the server gives the worker up; none inside the server's own process.
    pub lease: Option<Span>,
    /// Time after which a launch without effect is repeated, which is safe because an executor starts an attempt at most
    /// once; none where launches are never lost.
    pub launch_timeout: Option<Span>,
    /// Whether the machine was restarted since the last agent ran.
    pub machine_restarted: bool,
    /// Time at which the latest acknowledged report of an earlier agent was sent, on the same clock; none where there was no
    /// agent since the machine booted. The server has counted from then on, whatever happened to the agent.
    pub confirmed: Option<Time>,
}

/// A worker's agent.
#[derive(Debug, Default)]
pub struct Agent {
    settings: Settings,
    /// Session its reports are numbered under: that of the settings, or a later one where the server knows of a later one.
    session: u64,
    attempts: SmallMap<AttemptId, Attempt>,
    /// Latest assignments, in order of attempt.
    desired: Vec<Desired>,
    /// Whether the assignments are in force: some have arrived, and the lease has not expired since. Until then an attempt
    /// that is not assigned is not unwanted: an earlier agent may have left it.
    in_force: bool,
    /// Number of events that the latest assignments are as of.
    as_of: u64,
    /// Attempts of another log that run here. They are stopped, and nothing is launched before they are gone, because they
    /// may be on any device.
    foreign: SmallVec<[ForeignRecordId; 1]>,
    lease: Option<Lease>,
    launch_health: LaunchHealth,
    leaving: Option<Leaving>,
    /// Whether the machine was restarted and no assignments have been compared with its records since.
    restarted: bool,
    outputs: VecDeque<Output>,
    /// Timer that is set and has not fired.
    timer: Option<Time>,
    /// Sequence number of the latest report.
    seq: u64,
    /// Attempts that changed since the latest report.
    news: SmallVec<[AttemptId; 2]>,
    /// Whether the next report is a full one.
    send_all: bool,
    devices: BTreeMap<String, DeviceState>,
    devices_changed: bool,
    used: MemoryUse,
    #[cfg(feature = "bugs")]
    bug: Option<Bug>,
}

/// Mode of shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// Attempts continue.
    Quietly,
    /// All attempts are ended first.
    Killing,
}

impl Agent {
    /// Agent without assignments.
    pub fn new(settings: Settings, now: Time) -> Agent {
        let confirmed = settings.confirmed.map_or(now, |confirmed| confirmed.min(now));
        let lease = settings.lease.map(|lease| Lease::new(lease, confirmed));
        let mut agent = Agent {
            settings,
            session: settings.session,
            lease,
            restarted: settings.machine_restarted,
            send_all: true,
            ..Agent::default()
        };
        agent.set_timer();
        agent
    }

    /// Processes assignments.
    pub fn assign(&mut self, assignments: &Assignments, now: Time) {
        let Assignments { as_of, received, send_all, ref attempts } = *assignments;
        self.send_all |= send_all;
        self.assign_desired(as_of, received, attempts.iter().map(|a| a.desired()), now);
    }

    /// Processes assignments of which only the desired states are given, in order of attempt.
    pub fn assign_desired(
        &mut self,
        as_of: u64,
        received: Option<ReportId>,
        desired: impl Iterator<Item = Desired>,
        now: Time,
    ) {
        self.acknowledge(received);
        // Assignments from before the lease expired may name attempts that run elsewhere by now.
        let expired = self.lease.as_ref().is_some_and(|lease| lease.expires() <= now);
        if as_of < self.as_of || expired {
            return;
        }
        (self.as_of, self.in_force) = (as_of, true);
        self.desired.clear();
        self.desired.extend(desired);
        if !self.desired.is_sorted_by(|a, b| a.attempt < b.attempt) {
            self.desired.sort_by_key(|d| d.attempt);
            self.desired.dedup_by_key(|d| d.attempt);
        }
        self.reconcile(now);
        // An attempt that is missing from now on was not lost with the machine.
        self.restarted = false;
        self.set_timer();
    }

    /// Processes any other input.
    pub fn step(&mut self, input: Input, now: Time) {
        match input {
            Input::Found(found) => self.find(found),
            Input::Seen(attempt, seen) => self.observe(attempt, seen, now),
            Input::Refused(attempt, refusal) => self.refuse(attempt, refusal),
            Input::LaunchesLost => self.launch_again(now, Span::ZERO),
            Input::ForeignGone(record) => self.foreign_gone(record, now),
            Input::Devices(devices) => {
                self.devices_changed |= self.devices != devices;
                self.devices = devices;
            }
            Input::MemoryUsed(used) => self.used = used,
            Input::Timer => self.timer_fired(now),
            Input::Scanned => self.repeat_outputs(now),
            Input::Connected => self.send_all = true,
            Input::Leave { kill } => {
                self.leaving = Some(if kill { Leaving::Killing } else { Leaving::Quietly });
                self.reconcile(now);
            }
        }
        self.set_timer();
    }

    /// Next output.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether there are outputs.
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// An attempt's state.
    pub fn state(&self, attempt: AttemptId) -> Option<&AttemptState> {
        self.attempts.get(&attempt).map(|attempt| &attempt.state)
    }

    /// Attempts on the worker, in order.
    pub fn attempts(&self) -> impl Iterator<Item = (AttemptId, &AttemptState)> + '_ {
        self.attempts.iter().map(|(&id, attempt)| (id, &attempt.state))
    }

    /// Whether assignments are in force.
    pub fn in_force(&self) -> bool {
        self.in_force
    }

    /// Time at which the latest acknowledged report was sent; the agent's start if there is none.
    pub fn confirmed(&self) -> Option<Time> {
        self.lease.as_ref().map(Lease::confirmed)
    }

    /// Deadlines of the lease for supervisors; none where the worker has no lease.
    pub fn deadlines(&self) -> Option<LeaseDeadlines> {
        self.lease.as_ref().map(Lease::deadlines)
    }

    /// Whether it is shutting down and nothing keeps it any more.
    pub fn may_leave(&self) -> bool {
        match self.leaving {
            None => false,
            Some(Leaving::Quietly) => true,
            Some(Leaving::Killing) => self.attempts.values().all(|a| a.state.is_ended()),
        }
    }

    fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn timer_fired(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
        }
        if let Some(timeout) = self.settings.launch_timeout {
            self.launch_again(now, timeout);
        }
        if self.lease.as_ref().is_some_and(|lease| lease.expires() <= now) {
            self.expire();
        }
    }

    /// Repeats outputs that have had no effect yet.
    fn repeat_outputs(&mut self, now: Time) {
        self.send_all = true;
        for at in 0..self.foreign.len() {
            let record = self.foreign[at];
            self.emit(Output::StopForeign { record, grace: FOREIGN_GRACE });
        }
        let unsettled = |attempt: &Attempt| attempt.expired || attempt.state.is_being_called_off();
        let unsettled = self.attempts.iter().filter(|(_, attempt)| unsettled(attempt)).map(|(&id, _)| id);
        for id in unsettled.collect::<SmallVec<[AttemptId; 4]>>() {
            match self.attempts[&id].state.is_being_called_off() {
                true => self.emit(Output::CallOff(id)),
                false => self.stop_expired(id),
            }
        }
        self.reconcile(now);
    }

    /// Sets a timer unless an earlier one is set, which sets it again when it fires.
    fn set_timer(&mut self) {
        let expires = self.lease.as_ref().filter(|_| self.ends_on_expiry()).map(Lease::expires);
        // A launch is not repeated before the server says again what it wants, so its timer would fire for nothing.
        let launches = self.settings.launch_timeout.filter(|_| self.acts()).and_then(|timeout| {
            let since = self.attempts.values().filter_map(|a| a.state.launching_since()).min();
            since.map(|since| since + timeout)
        });
        if let Some(due) = expires.into_iter().chain(launches).min()
            && self.timer.is_none_or(|at| due < at)
        {
            self.timer = Some(due);
            self.emit(Output::SetTimer(due));
        }
    }

    /// Repeats launches that have had no effect for this long.
    ///
    /// Only while assignments are in force: a launch that is forgotten before may still take effect, and its process would
    /// then be on the worker without the agent knowing of it.
    fn launch_again(&mut self, now: Time, timeout: Span) {
        if !self.acts() {
            return;
        }
        let stuck = |attempt: &Attempt| attempt.state.launching_since().is_some_and(|at| at + timeout <= now);
        let stuck = self.attempts.iter().filter(|(_, a)| stuck(a)).map(|(&id, _)| id);
        for id in stuck.collect::<SmallVec<[AttemptId; 4]>>() {
            if self.wanted(id).is_some() {
                // Reconciling launches it again, or calls it off where it is to stop.
                self.attempts.remove(&id);
            } else {
                // The launch may only be slow: the attempt is over once the executor has confirmed that it is.
                self.call_off(id, EndReason::Stopped);
            }
        }
        self.reconcile(now);
    }

    /// A foreign attempt has ended: launches that waited for it may proceed.
    fn foreign_gone(&mut self, record: ForeignRecordId, now: Time) {
        self.foreign.retain(|other| *other != record);
        self.emit(Output::RetireForeign(record));
        self.reconcile(now);
    }

    /// Adopts a record of an earlier agent if it belongs to this log, and ends its attempt otherwise.
    fn find(&mut self, found: FoundRecord) {
        let FoundRecord { attempt, owner, on_lost, seen } = found;
        #[cfg(feature = "bugs")]
        let owner = self.mistaken_owner(owner);
        match owner {
            RecordOwner::ThisLog => self.adopt(attempt, on_lost, seen),
            // The directory is this log's, its contents are not: they are no evidence about the attempt.
            RecordOwner::Misfiled(why) => self.adopt(attempt, on_lost, Observation::Unreadable(why)),
            RecordOwner::AnotherLog(record) => match seen {
                Observation::Status(AttemptStatus::Running | AttemptStatus::Frozen) => {
                    self.foreign.push(record);
                    self.emit(Output::StopForeign { record, grace: FOREIGN_GRACE });
                }
                Observation::NotStarted
                | Observation::Status(AttemptStatus::Over(_))
                | Observation::Unreadable(_) => self.emit(Output::RetireForeign(record)),
            },
        }
    }

    fn adopt(&mut self, id: AttemptId, on_lost: OnLost, seen: Observation) {
        let state = match seen {
            // An attempt that no supervisor has started may be launched again: it starts at most once.
            Observation::NotStarted => return,
            Observation::Status(status) => AttemptState::Status(status),
            Observation::Unreadable(why) => {
                self.emit(Output::Discard { attempt: id, why: why.clone() });
                AttemptState::CallingOff { how: damaged(&why) }
            }
        };
        self.attempts.insert(id, Attempt { on_lost, ..Attempt::new(state) });
        self.news.push(id);
    }

    /// Processes an observation of an attempt.
    fn observe(&mut self, id: AttemptId, seen: Observation, now: Time) {
        let given_up = self.desired_of(id).is_none();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let status = match (&attempt.state, seen) {
            (AttemptState::Status(AttemptStatus::Over(_)), _) => return,
            (AttemptState::CallingOff { how }, Observation::NotStarted) => AttemptStatus::ended(how.clone()),
            // A launch may still be in flight.
            (_, Observation::NotStarted) => return,
            (_, Observation::Unreadable(why)) => {
                attempt.state = AttemptState::CallingOff { how: damaged(&why) };
                return self.emit(Output::Discard { attempt: id, why });
            }
            (AttemptState::Status(before), Observation::Status(status)) if *before == status => return,
            // It was stopped only to be called off, so its end has the reason of that.
            (AttemptState::CallingOff { how }, Observation::Status(AttemptStatus::Over(end)))
                if end.how == EndReason::Stopped =>
            {
                AttemptStatus::Over(End { how: how.clone(), ..end })
            }
            (_, Observation::Status(status)) => status,
        };
        let ended = matches!(status, AttemptStatus::Over(_));
        let began = !attempt.state.is_being_called_off();
        attempt.state = AttemptState::Status(status);
        self.news.push(id);
        if began {
            self.launch_health.succeeded();
        }
        match ended && given_up {
            // An attempt that was given up has kept others from being launched.
            true => self.reconcile(now),
            false => self.reconcile_one(id),
        }
    }

    /// Processes the refusal of a launch.
    fn refuse(&mut self, id: AttemptId, refusal: LaunchRefusal) {
        let how = match refusal {
            LaunchRefusal::DeviceInUse(uuid) => {
                EndReason::Declined(format!("{uuid} is in use by someone else"))
            }
            LaunchRefusal::Impossible(why) => EndReason::NotStarted(why),
            LaunchRefusal::Broken(why) => {
                let launched_in = self.attempts.get(&id).map(|attempt| attempt.launched_in);
                self.launch_health.failed(launched_in.unwrap_or_default(), &why);
                EndReason::Declined(format!("the worker cannot start anything: {why}"))
            }
        };
        self.call_off(id, how);
    }

    /// Prevents an attempt from starting; it counts as ended once the executor has confirmed that.
    fn call_off(&mut self, id: AttemptId, how: EndReason) {
        self.attempts.insert(id, Attempt::new(AttemptState::CallingOff { how }));
        self.emit(Output::CallOff(id));
    }
}

/// End reason of an attempt whose record is damaged.
fn damaged(why: &str) -> EndReason {
    EndReason::Lost(format!("its record on the worker was damaged: {why}"))
}
