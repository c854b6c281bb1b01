//! A virtual worker: what it has changes as virtual time goes on, and what it should have is made so by the worker's own
//! `reconcile`. Only processes are made up.

use crate::arrival::Fate;
use std::collections::BTreeMap;
use warpyard_core::cluster::{Desired, Want};
use warpyard_core::command::Standing;
use warpyard_core::event::{End, How, Usage};
use warpyard_core::reconcile::{Action, Local, reconcile};
use warpyard_core::{AttemptId, Span, Time};

#[derive(Debug, Default)]
pub(crate) struct Machine {
    local: BTreeMap<AttemptId, Local>,
    processes: BTreeMap<AttemptId, Process>,
    /// What it has to say.
    pub(crate) news: BTreeMap<AttemptId, Standing>,
    /// Since when nothing gets through.
    pub(crate) cut: Option<Time>,
}

/// A process that is not there.
#[derive(Debug)]
struct Process {
    /// How it ends by itself.
    how: How,
    /// Running time until then, counted from `since`.
    left: Span,
    /// Running time until it is ended for running too long, counted from `since`.
    allowed: Span,
    /// Up to `since`.
    ran: Span,
    since: Time,
    /// The moment in force at which something happens to it by itself; alarms for others are void.
    alarm: Option<Time>,
    /// Being asked to end does not end it before this.
    grace: Option<Span>,
    /// Whether it is ended when contact is lost.
    rerun: bool,
    asked: bool,
}

/// What a machine must know of an attempt to begin it.
pub(crate) struct Brief {
    pub(crate) fate: Fate,
    pub(crate) timeout: Option<Span>,
    pub(crate) grace: Span,
    pub(crate) rerun: bool,
    /// From being told to begin it until its process runs.
    pub(crate) delay: Span,
}

impl Machine {
    /// Makes what is what should be. Gives the moments at which [`Machine::ring`] is due.
    pub(crate) fn sync(
        &mut self,
        now: Time,
        desired: &[Desired],
        mut brief: impl FnMut(AttemptId) -> Brief,
        mut alarm: impl FnMut(Time, AttemptId),
    ) {
        let actions = reconcile(desired, &self.local);
        // One that is to stand still from the start is begun first, and frozen when it runs.
        let again = actions.iter().any(|a| matches!(a, Action::Launch(id) if freezes(desired, *id)));
        for action in actions {
            match action {
                Action::Launch(id) => self.launch(now, id, brief(id), &mut alarm),
                Action::Freeze(id) => self.freeze(now, id),
                Action::Thaw(id) => self.thaw(now, id, &mut alarm),
                Action::Stop(id) => self.stop(now, id, &mut alarm),
                Action::ReportLost(id) => self.say_over(id, How::Lost("no trace of it".into()), Span::ZERO),
                Action::ReportStopped(id) => self.say_over(id, How::Stopped, Span::ZERO),
                Action::Forget(id) => self.forget(id),
            }
        }
        if again {
            let running = |d: &&Desired| d.want == Want::Freeze && self.local.contains_key(&d.attempt);
            for id in desired.iter().filter(running).map(|d| d.attempt).collect::<Vec<_>>() {
                self.freeze(now, id);
            }
        }
    }

    /// Something happens to a process by itself: it begins, or ends. Says whether it began.
    pub(crate) fn ring(&mut self, now: Time, id: AttemptId, mut alarm: impl FnMut(Time, AttemptId)) -> bool {
        let Some(process) = self.processes.get_mut(&id).filter(|p| p.alarm == Some(now)) else {
            return false;
        };
        let is = self.local[&id];
        if process.asked {
            self.end(now, id, How::Stopped);
            return false;
        }
        match is {
            Local::Beginning => {
                process.since = now;
                self.local.insert(id, Local::Running);
                self.news.insert(id, Standing::Running);
                self.set_alarm(now, id, &mut alarm);
            }
            Local::Running if process.allowed < process.left => self.end(now, id, How::TimedOut),
            Local::Running => {
                let how = process.how.clone();
                self.end(now, id, how);
            }
            Local::Frozen | Local::Over => {}
        }
        is == Local::Beginning
    }

