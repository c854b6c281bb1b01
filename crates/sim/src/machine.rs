//! Virtual machine: a simulated executor and the worker's own [`Agent`]. The agent's outputs are carried out on simulated
//! processes, and what happens to those is reported to the agent; nothing is decided here.

use crate::process::{Process, ProcessEvent, ProcessSpec, speed_under_contention};
use std::collections::BTreeMap;
use warpyard_core::agent::{
    Agent, FoundRecord, Input, Observation, Output, RecordOwner, Settings, StopCause,
};
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::protocol::{AttemptStatus, Report};
use warpyard_core::small::SmallMap;
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span, Time};

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) agent: Agent,
    settings: Settings,
    /// Processes by attempt.
    processes: SmallMap<AttemptId, Process>,
    /// Whether the connection to the server is cut.
    pub(crate) cut: bool,
    /// Work done by attempts that were stopped, which the next attempt continues from.
    pub(crate) saved: Vec<(AttemptId, Span)>,
    /// Attempts that freeze at their next boundary, with the length of a batch or item.
    to_freeze: BTreeMap<AttemptId, Option<Span>>,
    /// Attempts that exit at their next boundary.
    to_yield: BTreeMap<AttemptId, Option<Span>>,
    /// Contention of tasks on one device; see [`speed_under_contention`].
    contention: f64,
    /// Whether any process so far has an interference profile.
    interference: bool,
}

/// Source of the ground truth about attempts.
pub(crate) trait AttemptOracle {
    /// Process of an attempt; `None` if the server has given the attempt up and the machine has yet to learn it.
    fn process_spec(&self, id: AttemptId) -> Option<ProcessSpec>;
    /// Length of the batch or item at whose end the attempt pauses; `None` if it pauses at once.
    fn pause_step(&self, id: AttemptId) -> Option<Span>;
}

/// Timer that a machine sets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MachineTimer {
    /// For [`Machine::process_due`].
    Process(AttemptId),
    /// For [`Input::Timer`].
    Agent,
}

impl Machine {
    pub(crate) fn new(contention: f64, lease: Option<Span>, now: Time) -> Machine {
        // Launches are never lost here, so none is repeated.
        let settings = Settings { session: 1, lease, ..Settings::default() };
        Machine::with(contention, settings, now)
    }

    fn with(contention: f64, settings: Settings, now: Time) -> Machine {
        Machine {
            agent: Agent::new(settings, now),
            settings,
            processes: SmallMap::new(),
            cut: false,
            saved: Vec::new(),
            to_freeze: BTreeMap::new(),
            to_yield: BTreeMap::new(),
            contention,
            interference: false,
        }
    }

    /// Adopts an attempt that started before the simulation.
    pub(crate) fn adopt(
        &mut self,
        now: Time,
        id: AttemptId,
        spec: ProcessSpec,
        set_timer: &mut impl FnMut(Time, MachineTimer),
    ) {
        let (owner, on_lost, seen) = (RecordOwner::ThisLog, OnLost::default(), AttemptStatus::Running.into());
        self.agent.step(Input::Found(FoundRecord { attempt: id, owner, on_lost, seen }), now);
        self.launch(now, id, spec, set_timer);
    }

    /// Carries out the agent's outputs.
    pub(crate) fn execute_outputs(
        &mut self,
        now: Time,
        oracle: &impl AttemptOracle,
        mut set_timer: impl FnMut(Time, MachineTimer),
    ) {
        let set_timer = &mut set_timer;
        let mut touched = false;
        while let Some(output) = self.agent.next_output() {
            touched = true;
            match output {
                Output::Launch(id) => {
                    if let Some(spec) = oracle.process_spec(id) {
                        self.launch(now, id, spec, set_timer);
                    }
                }
                Output::Freeze(id) => self.freeze(now, id, oracle.pause_step(id), set_timer),
                Output::Thaw(id) => self.thaw(now, id, set_timer),
                Output::Yield(id) => self.yield_at_boundary(now, id, oracle.pause_step(id), set_timer),
                Output::Stop { attempt, grace, cause } => self.stop(now, attempt, grace, cause, set_timer),
                // A launch takes effect at once, so none can be called off in flight.
                Output::CallOff(id) => {
                    let runs = self.processes.contains_key(&id);
                    let seen = if runs { AttemptStatus::Running.into() } else { Observation::NotStarted };
                    self.see(now, id, seen);
                }
                // There are no records on disk.
                Output::Retire(_)
                | Output::Discard { .. }
                | Output::StopForeign { .. }
                | Output::RetireForeign(_) => {}
                Output::SetTimer(at) => set_timer(at, MachineTimer::Agent),
            }
        }
        if touched {
            self.update_speeds(now, set_timer);
        }
    }

