//! Simulated machine: its devices, its supervisors, and the worker's own [`Agent`]. The agent's outputs are handed to the
//! supervisors, and their observations to the agent; nothing is decided here.

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

/// Time after which a launch is repeated, as in the live worker.
const LAUNCH_TIMEOUT: Span = Span(20_000_000);

/// Time after which a retired record is removed; no longer than in the live worker, which waits until it is idle.
const RETIRED_AFTER: Span = Span(3_000_000);

/// Number of the first session, large enough to go back from.
const FIRST_SESSION: u64 = 1 << 48;

/// Distance between the sessions of two agent processes: no two ever have the same.
const SESSIONS_APART: u64 = 1 << 32;

/// Machine of a run.
pub(super) struct Machine {
    pub(super) info: WorkerInfo,
    /// Devices that were replaced.
    pub(super) removed_devices: Vec<DeviceInfo>,
    /// Number of boots; timers of earlier boots are void.
    pub(super) boot: u32,
    pub(super) up: bool,
    supervisors: Supervisors,
    pub(super) agent: Option<Agent>,
    /// Latest assignments, for launches.
    assigned: BTreeMap<AttemptId, Assignment>,
    as_of: u64,
    /// Number of this agent process; messages to earlier ones are lost.
    pub(super) agent_number: u32,
    /// Session of this agent process: larger than that of any before, unless its record was lost.
    session: u64,
    /// Whether the machine is cut off from the network.
    pub(super) cut: bool,
    /// Whether there was no agent to enforce the lease since the last contact with the server.
    pub(super) unwatched: bool,
    bug: InjectedBug,
}

/// Effects of an action of a machine.
#[derive(Default)]
pub(super) struct MachineEffects {
    /// Timers set.
    pub(super) timers: Vec<(Time, MachineTimer)>,
    /// Processes that started.
    pub(super) started: Vec<AttemptId>,
    /// Processes that ended, and why.
    pub(super) ended: Vec<(AttemptId, EndReason)>,
    /// Whether the agent may have something to report at once.
    pub(super) news: bool,
}

/// Timer of a machine.
#[derive(Clone, Debug)]
pub(super) enum MachineTimer {
    /// A launch reaches its supervisor.
    Start(AttemptId),
    /// A process may end.
    Process(AttemptId),
    /// An attempt of another log may have ended.
    ForeignEnds(ForeignRecordId),
    /// The agent's timer.
    Agent,
    /// A retired record is removed.
    Retire(AttemptId),
}

/// Lookup of the script of a launched attempt.
type ScriptLookup<'a> = dyn Fn(&Assignment) -> AttemptScript + 'a;

impl Machine {
    pub(super) fn new(info: WorkerInfo, bug: InjectedBug) -> Machine {
        let mut machine = Machine {
            info,
            removed_devices: Vec::new(),
            boot: 0,
            up: true,
            supervisors: Supervisors::default(),
            agent: None,
            assigned: BTreeMap::new(),
            as_of: 0,
            agent_number: 0,
            session: FIRST_SESSION,
            cut: false,
            unwatched: false,
            bug,
        };
        machine.start_agent(Time(0), false);
        machine
    }

