//! A process that is not there: how far its work is, how fast it goes, and what happens to it next by itself.
//!
//! Work is counted in the time it takes alone. Beside others on a device it goes slower, and after standing still it has to
//! warm up before it goes on.

use crate::arrival::{AttemptRun, InterferenceProfile};
use smallvec::SmallVec;
use warpyard_core::event::EndReason;
use warpyard_core::{Span, Time};

#[derive(Debug)]
pub(crate) struct Process {
    /// How it ends by itself.
    pub(crate) how: EndReason,
    /// All there is to do.
    work: Span,
    done: Span,
    /// What is to be spent before work goes on.
    warm_up: Span,
    /// What going on after standing still costs.
    resume_time: Span,
    /// Work done in a second; 1 when alone.
    pub(crate) speed: f64,
    /// Running time until it is ended for running too long, counted from `since`.
    allowed: Span,
    /// Running time up to `since`.
    pub(crate) ran: Span,
    pub(crate) since: Time,
    /// Whether it runs: it has begun and does not stand still.
    pub(crate) runs: bool,
    /// The moment in force at which something happens to it by itself, and what; alarms for others are void.
    pub(crate) alarm: Option<(Time, ProcessEvent)>,
    /// The work done with which it stands still, if it is to.
    stands_still_at: Option<Span>,
    /// Being asked to end does not end it before this.
    pub(crate) grace: Option<Span>,
    /// Whom it gets on with, where that was measured.
    pub(crate) interference: Option<Box<InterferenceProfile>>,
    /// Where it runs.
    pub(crate) devices: SmallVec<[u16; 4]>,
}

/// What happens to a process by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    Begins,
    StandsStill,
    Ends,
    TimesOut,
    /// The grace period of one that was asked to end is over.
    IsEnded,
}

/// What a machine must know of an attempt to begin it.
pub(crate) struct ProcessSpec {
    pub(crate) fate: AttemptRun,
    /// Work of earlier attempts that was saved.
    pub(crate) saved: Span,
    pub(crate) timeout: Option<Span>,
    pub(crate) grace: Span,
    pub(crate) resume_time: Span,
    pub(crate) interference: Option<Box<InterferenceProfile>>,
    pub(crate) devices: SmallVec<[u16; 4]>,
    /// From being told to begin it until its process runs.
    pub(crate) delay: Span,
}

impl Process {
    /// One that begins after its delay.
    pub(crate) fn new(now: Time, brief: ProcessSpec) -> Process {
        let ProcessSpec { fate, saved, timeout, grace, resume_time, interference, devices, delay } = brief;
        let begins = now + delay;
        Process {
            how: fate.how,
            work: fate.length,
            done: saved.min(fate.length),
            warm_up: Span::ZERO,
            resume_time,
            speed: 1.0,
            allowed: timeout.unwrap_or(Span(u64::MAX)),
            ran: Span::ZERO,
            since: begins,
            runs: false,
            alarm: Some((begins, ProcessEvent::Begins)),
            stands_still_at: None,
            grace: fate.stubborn.then_some(grace),
            interference,
            devices,
        }
    }

