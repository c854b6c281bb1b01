//! A machine: its devices, its supervisors, and the worker's own [`Agent`]. What the agent puts out is handed to the
//! supervisors, and what they see to the agent; nothing is decided here.

use super::bugs::InjectedBug;
use super::supervisors::Supervisors;
use super::users::AttemptScript;
use std::collections::BTreeMap;
use warpyard_core::agent::{Agent, ForeignRecordId, Input, LaunchRefusal, Output, Settings};
use warpyard_core::cluster::DesiredState;
use warpyard_core::event::{EndReason, WorkerInfo};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::protocol::{Assignment, Assignments, Report};
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span, Time};

/// How long a launch may take before it is repeated, as in the live worker.
const LAUNCH_TIMEOUT: Span = Span(20_000_000);

/// How long the record of an attempt stays once it may go: not longer than the live worker, which waits until it is idle.
const RETIRED_AFTER: Span = Span(3_000_000);

pub(super) struct Machine {
    pub(super) info: WorkerInfo,
    /// Devices it once had.
    pub(super) taken_out: Vec<DeviceInfo>,
    /// Counts how often it came up; what was under way before it went down is void.
    pub(super) boot: u32,
    pub(super) up: bool,
    supervisors: Supervisors,
    pub(super) agent: Option<Agent>,
    /// The latest assignments, for launching.
    assigned: BTreeMap<AttemptId, Assignment>,
    as_of: u64,
    /// Counts agents; messages to an earlier one reach nobody.
    pub(super) session: u32,
    /// Whether messages get through.
    pub(super) cut: bool,
    /// Whether nobody has watched over the lease since the server was last heard.
    pub(super) unwatched: bool,
    bug: InjectedBug,
}

/// What a machine makes happen.
#[derive(Default)]
pub(super) struct MachineEffects {
    /// Things due later.
    pub(super) later: Vec<(Time, MachineTimer)>,
    /// Processes that began.
    pub(super) began: Vec<AttemptId>,
    /// Processes that ended, and how.
    pub(super) ended: Vec<(AttemptId, EndReason)>,
    /// Whether the agent may have something to tell at once.
    pub(super) news: bool,
}

/// Something due on a machine.
#[derive(Clone, Debug)]
pub(super) enum MachineTimer {
    /// A supervisor has its launch.
    Begin(AttemptId),
    /// Something happens to a process by itself.
    Ring(AttemptId),
    /// A process that another log left may have ended.
    StrangerEnds(ForeignRecordId),
    /// The agent's timer fires.
    Timer,
    /// A record that nobody needs is removed.
    Retire(AttemptId),
}

/// What happens to an attempt that is launched.
type ScriptLookup<'a> = dyn Fn(&Assignment) -> AttemptScript + 'a;

impl Machine {
    pub(super) fn new(info: WorkerInfo, bug: InjectedBug) -> Machine {
        let mut machine = Machine {
            info,
            taken_out: Vec::new(),
            boot: 0,
            up: true,
            supervisors: Supervisors::default(),
            agent: None,
            assigned: BTreeMap::new(),
            as_of: 0,
            session: 0,
            cut: false,
            unwatched: false,
            bug,
        };
        machine.start_agent(Time(0), false);
        machine
    }