    /// Handles the next event of a process, if this is its moment.
    pub(crate) fn process_due(
        &mut self,
        now: Time,
        id: AttemptId,
        mut set_timer: impl FnMut(Time, MachineTimer),
    ) {
        let set_timer = &mut set_timer;
        let due = self.processes.get(&id).and_then(|p| p.next).filter(|(at, _)| *at == now);
        let Some((_, next)) = due else { return };
        match next {
            ProcessEvent::Starts => self.start(now, id, set_timer),
            ProcessEvent::ReachesBoundary if self.to_yield.contains_key(&id) => {
                self.end(now, id, EndReason::Stopped)
            }
            ProcessEvent::ReachesBoundary => self.freeze_now(now, id),
            ProcessEvent::Exits => {
                let how = self.process(id).how.clone();
                self.end(now, id, how);
            }
            ProcessEvent::TimesOut => self.end(now, id, EndReason::TimedOut),
            ProcessEvent::GraceEnds => self.end(now, id, EndReason::Stopped),
        }
        self.update_speeds(now, set_timer);
    }

    /// Next report of the agent, if the connection is up.
    pub(crate) fn report(&mut self, now: Time) -> Option<Report> {
        if self.cut { None } else { self.agent.report(now) }
    }

    /// Reboots: no process survives, and a new session begins.
    pub(crate) fn wipe(&mut self, now: Time) {
        let session = self.settings.session + 1;
        let settings = Settings { session, machine_restarted: true, ..self.settings };
        *self = Machine { cut: self.cut, ..Machine::with(self.contention, settings, now) };
    }