    /// Whether it runs or did.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.alarm, Some((_, ProcessEvent::Begins)))
    }

    /// The work it has done, saved by earlier attempts or not.
    pub(crate) fn done(&self) -> Span {
        self.done
    }

    /// Brings a running process up to now.
    pub(crate) fn settle(&mut self, now: Time) {
        let ran = now.since(self.since);
        self.ran += ran;
        self.allowed = self.allowed - ran;
        let spent = scaled(ran, self.speed);
        self.done = (self.done + (spent - self.warm_up)).min(self.work);
        self.warm_up = self.warm_up - spent;
        self.since = now;
    }

    /// Has it stand still between two steps of its work. Says whether that is at once.
    pub(crate) fn stand_still_between(&mut self, step: Option<Span>) -> bool {
        let step = step.filter(|s| !s.is_zero() && self.warm_up.is_zero());
        let at = step.map_or(self.done, |step| Span(self.done.0.div_ceil(step.0) * step.0));
        let at_once = at == self.done;
        self.stands_still_at = (!at_once).then_some(at);
        at_once
    }

    /// Takes back that it is to stand still.
    pub(crate) fn go_on(&mut self) {
        self.stands_still_at = None;
    }

    /// Goes on after standing still.
    pub(crate) fn thaw(&mut self, now: Time) {
        self.since = now;
        self.warm_up = self.resume_time;
    }

    /// Work out what happens next to a running process that was brought up to now, and when.
    pub(crate) fn foresee(&mut self) -> Time {
        let after = |work: Span| Span((work.0 as f64 / self.speed).ceil() as u64);
        let exact = |work: Span| if self.speed == 1.0 { work } else { after(work) };
        let ends = exact(self.warm_up + (self.work - self.done));
        let still = self.stands_still_at.filter(|at| *at < self.work);
        let stands_still = still.map(|at| exact(self.warm_up + (at - self.done))).filter(|at| *at < ends);
        let (mut soonest, mut next) = match stands_still {
            Some(at) => (at, ProcessEvent::StandsStill),
            None => (ends, ProcessEvent::Ends),
        };
        if self.allowed < soonest {
            (soonest, next) = (self.allowed, ProcessEvent::TimesOut);
        }
        let at = self.since + soonest;
        self.alarm = Some((at, next));
        at
    }
}

fn scaled(span: Span, by: f64) -> Span {
    if by == 1.0 { span } else { Span((span.0 as f64 * by).round() as u64) }
}

/// How much tasks that run on a device at once slow each other: `n` of them each run at 1 / (1 + contention × (n − 1)) of
/// the speed they have alone. 0 is not at all; with 1 they take turns and together get done what one alone would.
pub(crate) fn speed_beside(contention: f64, running: u32) -> f64 {
    1.0 / (1.0 + contention * f64::from(running.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(length: f64) -> Process {
        let fate = AttemptRun {
            length: Span::from_secs(length),
            how: EndReason::Exited(0),
            stubborn: false,
            seen: None,
        };
        let (resume_time, devices) = (Span::from_secs(2.0), SmallVec::from([0; 1].as_slice()));
        let (saved, timeout, grace, delay) = (Span::ZERO, None, Span::ZERO, Span::ZERO);
        let interference = None;
        let brief = ProcessSpec { fate, saved, timeout, grace, resume_time, interference, devices, delay };
        Process::new(Time(0), brief)
    }

    #[test]
    fn it_stands_still_between_two_steps() {
        let mut p = process(10.0);
        p.settle(Time::from_secs(4.0));
        assert!(!p.stand_still_between(Some(Span::from_secs(3.0))));
        p.foresee();
        assert_eq!(p.alarm, Some((Time::from_secs(6.0), ProcessEvent::StandsStill)));
        p.settle(Time::from_secs(6.0));
        assert!(p.stand_still_between(Some(Span::from_secs(3.0))), "at a boundary it is at once");
        p.thaw(Time::from_secs(20.0));
        p.foresee();
        assert_eq!(
            p.alarm,
            Some((Time::from_secs(26.0), ProcessEvent::Ends)),
            "2 s to warm up and 4 s of work"
        );
    }

    #[test]
    fn beside_others_it_is_slower() {
        let mut p = process(10.0);
        p.settle(Time::from_secs(5.0));
        p.speed = speed_beside(0.5, 3);
        assert_eq!(p.foresee(), Time::from_secs(15.0), "5 s of work at half the speed");
        p.settle(Time::from_secs(9.0));
        p.speed = speed_beside(0.5, 1);
        assert_eq!(p.foresee(), Time::from_secs(12.0));
        assert_eq!(p.ran, Span::from_secs(9.0), "what counts as running is time");
    }
}
