//! A virtual machine: an executor whose processes are made up, and the worker's own [`Agent`]. What the agent puts out is
//! done to the processes, and what becomes of them is told to the agent; nothing is decided here.

use crate::process::{Process, ProcessEvent, ProcessSpec, speed_beside};
use std::collections::BTreeMap;
use warpyard_core::agent::{
    Agent, FoundRecord, Input, Observation, Output, RecordOwner, Settings, StopCause,
};
use warpyard_core::event::{End, EndReason, Usage};
use warpyard_core::protocol::Report;
use warpyard_core::small::SmallMap;
use warpyard_core::spec::OnLost;
use warpyard_core::{AttemptId, Span, Time};

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) agent: Agent,
    settings: Settings,
    /// The process of each attempt that has one.
    processes: SmallMap<AttemptId, Process>,
    /// Whether nothing gets through.
    pub(crate) cut: bool,
    /// Work done by attempts that were asked to end and did.
    pub(crate) saved: Vec<(AttemptId, Span)>,
    /// Those that run on to the end of their batch or item, to stand still then, with the length of one.
    to_stand_still: BTreeMap<AttemptId, Option<Span>>,
    /// Those that do so to end then.
    to_give_way: BTreeMap<AttemptId, Option<Span>>,
    /// How much tasks on one device slow each other.
    contention: f64,
    /// Whether it ever had a process of which is known whom it gets on with.
    interference: bool,
}

/// What the server knows of an attempt and a machine must.
pub(crate) trait AttemptOracle {
    /// What it takes to begin it; none where the server has given it up and the machine has yet to hear of that.
    fn brief(&self, id: AttemptId) -> Option<ProcessSpec>;
    /// Between which steps of its work it stands still, if not at once.
    fn step(&self, id: AttemptId) -> Option<Span>;
}

/// What is due on a machine at a later moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MachineTimer {
    /// [`Machine::ring`].
    Ring(AttemptId),
    /// [`Input::Timer`].
    Timer,
}

impl Machine {
    pub(crate) fn new(contention: f64, lease: Option<Span>, now: Time) -> Machine {
        // Launches are never lost here, so none is repeated.
        let settings = Settings { session: 1, lease, launch_timeout: None, machine_restarted: false };
        Machine::with(contention, settings, now)
    }

    fn with(contention: f64, settings: Settings, now: Time) -> Machine {
        Machine {
            agent: Agent::new(settings, now),
            settings,
            processes: SmallMap::new(),
            cut: false,
            saved: Vec::new(),
            to_stand_still: BTreeMap::new(),
            to_give_way: BTreeMap::new(),
            contention,
            interference: false,
        }
    }

    /// It has an attempt that was begun before all this.
    pub(crate) fn adopt(
        &mut self,
        now: Time,
        id: AttemptId,
        brief: ProcessSpec,
        later: &mut impl FnMut(Time, MachineTimer),
    ) {
        let (owner, on_lost, seen) = (RecordOwner::ThisLog, OnLost::default(), Observation::Running);
        self.agent.step(Input::Found(FoundRecord { attempt: id, owner, on_lost, seen }), now);
        self.launch(now, id, brief, later);
    }

    /// Does what the agent puts out. Gives what is due later.
    pub(crate) fn pump(
        &mut self,
        now: Time,
        known: &impl AttemptOracle,
        mut later: impl FnMut(Time, MachineTimer),
    ) {
        let later = &mut later;
        let mut touched = false;
        while let Some(output) = self.agent.next_output() {
            touched = true;
            match output {
                Output::Launch(id) => {
                    if let Some(brief) = known.brief(id) {
                        self.launch(now, id, brief, later);
                    }
                }
                Output::Freeze(id) => self.freeze(now, id, known.step(id), later),
                Output::Thaw(id) => self.thaw(now, id, later),
                Output::Yield(id) => self.give_way(now, id, known.step(id), later),
                Output::Stop { attempt, grace, cause } => self.stop(now, attempt, grace, cause, later),
                // What is launched has a process at once, so there is nothing on its way.
                Output::CallOff(id) => {
                    if self.processes.contains_key(&id) {
                        self.see(now, id, Observation::Running);
                    } else {
                        self.see(now, id, Observation::NotStarted);
                    }
                }
                // There are no records.
                Output::Retire(_)
                | Output::Discard { .. }
                | Output::StopForeign { .. }
                | Output::RetireForeign(_) => {}
                Output::SetTimer(at) => later(at, MachineTimer::Timer),
            }
        }
        if touched {
            self.share_speed(now, later);
        }
    }