    /// Attempts with a process, frozen or not.
    pub(super) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.supervisors.processes()
    }

    /// When the lease expires, as far as the agent knows, and what then happens to each attempt with a process.
    pub(super) fn on_loss(&self) -> Option<(Time, impl Iterator<Item = (AttemptId, OnLost)> + '_)> {
        let lapses = self.agent.as_ref()?.confirmed()? + self.info.lease?;
        Some((lapses, self.supervisors.on_loss()))
    }

    /// Whether attempts of another log run here.
    pub(super) fn has_foreign(&self) -> bool {
        self.supervisors.has_foreign()
    }

    /// Whether another log may have used the machine since the last agent: no launch of that agent may be in flight.
    pub(super) fn may_have_foreign(&self) -> bool {
        self.up && self.agent.is_none() && !self.supervisors.has_launches()
    }

    /// Leaves an attempt of another log running, which used the machine while there was no agent.
    pub(super) fn leave_foreign(&mut self, name: AttemptId, ends: Time, effects: &mut MachineEffects) {
        self.supervisors.leave_foreign(name, ends, effects);
    }

    /// Next report of the agent, if there is one.
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
        forgotten && self.processes().next().is_none() && !self.has_foreign()
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
        self.agent_number += 1;
        self.session += SESSIONS_APART + 1;
        let settings = Settings {
            session: self.session,
            lease: self.info.lease,
            launch_timeout: Some(LAUNCH_TIMEOUT),
            machine_restarted,
            // The file of deadlines is not simulated: a machine without an agent counts as unwatched instead.
            confirmed: None,
        };
        let mut agent = self.bug.inject_agent(Agent::new(settings, now));
        self.supervisors.records().into_iter().for_each(|found| agent.step(Input::Found(found), now));
        self.agent = Some(agent);
    }

    /// The record of the latest session is lost, and the machine's clock is behind: the next agent takes a smaller number.
    pub(super) fn lose_session(&mut self) {
        self.session -= 2 * SESSIONS_APART;
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
    pub(super) fn receive(
        &mut self,
        now: Time,
        word: &Assignments,
        scripts: &ScriptLookup<'_>,
        effects: &mut MachineEffects,
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
        self.execute_outputs(now, scripts, effects);
    }

    /// The agent is told of everything, changed or not.
    pub(super) fn probe(&mut self, now: Time, scripts: &ScriptLookup<'_>, effects: &mut MachineEffects) {
        let Some(agent) = &mut self.agent else { return };
        let here: Vec<_> = agent.attempts().map(|(id, _)| id).collect();
        for id in here {
            agent.step(Input::Seen(id, self.supervisors.seen(id)), now);
        }
        agent.step(Input::Scanned, now);
        self.execute_outputs(now, scripts, effects);
    }

    /// Something due here happens.
    pub(super) fn fire(
        &mut self,
        now: Time,
        due: &MachineTimer,
        scripts: &ScriptLookup<'_>,
        effects: &mut MachineEffects,
    ) {
        match *due {
            MachineTimer::Start(id) => {
                self.supervisors.start(now, id, effects);
                self.see(now, id, effects);
            }
            MachineTimer::Process(id) => {
                self.supervisors.process_due(now, id, effects);
                self.see(now, id, effects);
            }
            MachineTimer::ForeignEnds(id) => {
                if self.supervisors.foreign_ends(now, id)
                    && let Some(agent) = &mut self.agent
                {
                    agent.step(Input::ForeignGone(id), now);
                }
            }
            MachineTimer::Agent => {
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
        self.execute_outputs(now, scripts, effects);
    }

    /// Ends the processes on a failed device.
    pub(super) fn fail_on(
        &mut self,
        now: Time,
        ids: &[AttemptId],
        scripts: &ScriptLookup<'_>,
        effects: &mut MachineEffects,
    ) {
        for &id in ids {
            self.supervisors.end(now, id, EndReason::Exited(13), effects);
            self.see(now, id, effects);
        }
        self.execute_outputs(now, scripts, effects);
    }

    /// Device by index.
    pub(super) fn device(&mut self, index: usize) -> &mut DeviceInfo {
        &mut self.info.devices[index]
    }

    /// Passes the observation of an attempt to the agent.
    fn see(&mut self, now: Time, id: AttemptId, effects: &mut MachineEffects) {
        let Some(agent) = &mut self.agent else { return };
        agent.step(Input::Seen(id, self.supervisors.seen(id)), now);
        effects.news = true;
    }

    /// Carries out the agent's outputs.
    fn execute_outputs(&mut self, now: Time, scripts: &ScriptLookup<'_>, effects: &mut MachineEffects) {
        while let Some(output) = self.agent.as_mut().and_then(Agent::next_output) {
            match output {
                Output::Launch(id) => self.launch(now, id, scripts, effects),
                Output::Freeze(id) => self.want(now, id, DesiredState::Freeze, Span::ZERO, effects),
                Output::Thaw(id) => self.want(now, id, DesiredState::Run, Span::ZERO, effects),
                Output::Stop { attempt, grace, cause } => {
                    self.supervisors.note_cause(attempt, cause);
                    self.want(now, attempt, DesiredState::Stop, grace, effects);
                }
                // Only tasks that report their progress are asked to yield, and none here does.
                Output::Yield(_) => {}
                Output::CallOff(id) => {
                    self.supervisors.call_off(id);
                    self.see(now, id, effects);
                }
                Output::Discard { .. } => unreachable!("no record is damaged here"),
                Output::Retire(id) => effects.timers.push((now + RETIRED_AFTER, MachineTimer::Retire(id))),
                Output::StopForeign { record, grace } => {
                    self.supervisors.stop_foreign(now, record, grace, effects);
                }
                Output::RetireForeign(_) => {}
                Output::SetTimer(at) => effects.timers.push((at, MachineTimer::Agent)),
            }
        }
    }

    fn launch(&mut self, now: Time, id: AttemptId, scripts: &ScriptLookup<'_>, effects: &mut MachineEffects) {
        let Some(assignment) = self.assigned.get(&id).filter(|a| a.work.is_some()) else { return };
        let usable = |uuid: &&String| {
            self.info.devices.iter().any(|d| d.uuid == **uuid && d.state == DeviceState::Usable)
        };
        let in_use = assignment.devices.iter().find(|uuid| !usable(uuid));
        match (in_use, &mut self.agent) {
            (Some(uuid), Some(agent)) => {
                agent.step(Input::Refused(id, LaunchRefusal::DeviceInUse(uuid.clone())), now);
                effects.news = true;
            }
            _ => {
                self.supervisors.launch(now, id, scripts(assignment), effects);
                self.see(now, id, effects);
            }
        }
    }

    fn want(
        &mut self,
        now: Time,
        id: AttemptId,
        want: DesiredState,
        grace: Span,
        effects: &mut MachineEffects,
    ) {
        self.supervisors.want(now, id, want, grace, effects);
        self.see(now, id, effects);
    }
}
