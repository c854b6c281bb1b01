//! A virtual worker: what it has changes as virtual time goes on, and what it should have is made so by the worker's own
//! `reconcile`. Only processes are made up.

use crate::process::{Brief, Next, Process, speed_beside};
use std::collections::{BTreeMap, BTreeSet};
use warpyard_core::cluster::{Desired, Want};
use warpyard_core::command::Standing;
use warpyard_core::event::{End, How, Usage};
use warpyard_core::reconcile::{Action, Local, reconcile};
use warpyard_core::small::SmallMap;
use warpyard_core::{AttemptId, Span, Time};

#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// What it has of each attempt.
    here: SmallMap<AttemptId, Here>,
    /// What it has to say.
    pub(crate) news: SmallMap<AttemptId, Standing>,
    /// Since when nothing gets through.
    pub(crate) cut: Option<Time>,
    /// Work done by attempts that were asked to end and did.
    pub(crate) saved: Vec<(AttemptId, Span)>,
    /// Those that run on to the end of their batch or item, to stand still then.
    to_stand_still: BTreeSet<AttemptId>,
    /// Those that do so to end then.
    to_give_way: BTreeSet<AttemptId>,
    /// How much tasks on one device slow each other.
    contention: f64,
    /// Whether it ever had a process of which is known whom it gets on with.
    company: bool,
}

/// What a machine has of an attempt.
#[derive(Debug)]
struct Here {
    is: Local,
    /// None once it is over.
    process: Option<Process>,
}

/// What the server knows of an attempt and a machine must.
pub(crate) trait Known {
    /// What it takes to begin it.
    fn brief(&self, id: AttemptId) -> Brief;
    /// Between which steps of its work it stands still, if not at once.
    fn step(&self, id: AttemptId) -> Option<Span>;
}

impl Machine {
    pub(crate) fn new(contention: f64) -> Machine {
        Machine { contention, ..Machine::default() }
    }

    /// It has an attempt that was begun before all this.
    pub(crate) fn adopt(
        &mut self,
        now: Time,
        id: AttemptId,
        brief: Brief,
        mut alarm: impl FnMut(Time, AttemptId),
    ) {
        self.launch(now, id, brief, &mut alarm);
    }

    /// Makes what is what should be. Gives the moments at which [`Machine::ring`] is due.
    pub(crate) fn sync(
        &mut self,
        now: Time,
        desired: &[Desired],
        known: &impl Known,
        mut alarm: impl FnMut(Time, AttemptId),
    ) {
        let actions = reconcile(desired, self.here.iter().map(|(&id, here)| (id, here.is)));
        // One that is to stand still from the start is begun first, and frozen when it runs.
        let again = actions.iter().any(|a| matches!(a, Action::Launch(id) if freezes(desired, *id)));
        let meant = |id: &AttemptId| freezes(desired, *id);
        for id in self.to_stand_still.iter().copied().filter(|id| !meant(id)).collect::<Vec<_>>() {
            self.take_back_freeze(now, id, &mut alarm);
        }
        for action in actions {
            match action {
                Action::Launch(id) => self.launch(now, id, known.brief(id), &mut alarm),
                Action::Freeze(id) => self.freeze(now, id, known.step(id), &mut alarm),
                Action::Thaw(id) => self.thaw(now, id, &mut alarm),
                Action::Stop(id) => self.stop(now, id, &mut alarm),
                Action::ReportLost(id) => self.say_over(id, How::Lost("no trace of it".into()), Span::ZERO),
                Action::ReportStopped(id) => self.say_over(id, How::Stopped, Span::ZERO),
                Action::Forget(id) => self.forget(id),
            }
        }
        if again {
            let running = |d: &&Desired| d.want == Want::Freeze && self.here.contains_key(&d.attempt);
            for id in desired.iter().filter(running).map(|d| d.attempt).collect::<Vec<_>>() {
                self.freeze(now, id, known.step(id), &mut alarm);
            }
        }
        for d in desired.iter().filter(|d| d.want == Want::Yield) {
            self.give_way(now, d.attempt, known.step(d.attempt), &mut alarm);
        }
        self.share_speed(now, &mut alarm);
    }