    /// Something happens to a process by itself: it begins, stands still, or ends.
    pub(crate) fn ring(&mut self, now: Time, id: AttemptId, mut later: impl FnMut(Time, MachineTimer)) {
        let later = &mut later;
        let due = self.processes.get(&id).and_then(|p| p.alarm).filter(|(at, _)| *at == now);
        let Some((_, next)) = due else { return };
        match next {
            ProcessEvent::Begins => self.run(now, id, later),
            ProcessEvent::StandsStill if self.to_give_way.contains_key(&id) => {
                self.end(now, id, EndReason::Stopped)
            }
            ProcessEvent::StandsStill => self.stand_still(now, id),
            ProcessEvent::Ends => {
                let how = self.process(id).how.clone();
                self.end(now, id, how);
            }
            ProcessEvent::TimesOut => self.end(now, id, EndReason::TimedOut),
            ProcessEvent::IsEnded => self.end(now, id, EndReason::Stopped),
        }
        self.share_speed(now, later);
    }

    /// What the agent has to tell, if it gets through.
    pub(crate) fn report(&mut self, now: Time) -> Option<Report> {
        if self.cut { None } else { self.agent.report(now) }
    }

    /// The machine went down and came up again: nothing it had is left.
    pub(crate) fn wipe(&mut self, now: Time) {
        let session = self.settings.session + 1;
        let settings = Settings { session, machine_restarted: true, ..self.settings };
        *self = Machine { cut: self.cut, ..Machine::with(self.contention, settings, now) };
    }

