//! The worker's agent, without IO: what it is told (assignments, what the executor sees, that time passes) goes in, what is
//! to be done (launch, stop, freeze, retire, set a timer) and the reports to send come out. The live worker, the simulator
//! and the fault simulator carry both and decide nothing themselves.
//!
//! Level-triggered throughout: after every input the agent compares what should be with what is, and asks again for what is
//! not so yet. It keeps nothing that the executor's records do not have, so an agent that starts again is told what was
//! found ([`Input::Found`]) and goes on.
//!
//! [`AttemptState`] is an attempt's life, `reconcile` the comparison, `lease` how long it lasts without the server,
//! `reports` what the server is told. What an executor or a link is made of is not here.

#[cfg(feature = "bugs")]
mod bugs;
mod input;
mod lease;
mod output;
mod reconcile;
mod reports;
mod starts;
mod state;
#[cfg(test)]
mod tests;

#[cfg(feature = "bugs")]
pub use bugs::Bug;
pub use input::{FoundRecord, Input, LaunchRefusal, Observation, RecordOwner};
pub use output::{ForeignRecordId, Output, StopCause};
pub use state::AttemptState;

use crate::cluster::Desired;
use crate::event::{End, EndReason};
use crate::ids::AttemptId;
use crate::pool::DeviceState;
use crate::protocol::{Assignments, MemoryUse, ReportId};
use crate::small::SmallMap;
use crate::spec::OnLost;
use crate::time::{Span, Time};
use lease::Lease;
use smallvec::SmallVec;
use starts::LaunchHealth;
use state::Attempt;
use std::collections::{BTreeMap, VecDeque};

/// The grace of an attempt whose job, and with it its own grace, is not known.
const STRANGERS_GRACE: Span = Span(10_000_000);

/// Why an attempt is gone of which the worker has no record.
pub const NOTHING_LEFT: &str = "nothing of it is left on the worker";

/// Why attempts are gone that died with the machine.
pub const MACHINE_RESTARTED: &str = "the machine restarted";

/// Why an attempt was ended that may run elsewhere by now.
pub const CONTACT_LOST: &str = "contact with the server was lost";

/// What an agent is told when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Larger than that of any agent of this worker before it: see [`ReportId::session`].
    pub session: u64,
    /// How long the server waits for a report before it gives the worker up; none inside the server's own process.
    pub lease: Option<Span>,
    /// How long a launch may take before it is repeated, which is safe as an executor starts an attempt at most once; none
    /// where launches are never lost.
    pub launch_timeout: Option<Span>,
    /// Whether the machine was restarted since the last agent ran.
    pub machine_restarted: bool,
}

/// A worker's agent.
#[derive(Debug, Default)]
pub struct Agent {
    settings: Settings,
    /// Session its reports are numbered under: that of the settings, or a later one where the server knows of a later one.
    session: u64,
    attempts: SmallMap<AttemptId, Attempt>,
    /// Everything the worker should have, in order of attempt.
    desired: Vec<Desired>,
    /// Whether that is in force: the server has spoken, and the lease has not expired since. Until then nobody knows what is
    /// wanted, and what an earlier agent left is not unwanted.
    in_force: bool,
    /// The event the latest assignments are as of.
    as_of: u64,
    /// Attempts that run here and belong to no job of this log. They are ended, and nothing is launched before they are
    /// gone, for they may be on any device.
    strangers: SmallVec<[ForeignRecordId; 1]>,
    lease: Option<Lease>,
    starts: LaunchHealth,
    leaving: Option<Leaving>,
    /// Whether nothing the server named was looked for yet since the machine was restarted.
    restarted: bool,
    outputs: VecDeque<Output>,
    /// The timer that was asked for and has not fired.
    timer: Option<Time>,
    /// The number of the latest report.
    seq: u64,
    /// Attempts that changed since.
    news: SmallVec<[AttemptId; 2]>,
    /// Whether the next report is a full one.
    send_all: bool,
    devices: BTreeMap<String, DeviceState>,
    devices_changed: bool,
    used: MemoryUse,
    #[cfg(feature = "bugs")]
    bug: Option<Bug>,
}