    /// Something happens to a process by itself: it begins, stands still, or ends. Says whether it began.
    pub(crate) fn ring(&mut self, now: Time, id: AttemptId, mut alarm: impl FnMut(Time, AttemptId)) -> bool {
        let process = self.here.get(&id).and_then(|here| here.process.as_ref());
        let due = process.and_then(|p| p.alarm).filter(|(at, _)| *at == now);
        let Some((_, next)) = due else { return false };
        match next {
            Next::Begins => self.run(now, id, &mut alarm),
            Next::StandsStill if self.to_give_way.contains(&id) => self.end(now, id, How::Stopped),
            Next::StandsStill => self.stand_still(now, id),
            Next::Ends => {
                let how = self.process(id).how.clone();
                self.end(now, id, how);
            }
            Next::TimesOut => self.end(now, id, How::TimedOut),
            Next::IsEnded => self.end(now, id, How::Stopped),
        }
        self.share_speed(now, &mut alarm);
        next == Next::Begins
    }

    /// Everything it has, as told after a silence.
    pub(crate) fn tell_all(&mut self) {
        for (&id, here) in &self.here {
            match here.is {
                Local::Running => drop(self.news.insert(id, Standing::Running)),
                Local::Frozen => drop(self.news.insert(id, Standing::Frozen)),
                Local::Beginning | Local::Over => {}
            }
        }
    }

    /// Contact has been lost for too long: what may run elsewhere must not go on here.
    pub(crate) fn end_what_reruns(&mut self, now: Time, mut alarm: impl FnMut(Time, AttemptId)) {
        let reruns = self.running_or_still().filter(|(_, p)| p.rerun).map(|(id, _)| id);
        for id in reruns.collect::<Vec<_>>() {
            self.end(now, id, How::Lost("contact lost".into()));
        }
        self.share_speed(now, &mut alarm);
    }

    /// The machine went down and came up again: nothing it had is left.
    pub(crate) fn wipe(&mut self) {
        *self = Machine { cut: self.cut, ..Machine::new(self.contention) };
    }