    /// The attempts that have a process, standing still or not.
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
        brief: ProcessSpec,
        later: &mut impl FnMut(Time, MachineTimer),
    ) {
        let delay = brief.delay;
        self.interference |= brief.interference.is_some();
        self.processes.insert(id, Process::new(now, brief));
        if delay.is_zero() {
            self.run(now, id, later);
        } else {
            later(now + delay, MachineTimer::Ring(id));
        }
    }

    /// A process that was begun or stood still runs now.
    fn run(&mut self, now: Time, id: AttemptId, later: &mut impl FnMut(Time, MachineTimer)) {
        let process = self.process(id);
        process.runs = true;
        process.since = now;
        let at = process.foresee();
        later(at, MachineTimer::Ring(id));
        // One that is to stand still from the start is begun first.
        if let Some(step) = self.to_stand_still.get(&id).copied() {
            return self.freeze(now, id, step, later);
        }
        self.see(now, id, Observation::Running);
    }

    fn freeze(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        later: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        self.to_stand_still.insert(id, step);
        if !process.runs {
            return;
        }
        process.settle(now);
        if process.stand_still_between(step) {
            self.stand_still(now, id);
        } else {
            self.foresee(id, later);
        }
    }

    fn stand_still(&mut self, now: Time, id: AttemptId) {
        let process = self.process(id);
        process.settle(now);
        process.runs = false;
        process.alarm = None;
        process.go_on();
        self.to_stand_still.remove(&id);
        self.see(now, id, Observation::Frozen);
    }

    /// Has it end when it is next done with a batch or an item.
    fn give_way(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        later: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.runs) else { return };
        if self.to_give_way.contains_key(&id) {
            return;
        }
        process.settle(now);
        if process.stand_still_between(step) {
            self.end(now, id, EndReason::Stopped);
        } else {
            self.to_give_way.insert(id, step);
            self.foresee(id, later);
        }
    }

    /// Has it go on, or not stand still after all.
    fn thaw(&mut self, now: Time, id: AttemptId, later: &mut impl FnMut(Time, MachineTimer)) {
        let to_stand_still = self.to_stand_still.remove(&id).is_some();
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.runs && to_stand_still {
            process.go_on();
            process.settle(now);
            self.foresee(id, later);
        } else if !process.runs && process.has_begun() {
            process.thaw(now);
            self.run(now, id, later);
        }
    }

    fn stop(
        &mut self,
        now: Time,
        id: AttemptId,
        grace: Span,
        cause: StopCause,
        later: &mut impl FnMut(Time, MachineTimer),
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        match (process.alarm, process.grace) {
            _ if cause == StopCause::LeaseExpired => self.end(now, id, cause.how()),
            (_, Some(_)) if grace.is_zero() => self.end(now, id, EndReason::Stopped),
            (Some((_, ProcessEvent::IsEnded)), _) => {}
            (_, None) => self.end(now, id, EndReason::Stopped),
            (_, Some(grace)) => {
                if process.runs {
                    process.settle(now);
                }
                process.alarm = Some((now + grace, ProcessEvent::IsEnded));
                later(now + grace, MachineTimer::Ring(id));
            }
        }
    }

    fn end(&mut self, now: Time, id: AttemptId, how: EndReason) {
        let mut process = self.processes.remove(&id).expect("what ends has a process");
        if process.runs {
            process.settle(now);
        }
        self.to_stand_still.remove(&id);
        self.to_give_way.remove(&id);
        if how == EndReason::Stopped {
            self.saved.push((id, process.done()));
        }
        let usage = Usage { ran: process.ran, ..Usage::default() };
        self.see(now, id, Observation::Exited(End { how, usage }));
    }

    /// Has every process that runs go as fast as those beside it let it.
    fn share_speed(&mut self, now: Time, later: &mut impl FnMut(Time, MachineTimer)) {
        if self.contention == 0.0 && !self.interference {
            return;
        }
        let mut on: BTreeMap<u16, Vec<AttemptId>> = BTreeMap::new();
        for (id, process) in self.running() {
            for &device in &process.devices {
                on.entry(device).or_default().push(id);
            }
        }
        let speed = |id: AttemptId, process: &Process| {
            let there = process.devices.iter().map(|device| &on[device][..]);
            let there = there.max_by_key(|there| there.len()).unwrap_or_default();
            let kept = match there {
                [one, other] => {
                    let other = &self.processes[if *one == id { other } else { one }];
                    process
                        .interference
                        .as_deref()
                        .zip(other.interference.as_deref())
                        .and_then(|(a, b)| a.kept_beside(b))
                }
                _ => None,
            };
            kept.unwrap_or_else(|| speed_beside(self.contention, there.len() as u32))
        };
        let speeds: Vec<(AttemptId, f64)> = self.running().map(|(id, p)| (id, speed(id, p))).collect();
        for (id, speed) in speeds {
            let process = self.process(id);
            let asked = matches!(process.alarm, Some((_, ProcessEvent::IsEnded)));
            if speed != process.speed {
                process.settle(now);
                process.speed = speed;
                if !asked {
                    later(process.foresee(), MachineTimer::Ring(id));
                }
            }
        }
    }

    fn foresee(&mut self, id: AttemptId, later: &mut impl FnMut(Time, MachineTimer)) {
        let at = self.process(id).foresee();
        later(at, MachineTimer::Ring(id));
    }

    fn process(&mut self, id: AttemptId) -> &mut Process {
        self.processes.get_mut(&id).expect("what is not over has a process")
    }
}