    /// Everything it has, as told after a silence.
    pub(crate) fn tell_all(&mut self) {
        for (&id, local) in &self.local {
            match local {
                Local::Running => drop(self.news.insert(id, Standing::Running)),
                Local::Frozen => drop(self.news.insert(id, Standing::Frozen)),
                Local::Beginning | Local::Over => {}
            }
        }
    }

    /// Contact has been lost for too long: what may run elsewhere must not go on here.
    pub(crate) fn end_what_reruns(&mut self, now: Time) {
        let reruns = self.processes.iter().filter(|(_, p)| p.rerun).map(|(&id, _)| id);
        for id in reruns.collect::<Vec<_>>() {
            self.end(now, id, How::Lost("contact lost".into()));
        }
    }

    /// The machine went down and came up again: nothing it had is left.
    pub(crate) fn wipe(&mut self) {
        *self = Machine { cut: self.cut, ..Machine::default() };
    }

    /// How many processes it has, standing still or not.
    pub(crate) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.processes.keys().copied()
    }

    fn launch(&mut self, now: Time, id: AttemptId, brief: Brief, alarm: &mut impl FnMut(Time, AttemptId)) {
        let Brief { fate, timeout, grace, rerun, delay } = brief;
        let begins = now + delay;
        let process = Process {
            how: fate.how,
            left: fate.length,
            allowed: timeout.unwrap_or(Span(u64::MAX)),
            ran: Span::ZERO,
            since: begins,
            alarm: Some(begins),
            grace: fate.stubborn.then_some(grace),
            rerun,
            asked: false,
        };
        self.processes.insert(id, process);
        self.local.insert(id, Local::Beginning);
        if delay == Span::ZERO {
            self.ring(now, id, alarm);
        } else {
            alarm(begins, id);
        }
    }

    fn freeze(&mut self, now: Time, id: AttemptId) {
        if self.local[&id] == Local::Running {
            self.stand_still(now, id);
            self.local.insert(id, Local::Frozen);
            self.news.insert(id, Standing::Frozen);
        }
    }

    fn thaw(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        self.processes.get_mut(&id).expect("what is frozen has a process").since = now;
        self.local.insert(id, Local::Running);
        self.news.insert(id, Standing::Running);
        self.set_alarm(now, id, alarm);
    }

    fn stop(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        let process = self.processes.get_mut(&id).expect("what is not over has a process");
        match process.grace {
            _ if process.asked => {}
            None => self.end(now, id, How::Stopped),
            Some(grace) => {
                process.asked = true;
                process.alarm = Some(now + grace);
                alarm(now + grace, id);
            }
        }
    }

    fn set_alarm(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        let process = self.processes.get_mut(&id).expect("what has an alarm has a process");
        let at = now + process.left.min(process.allowed);
        process.alarm = Some(at);
        alarm(at, id);
    }

    fn stand_still(&mut self, now: Time, id: AttemptId) {
        let running = self.local[&id] == Local::Running;
        let process = self.processes.get_mut(&id).expect("what is not over has a process");
        let ran = if running { now.since(process.since) } else { Span::ZERO };
        process.ran += ran;
        process.left = process.left - ran;
        process.allowed = process.allowed - ran;
        process.since = now;
        process.alarm = None;
    }

    fn end(&mut self, now: Time, id: AttemptId, how: How) {
        self.stand_still(now, id);
        let process = self.processes.remove(&id).expect("what ends was there");
        self.local.insert(id, Local::Over);
        self.say_over(id, how, process.ran);
    }

    fn say_over(&mut self, id: AttemptId, how: How, ran: Span) {
        self.news.insert(id, Standing::Over(End { how, usage: Usage { ran, ..Usage::default() } }));
    }

    fn forget(&mut self, id: AttemptId) {
        self.local.remove(&id);
        self.news.remove(&id);
    }
}

fn freezes(desired: &[Desired], id: AttemptId) -> bool {
    desired.iter().any(|d| d.attempt == id && d.want == Want::Freeze)
}