    /// How many processes it has, standing still or not.
    pub(crate) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.running_or_still().map(|(id, _)| id)
    }

    fn running_or_still(&self) -> impl Iterator<Item = (AttemptId, &Process)> + '_ {
        self.here.iter().filter_map(|(&id, here)| Some((id, here.process.as_ref()?)))
    }

    fn running(&self) -> impl Iterator<Item = (AttemptId, &Process)> + '_ {
        let running = self.here.iter().filter(|(_, here)| here.is == Local::Running);
        running.filter_map(|(&id, here)| Some((id, here.process.as_ref()?)))
    }

    fn launch(&mut self, now: Time, id: AttemptId, brief: Brief, alarm: &mut impl FnMut(Time, AttemptId)) {
        let delay = brief.delay;
        self.company |= brief.company.is_some();
        let process = Some(Process::new(now, brief));
        self.here.insert(id, Here { is: Local::Beginning, process });
        if delay.is_zero() {
            self.run(now, id, alarm);
        } else {
            alarm(now + delay, id);
        }
    }

    /// A process that was begun or stood still runs now.
    fn run(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        let process = self.becomes(id, Local::Running);
        process.since = now;
        let at = process.foresee();
        self.news.insert(id, Standing::Running);
        alarm(at, id);
    }

    fn freeze(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        alarm: &mut impl FnMut(Time, AttemptId),
    ) {
        if self.here[&id].is != Local::Running {
            return;
        }
        let process = self.process(id);
        process.settle(now);
        if process.stand_still_between(step) {
            self.stand_still(now, id);
        } else {
            self.to_stand_still.insert(id);
            self.foresee(id, alarm);
        }
    }

    fn stand_still(&mut self, now: Time, id: AttemptId) {
        let process = self.becomes(id, Local::Frozen);
        process.settle(now);
        process.alarm = None;
        process.go_on();
        self.to_stand_still.remove(&id);
        self.news.insert(id, Standing::Frozen);
    }

    /// Has it end when it is next done with a batch or an item.
    fn give_way(
        &mut self,
        now: Time,
        id: AttemptId,
        step: Option<Span>,
        alarm: &mut impl FnMut(Time, AttemptId),
    ) {
        let running = self.here.get(&id).is_some_and(|here| here.is == Local::Running);
        if !running || self.to_give_way.contains(&id) {
            return;
        }
        let process = self.process(id);
        process.settle(now);
        if process.stand_still_between(step) {
            self.end(now, id, How::Stopped);
        } else {
            self.to_give_way.insert(id);
            self.foresee(id, alarm);
        }
    }

    /// One that was to stand still after its batch or item, and no longer is.
    fn take_back_freeze(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        self.to_stand_still.remove(&id);
        let process = self.process(id);
        process.go_on();
        process.settle(now);
        self.foresee(id, alarm);
    }

    fn thaw(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        self.process(id).thaw(now);
        self.run(now, id, alarm);
    }

    fn stop(&mut self, now: Time, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        let running = self.here[&id].is == Local::Running;
        let process = self.process(id);
        match (process.alarm, process.grace) {
            (Some((_, Next::IsEnded)), _) => {}
            (_, None) => self.end(now, id, How::Stopped),
            (_, Some(grace)) => {
                if running {
                    process.settle(now);
                }
                process.alarm = Some((now + grace, Next::IsEnded));
                alarm(now + grace, id);
            }
        }
    }

    fn end(&mut self, now: Time, id: AttemptId, how: How) {
        let here = self.here.get_mut(&id).expect("what ends was here");
        let mut process = here.process.take().expect("what ends has a process");
        if std::mem::replace(&mut here.is, Local::Over) == Local::Running {
            process.settle(now);
        }
        self.to_stand_still.remove(&id);
        self.to_give_way.remove(&id);
        if how == How::Stopped {
            self.saved.push((id, process.done()));
        }
        self.say_over(id, how, process.ran);
    }

    /// Has every process that runs go as fast as those beside it let it.
    fn share_speed(&mut self, now: Time, alarm: &mut impl FnMut(Time, AttemptId)) {
        if self.contention == 0.0 && !self.company {
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
                    let other = &self.here[if *one == id { other } else { one }].process;
                    let company = other.as_ref().and_then(|other| other.company.as_deref());
                    process.company.as_deref().zip(company).and_then(|(a, b)| a.kept_beside(b))
                }
                _ => None,
            };
            kept.unwrap_or_else(|| speed_beside(self.contention, there.len() as u32))
        };
        let speeds: Vec<(AttemptId, f64)> = self.running().map(|(id, p)| (id, speed(id, p))).collect();
        for (id, speed) in speeds {
            let process = self.process(id);
            let asked = matches!(process.alarm, Some((_, Next::IsEnded)));
            if speed != process.speed {
                process.settle(now);
                process.speed = speed;
                if !asked {
                    alarm(process.foresee(), id);
                }
            }
        }
    }

    fn foresee(&mut self, id: AttemptId, alarm: &mut impl FnMut(Time, AttemptId)) {
        let at = self.process(id).foresee();
        alarm(at, id);
    }

    /// Its process runs or stands still from here on.
    fn becomes(&mut self, id: AttemptId, is: Local) -> &mut Process {
        let here = self.here.get_mut(&id).expect("what is not over is here");
        here.is = is;
        here.process.as_mut().expect("what is not over has a process")
    }

    fn process(&mut self, id: AttemptId) -> &mut Process {
        let here = self.here.get_mut(&id).expect("what is not over is here");
        here.process.as_mut().expect("what is not over has a process")
    }

    fn say_over(&mut self, id: AttemptId, how: How, ran: Span) {
        self.news.insert(id, Standing::Over(End { how, usage: Usage { ran, ..Usage::default() } }));
    }

    fn forget(&mut self, id: AttemptId) {
        self.here.remove(&id);
        self.news.remove(&id);
    }
}

fn freezes(desired: &[Desired], id: AttemptId) -> bool {
    desired.iter().any(|d| d.attempt == id && d.want == Want::Freeze)
}