/// How an agent leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// What runs goes on.
    Quietly,
    /// Everything is ended first.
    Killing,
}

impl Agent {
    /// An agent that has heard nothing yet.
    pub fn new(settings: Settings, now: Time) -> Agent {
        let lease = settings.lease.map(|lease| Lease::new(lease, now));
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

    /// Takes in what the server wants.
    pub fn assign(&mut self, assignments: &Assignments, now: Time) {
        let Assignments { as_of, received, send_all, ref attempts } = *assignments;
        self.send_all |= send_all;
        self.assign_desired(as_of, received, attempts.iter().map(|a| a.desired()), now);
    }

    /// The same, where nothing is needed of an assignment but what is wanted. They must come in order of attempt.
    pub fn assign_desired(
        &mut self,
        as_of: u64,
        received: Option<ReportId>,
        desired: impl Iterator<Item = Desired>,
        now: Time,
    ) {
        self.acknowledge(received);
        // Words of before the lease expired may be about attempts that run elsewhere by now.
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
        // What is missing from now on did not go with the machine.
        self.restarted = false;
        self.set_timer();
    }

    /// Takes in anything else.
    pub fn step(&mut self, input: Input, now: Time) {
        match input {
            Input::Found(found) => self.find(found),
            Input::Seen(attempt, seen) => self.see(attempt, seen, now),
            Input::Refused(attempt, refusal) => self.refuse(attempt, refusal),
            Input::LaunchesLost => self.launch_again(now, Span::ZERO),
            Input::ForeignGone(stranger) => self.stranger_is_gone(stranger, now),
            Input::Devices(devices) => {
                self.devices_changed |= self.devices != devices;
                self.devices = devices;
            }
            Input::MemoryUsed(used) => self.used = used,
            Input::Timer => self.timer_fired(now),
            Input::Look => self.look(now),
            Input::Connected => self.send_all = true,
            Input::Leave { kill } => {
                self.leaving = Some(if kill { Leaving::Killing } else { Leaving::Quietly });
                self.reconcile(now);
            }
        }
        self.set_timer();
    }

    /// The next thing to do.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether there is something to do.
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// An attempt's state.
    pub fn state(&self, attempt: AttemptId) -> Option<&AttemptState> {
        self.attempts.get(&attempt).map(|attempt| &attempt.state)
    }

    /// Every attempt the worker has, in order.
    pub fn attempts(&self) -> impl Iterator<Item = (AttemptId, &AttemptState)> + '_ {
        self.attempts.iter().map(|(&id, attempt)| (id, &attempt.state))
    }

    /// Whether the server has said what it wants and that still counts.
    pub fn in_force(&self) -> bool {
        self.in_force
    }

    /// When the latest report was sent that the server is known to have received; the agent's start where there is none.
    pub fn confirmed(&self) -> Option<Time> {
        self.lease.as_ref().map(Lease::confirmed)
    }

    /// Whether it was told to leave and may.
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