    /// Attempts that have a process, frozen or not.
    pub(crate) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.processes.keys().copied()
    }

    fn running(&self) -> impl Iterator<Item = (AttemptId, &Process)> + '_ {
        self.processes.iter().filter(|(_, process)| process.runs).map(|(&id, process)| (id, process))
    }

    fn see(&mut self, now: Time, id: AttemptId, seen: Observation) {
        self.agent.step(Input::Seen(id, seen), now);
    }

    fn launch(
        &mut self,
        now: Time,
        id: AttemptId,
        spec: ProcessSpec,
        set_timer: &mut impl FnMut(Time, MachineTimer),
    ) {
        let delay = spec.start_delay;
        self.interference |= spec.interference.is_some();
        self.processes.insert(id, Process::new(now, spec));
        if delay.is_zero() {
            self.start(now, id, set_timer);
        } else {
            set_timer(now + delay, MachineTimer::Process(id));
        }
    }

    /// Starts a process, or continues it after a freeze.
    fn start(&mut self, now: Time, id: AttemptId, set_timer: &mut impl FnMut(Time, MachineTimer)) {
        let process = self.process(id);
        process.runs = true;
        process.since = now;
        let at = process.schedule_next();
        set_timer(at, MachineTimer::Process(id));
        // An attempt that was paused before its process existed freezes as soon as it runs.
        if let Some(step) = self.to_freeze.get(&id).copied() {
            return self.freeze(now, id, step, set_timer);
        }
        self.see(now, id, AttemptStatus::Running.into());
    }

    fn freeze(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        set_timer: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        self.to_freeze.insert(id, step);
        if !process.runs {
            return;
        }
        process.accrue(now);
        if process.freeze_at_boundary(step) {
            self.freeze_now(now, id);
        } else {
            self.schedule_next(id, set_timer);
        }
    }

    fn freeze_now(&mut self, now: Time, id: AttemptId) {
        let process = self.process(id);
        process.accrue(now);
        process.runs = false;
        process.next = None;
        process.cancel_freeze();
        self.to_freeze.remove(&id);
        self.see(now, id, AttemptStatus::Frozen.into());
    }

    /// Has an attempt exit at its next boundary.
    fn yield_at_boundary(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        set_timer: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.runs) else { return };
        if self.to_yield.contains_key(&id) {
            return;
        }
        process.accrue(now);
        if process.freeze_at_boundary(step) {
            self.end(now, id, EndReason::Stopped);
        } else {
            self.to_yield.insert(id, step);
            self.schedule_next(id, set_timer);
        }
    }

    /// Continues a frozen attempt, or cancels a freeze that has not happened.
    fn thaw(&mut self, now: Time, id: AttemptId, set_timer: &mut impl FnMut(Time, MachineTimer)) {
        let to_freeze = self.to_freeze.remove(&id).is_some();
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.runs && to_freeze {
            process.cancel_freeze();
            process.accrue(now);
            self.schedule_next(id, set_timer);
        } else if !process.runs && process.has_started() {
            process.thaw(now);
            self.start(now, id, set_timer);
        }
    }

    fn stop(
        &mut self,
        now: Time,
        id: AttemptId,
        grace: Span,
        cause: StopCause,
        set_timer: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        match (process.next, process.grace) {
            _ if cause == StopCause::LeaseExpired => self.end(now, id, cause.how()),
            (_, Some(_)) if grace.is_zero() => self.end(now, id, EndReason::Stopped),
            (Some((_, ProcessEvent::GraceEnds)), _) => {}
            (_, None) => self.end(now, id, EndReason::Stopped),
            (_, Some(grace)) => {
                if process.runs {
                    process.accrue(now);
                }
                process.next = Some((now + grace, ProcessEvent::GraceEnds));
                set_timer(now + grace, MachineTimer::Process(id));
            }
        }
    }

    fn end(&mut self, now: Time, id: AttemptId, how: EndReason) {
        let mut process = self.processes.remove(&id).expect("an attempt that ends has a process");
        if process.runs {
            process.accrue(now);
        }
        self.to_freeze.remove(&id);
        self.to_yield.remove(&id);
        if how == EndReason::Stopped {
            self.saved.push((id, process.done()));
        }
        let usage = Usage { ran: process.ran, ..Usage::default() };
        self.see(now, id, AttemptStatus::Over(End { how, usage }).into());
    }

    /// Updates the speed of every running process to the processes beside it.
    fn update_speeds(&mut self, now: Time, set_timer: &mut impl FnMut(Time, MachineTimer)) {
        if self.contention == 0.0 && !self.interference {
            return;
        }
        let mut by_device: BTreeMap<u16, Vec<AttemptId>> = BTreeMap::new();
        for (id, process) in self.running() {
            for &device in &process.devices {
                by_device.entry(device).or_default().push(id);
            }
        }
        let speed = |id: AttemptId, process: &Process| {
            // The most contended of its devices holds back a task that spans several.
            let beside = process.devices.iter().map(|device| &by_device[device][..]);
            let beside = beside.max_by_key(|tasks| tasks.len()).unwrap_or_default();
            // Interference is measured between two; for more, and for unmeasured pairs, the general contention applies.
            let retained = match beside {
                [one, other] => {
                    let other = &self.processes[if *one == id { other } else { one }];
                    process
                        .interference
                        .as_deref()
                        .zip(other.interference.as_deref())
                        .and_then(|(a, b)| a.retained_beside(b))
                }
                _ => None,
            };
            retained.unwrap_or_else(|| speed_under_contention(self.contention, beside.len() as u32))
        };
        let speeds: Vec<(AttemptId, f64)> = self.running().map(|(id, p)| (id, speed(id, p))).collect();
        for (id, speed) in speeds {
            let process = self.process(id);
            let stopping = matches!(process.next, Some((_, ProcessEvent::GraceEnds)));
            if speed != process.speed {
                process.accrue(now);
                process.speed = speed;
                // A process in its grace period ends with it, whatever its speed.
                if !stopping {
                    set_timer(process.schedule_next(), MachineTimer::Process(id));
                }
            }
        }
    }

    fn schedule_next(&mut self, id: AttemptId, set_timer: &mut impl FnMut(Time, MachineTimer)) {
        let at = self.process(id).schedule_next();
        set_timer(at, MachineTimer::Process(id));
    }

    fn process(&mut self, id: AttemptId) -> &mut Process {
        self.processes.get_mut(&id).expect("an attempt that has not ended has a process")
    }
}