    /// The attempts whose processes are there, frozen or not.
    pub(super) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.supervisors.processes()
    }

    /// The attempts whose processes are there, and what happens to each when the worker is lost; with when that is, as far
    /// as its agent knows.
    pub(super) fn on_loss(&self) -> Option<(Time, impl Iterator<Item = (AttemptId, OnLost)> + '_)> {
        let lapses = self.agent.as_ref()?.confirmed()? + self.info.lease?;
        Some((lapses, self.supervisors.on_loss()))
    }

    /// Whether another log's attempts run here.
    pub(super) fn has_strangers(&self) -> bool {
        self.supervisors.has_strangers()
    }

    /// Whether another log can have used the machine since the last agent was here: nothing of that one is on its way.
    pub(super) fn may_have_strangers(&self) -> bool {
        self.up && self.agent.is_none() && !self.supervisors.has_launches()
    }

    /// Another log, which used the machine while there was no agent, left an attempt running.
    pub(super) fn leave_stranger(&mut self, name: AttemptId, ends: Time, out: &mut MachineEffects) {
        self.supervisors.leave_stranger(name, ends, out);
    }

    /// What the agent has to tell; nothing if there is no agent.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        let devices = self.info.devices.iter().map(|d| (d.uuid.clone(), d.state)).collect();
        let agent = self.agent.as_mut()?;
        agent.step(Input::Devices(devices), now);
        let mut report = agent.report(now)?;
        report.info = report.base.is_none().then(|| self.info.clone());
        Some(report)
    }

    /// Whether nothing is left of any attempt.
    pub(super) fn is_idle(&self) -> bool {
        let forgotten = self.agent.as_ref().is_some_and(|agent| agent.attempts().next().is_none());
        forgotten && self.processes().next().is_none() && !self.has_strangers()
    }

    /// The agent's process dies; what runs goes on.
    pub(super) fn kill_agent(&mut self) {
        self.agent = None;
        self.unwatched = true;
    }

    /// The agent starts again and is told what an earlier one left.
    pub(super) fn start_agent(&mut self, now: Time, machine_restarted: bool) {
        if self.agent.is_some() || !self.up {
            return;
        }
        self.session += 1;
        let settings = Settings {
            session: self.session.into(),
            lease: self.info.lease,
            launch_timeout: Some(LAUNCH_TIMEOUT),
            machine_restarted,
        };
        let mut agent = self.bug.infect_agent(Agent::new(settings, now));
        self.supervisors.records().into_iter().for_each(|found| agent.step(Input::Found(found), now));
        self.agent = Some(agent);
    }

    /// The machine goes down, and everything on it with it.
    pub(super) fn go_down(&mut self) {
        self.kill_agent();
        self.supervisors = Supervisors::default();
        self.boot += 1;
        self.up = false;
    }

    /// The machine comes up again with nothing of what ran there.
    pub(super) fn come_up(&mut self, now: Time) {
        let restarted = !std::mem::replace(&mut self.up, true);
        self.start_agent(now, restarted);
    }

    /// The server has spoken.
    pub(super) fn told(
        &mut self,
        now: Time,
        word: &Assignments,
        book: &ScriptLookup<'_>,
        out: &mut MachineEffects,
    ) {
        let Some(agent) = &mut self.agent else { return };
        agent.assign(word, now);
        if agent.in_force() {
            self.unwatched = false;
        }
        if word.as_of >= self.as_of {
            self.as_of = word.as_of;
            self.assigned = word.attempts.iter().map(|a| (a.attempt, a.clone())).collect();
        }
        self.pump(now, book, out);
    }

    /// The agent is told of everything, changed or not.
    pub(super) fn look(&mut self, now: Time, book: &ScriptLookup<'_>, out: &mut MachineEffects) {
        let Some(agent) = &mut self.agent else { return };
        let here: Vec<_> = agent.attempts().map(|(id, _)| id).collect();
        for id in here {
            agent.step(Input::Seen(id, self.supervisors.seen(id)), now);
        }
        agent.step(Input::Look, now);
        self.pump(now, book, out);
    }

    /// Something due here happens.
    pub(super) fn happen(
        &mut self,
        now: Time,
        due: &MachineTimer,
        book: &ScriptLookup<'_>,
        out: &mut MachineEffects,
    ) {
        match *due {
            MachineTimer::Begin(id) => {
                self.supervisors.begin(now, id, out);
                self.see(now, id, out);
            }
            MachineTimer::Ring(id) => {
                self.supervisors.ring(now, id, out);
                self.see(now, id, out);
            }
            MachineTimer::StrangerEnds(id) => {
                if self.supervisors.stranger_ends(now, id)
                    && let Some(agent) = &mut self.agent
                {
                    agent.step(Input::ForeignGone(id), now);
                }
            }
            MachineTimer::Timer => {
                if let Some(agent) = &mut self.agent {
                    agent.step(Input::Timer, now);
                }
            }
            MachineTimer::Retire(id) => {
                if self.agent.as_ref().is_some_and(|agent| agent.state(id).is_none()) {
                    self.supervisors.retire(id);
                }
            }
        }
        self.pump(now, book, out);
    }

    /// A device is gone: what ran on it fails.
    pub(super) fn fail_on(
        &mut self,
        now: Time,
        ids: &[AttemptId],
        book: &ScriptLookup<'_>,
        out: &mut MachineEffects,
    ) {
        for &id in ids {
            self.supervisors.end(now, id, EndReason::Exited(13), out);
            self.see(now, id, out);
        }
        self.pump(now, book, out);
    }

    /// The device at a place in the machine.
    pub(super) fn device(&mut self, index: usize) -> &mut DeviceInfo {
        &mut self.info.devices[index]
    }

    /// Tells the agent how an attempt is.
    fn see(&mut self, now: Time, id: AttemptId, out: &mut MachineEffects) {
        let Some(agent) = &mut self.agent else { return };
        agent.step(Input::Seen(id, self.supervisors.seen(id)), now);
        out.news = true;
    }

    /// Carries out all that the agent puts out.
    fn pump(&mut self, now: Time, book: &ScriptLookup<'_>, out: &mut MachineEffects) {
        while let Some(output) = self.agent.as_mut().and_then(Agent::next_output) {
            match output {
                Output::Launch(id) => self.launch(now, id, book, out),
                Output::Freeze(id) => self.want(now, id, DesiredState::Freeze, Span::ZERO, out),
                Output::Thaw(id) => self.want(now, id, DesiredState::Run, Span::ZERO, out),
                Output::Stop { attempt, grace, cause } => {
                    self.supervisors.note_cause(attempt, cause);
                    self.want(now, attempt, DesiredState::Stop, grace, out);
                }
                // Nobody here says how far it is, and so is told to.
                Output::Yield(_) => {}
                Output::CallOff(id) => {
                    self.supervisors.call_off(id);
                    self.see(now, id, out);
                }
                Output::Discard { .. } => unreachable!("no record is damaged here"),
                Output::Retire(id) => out.later.push((now + RETIRED_AFTER, MachineTimer::Retire(id))),
                Output::StopForeign { stranger, grace } => {
                    self.supervisors.stop_stranger(now, stranger, grace, out);
                }
                Output::RetireForeign(_) => {}
                Output::SetTimer(at) => out.later.push((at, MachineTimer::Timer)),
            }
        }
    }

    fn launch(&mut self, now: Time, id: AttemptId, book: &ScriptLookup<'_>, out: &mut MachineEffects) {
        let Some(assignment) = self.assigned.get(&id).filter(|a| a.work.is_some()) else { return };
        let usable = |uuid: &&String| {
            self.info.devices.iter().any(|d| d.uuid == **uuid && d.state == DeviceState::Usable)
        };
        let in_use = assignment.devices.iter().find(|uuid| !usable(uuid));
        match (in_use, &mut self.agent) {
            (Some(uuid), Some(agent)) => {
                agent.step(Input::Refused(id, LaunchRefusal::DeviceInUse(uuid.clone())), now);
                out.news = true;
            }
            _ => {
                self.supervisors.launch(now, id, book(assignment), out);
                self.see(now, id, out);
            }
        }
    }

    fn want(&mut self, now: Time, id: AttemptId, want: DesiredState, grace: Span, out: &mut MachineEffects) {
        self.supervisors.want(now, id, want, grace, out);
        self.see(now, id, out);
    }
}