    /// Asks again for everything that is not so yet.
    fn look(&mut self, now: Time) {
        self.send_all = true;
        for at in 0..self.strangers.len() {
            let stranger = self.strangers[at];
            self.emit(Output::StopForeign { stranger, grace: STRANGERS_GRACE });
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

    /// Asks for a timer unless an earlier one is set: when that fires it is asked for anew.
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

    /// A stranger is over: what waited for it may be launched.
    fn stranger_is_gone(&mut self, stranger: ForeignRecordId, now: Time) {
        self.strangers.retain(|other| *other != stranger);
        self.emit(Output::RetireForeign(stranger));
        self.reconcile(now);
    }

    /// Takes over what an earlier agent left, if it is this log's.
    fn find(&mut self, found: FoundRecord) {
        let FoundRecord { attempt, owner, on_lost, seen } = found;
        #[cfg(feature = "bugs")]
        let owner = self.mistaken_owner(owner);
        match owner {
            RecordOwner::ThisLog => self.adopt(attempt, on_lost, seen),
            // The directory is this log's but not what it says: no evidence of anything that became of the attempt.
            RecordOwner::Misfiled(why) => self.adopt(attempt, on_lost, Observation::Unreadable(why)),
            RecordOwner::AnotherLog(stranger) => match seen {
                Observation::Running | Observation::Frozen => {
                    self.strangers.push(stranger);
                    self.emit(Output::StopForeign { stranger, grace: STRANGERS_GRACE });
                }
                Observation::NotStarted | Observation::Exited(_) | Observation::Unreadable(_) => {
                    self.emit(Output::RetireForeign(stranger));
                }
            },
        }
    }

    fn adopt(&mut self, id: AttemptId, on_lost: OnLost, seen: Observation) {
        let state = match seen {
            // What no supervisor took may be launched again: it starts at most once.
            Observation::NotStarted => return,
            Observation::Running => AttemptState::Running,
            Observation::Frozen => AttemptState::Frozen,
            Observation::Exited(end) => AttemptState::Ended(end),
            Observation::Unreadable(why) => {
                self.emit(Output::Discard { attempt: id, why: why.clone() });
                AttemptState::CallingOff { how: damaged(&why) }
            }
        };
        self.attempts.insert(id, Attempt { on_lost, ..Attempt::new(state) });
        self.news.push(id);
    }

    /// What an attempt is at, as the executor sees it.
    fn see(&mut self, id: AttemptId, seen: Observation, now: Time) {
        let given_up = self.desired_of(id).is_none();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let became = match (&attempt.state, seen) {
            (AttemptState::Ended(_), _) => return,
            (AttemptState::CallingOff { how }, Observation::NotStarted) => {
                AttemptState::never_ran(how.clone())
            }
            // A launch may still be on its way.
            (_, Observation::NotStarted) => return,
            (_, Observation::Running) => AttemptState::Running,
            (_, Observation::Frozen) => AttemptState::Frozen,
            // What was asked to stop only to be called off did not end because someone wanted it to.
            (AttemptState::CallingOff { how }, Observation::Exited(end)) if end.how == EndReason::Stopped => {
                AttemptState::Ended(End { how: how.clone(), ..end })
            }
            (_, Observation::Exited(end)) => AttemptState::Ended(end),
            (_, Observation::Unreadable(why)) => {
                let how = damaged(&why);
                self.outputs.push_back(Output::Discard { attempt: id, why });
                AttemptState::CallingOff { how }
            }
        };
        if matches!(became, AttemptState::CallingOff { .. }) {
            attempt.state = became;
            return;
        }
        if std::mem::discriminant(&attempt.state) == std::mem::discriminant(&became) {
            return;
        }
        let ended = became.is_ended();
        let began = !attempt.state.is_being_called_off();
        attempt.state = became;
        self.news.push(id);
        if began {
            self.starts.succeeded();
        }
        match ended && given_up {
            // What was given up is gone, and with it what kept others from being launched.
            true => self.reconcile(now),
            false => self.act_on(id),
        }
    }

    /// The executor could not launch an attempt.
    fn refuse(&mut self, id: AttemptId, refusal: LaunchRefusal) {
        let how = match refusal {
            LaunchRefusal::DeviceInUse(uuid) => {
                EndReason::Declined(format!("{uuid} is in use by someone else"))
            }
            LaunchRefusal::Impossible(why) => EndReason::NotStarted(why),
            LaunchRefusal::Broken(why) => {
                let launched_in = self.attempts.get(&id).map(|attempt| attempt.launched_in);
                self.starts.failed(launched_in.unwrap_or_default(), &why);
                EndReason::Declined(format!("the worker cannot start anything: {why}"))
            }
        };
        self.call_off(id, how);
    }

    /// Has an attempt never begin, and then counts it as over.
    fn call_off(&mut self, id: AttemptId, how: EndReason) {
        self.attempts.insert(id, Attempt::new(AttemptState::CallingOff { how }));
        self.emit(Output::CallOff(id));
    }
}

/// How an attempt ended whose record cannot be relied on.
fn damaged(why: &str) -> EndReason {
    EndReason::Lost(format!("its record on the worker was damaged: {why}"))
}
