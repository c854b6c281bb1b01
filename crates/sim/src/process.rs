//! Simulated process: its progress, its speed, and its next event.
//!
//! Work is measured in the time it takes alone on its devices. Beside others on a device it progresses more slowly, and
//! after a freeze it has to warm up before it continues.

use crate::arrival::{AttemptRun, InterferenceProfile};
use smallvec::SmallVec;
use warpyard_core::event::EndReason;
use warpyard_core::{Span, Time};

#[derive(Debug)]
pub(crate) struct Process {
    /// How it ends on its own.
    pub(crate) how: EndReason,
    /// Total work.
    work: Span,
    done: Span,
    /// Remaining warm-up.
    warm_up: Span,
    /// Warm-up after each freeze.
    resume_time: Span,
    /// Work per second; 1 when alone.
    pub(crate) speed: f64,
    /// Running time left before its timeout, counted from `since`.
    allowed: Span,
    /// Running time until `since`.
    pub(crate) ran: Span,
    pub(crate) since: Time,
    /// Whether it runs: it has started and is not frozen.
    pub(crate) runs: bool,
    /// Its next event. A timer that fires at any other moment is obsolete: timers cannot be removed from the queue.
    pub(crate) next: Option<(Time, ProcessEvent)>,
    /// Work at which it freezes, if it is to freeze at a boundary.
    freezes_at: Option<Span>,
    /// Time until a stop request takes effect; `None` if it ends at once.
    pub(crate) grace: Option<Span>,
    /// Interference profile, where one was measured.
    pub(crate) interference: Option<Box<InterferenceProfile>>,
    /// Indices of its devices.
    pub(crate) devices: SmallVec<[u16; 4]>,
}

/// Next event of a process, unless something intervenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    Starts,
    /// It reaches the boundary at which it freezes or yields.
    ReachesBoundary,
    Exits,
    TimesOut,
    /// The grace period after a stop request ends.
    GraceEnds,
}

/// Parameters of a process.
pub(crate) struct ProcessSpec {
    pub(crate) run: AttemptRun,
    /// Work saved by earlier attempts.
    pub(crate) saved: Span,
    pub(crate) timeout: Option<Span>,
    pub(crate) grace: Span,
    pub(crate) resume_time: Span,
    pub(crate) interference: Option<Box<InterferenceProfile>>,
    pub(crate) devices: SmallVec<[u16; 4]>,
    /// From launch to start.
    pub(crate) start_delay: Span,
}

impl Process {
    /// Process that starts after its delay.
    pub(crate) fn new(now: Time, spec: ProcessSpec) -> Process {
        let ProcessSpec { run, saved, timeout, grace, resume_time, interference, devices, start_delay } =
            spec;
        let starts = now + start_delay;
        Process {
            how: run.how,
            work: run.length,
            done: saved.min(run.length),
            warm_up: Span::ZERO,
            resume_time,
            speed: 1.0,
            allowed: timeout.unwrap_or(Span(u64::MAX)),
            ran: Span::ZERO,
            since: starts,
            runs: false,
            next: Some((starts, ProcessEvent::Starts)),
            freezes_at: None,
            grace: run.ignores_stop.then_some(grace),
            interference,
            devices,
        }
    }

    /// Whether it has started.
    pub(crate) fn has_started(&self) -> bool {
        !matches!(self.next, Some((_, ProcessEvent::Starts)))
    }

    /// Work done, including what earlier attempts saved.
    pub(crate) fn done(&self) -> Span {
        self.done
    }

    /// Accrues the progress of a running process until now.
    pub(crate) fn accrue(&mut self, now: Time) {
        let ran = now.since(self.since);
        self.ran += ran;
        self.allowed = self.allowed - ran;
        let spent = scaled(ran, self.speed);
        self.done = (self.done + (spent - self.warm_up)).min(self.work);
        self.warm_up = self.warm_up - spent;
        self.since = now;
    }

    /// Schedules a freeze at the next multiple of `step`; returns whether the process is at such a boundary already. While
    /// it warms up there is no work to interrupt, so it can freeze at once.
    pub(crate) fn freeze_at_boundary(&mut self, step: Option<Span>) -> bool {
        let step = step.filter(|s| !s.is_zero() && self.warm_up.is_zero());
        let at = step.map_or(self.done, |step| Span(self.done.0.div_ceil(step.0) * step.0));
        let at_once = at == self.done;
        self.freezes_at = (!at_once).then_some(at);
        at_once
    }

    /// Cancels a scheduled freeze.
    pub(crate) fn cancel_freeze(&mut self) {
        self.freezes_at = None;
    }

    /// Continues after a freeze, with a warm-up.
    pub(crate) fn thaw(&mut self, now: Time) {
        self.since = now;
        self.warm_up = self.resume_time;
    }

    /// Computes the next event of a running process whose progress is accrued; returns its moment.
    pub(crate) fn schedule_next(&mut self) -> Time {
        let after = |work: Span| Span((work.0 as f64 / self.speed).ceil() as u64);
        // At full speed no rounding: simulated lengths are exact to the microsecond.
        let exact = |work: Span| if self.speed == 1.0 { work } else { after(work) };
        let ends = exact(self.warm_up + (self.work - self.done));
        let boundary = self.freezes_at.filter(|at| *at < self.work);
        let boundary = boundary.map(|at| exact(self.warm_up + (at - self.done))).filter(|at| *at < ends);
        let (mut soonest, mut next) = match boundary {
            Some(at) => (at, ProcessEvent::ReachesBoundary),
            None => (ends, ProcessEvent::Exits),
        };
        if self.allowed < soonest {
            (soonest, next) = (self.allowed, ProcessEvent::TimesOut);
        }
        let at = self.since + soonest;
        self.next = Some((at, next));
        at
    }
}

fn scaled(span: Span, by: f64) -> Span {
    if by == 1.0 { span } else { Span((span.0 as f64 * by).round() as u64) }
}

/// Speed of each of `running` tasks on one device, relative to running alone: 1 / (1 + contention × (n − 1)). A contention
/// of 0 means none; with 1 they take turns, and their total throughput is that of one alone.
pub(crate) fn speed_under_contention(contention: f64, running: u32) -> f64 {
    1.0 / (1.0 + contention * f64::from(running.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(length: f64) -> Process {
        let run = AttemptRun {
            length: Span::from_secs(length),
            how: EndReason::Exited(0),
            ignores_stop: false,
            recorded: None,
        };
        let (resume_time, devices) = (Span::from_secs(2.0), SmallVec::from([0; 1].as_slice()));
        let (saved, timeout, grace, start_delay) = (Span::ZERO, None, Span::ZERO, Span::ZERO);
        let interference = None;
        let spec =
            ProcessSpec { run, saved, timeout, grace, resume_time, interference, devices, start_delay };
        Process::new(Time(0), spec)
    }

    #[test]
    fn it_freezes_between_two_steps() {
        let mut p = process(10.0);
        p.accrue(Time::from_secs(4.0));
        assert!(!p.freeze_at_boundary(Some(Span::from_secs(3.0))));
        p.schedule_next();
        assert_eq!(p.next, Some((Time::from_secs(6.0), ProcessEvent::ReachesBoundary)));
        p.accrue(Time::from_secs(6.0));
        assert!(p.freeze_at_boundary(Some(Span::from_secs(3.0))), "at a boundary it is at once");
        p.thaw(Time::from_secs(20.0));
        p.schedule_next();
        assert_eq!(
            p.next,
            Some((Time::from_secs(26.0), ProcessEvent::Exits)),
            "2 s to warm up and 4 s of work"
        );
    }

    #[test]
    fn contention_slows_it() {
        let mut p = process(10.0);
        p.accrue(Time::from_secs(5.0));
        p.speed = speed_under_contention(0.5, 3);
        assert_eq!(p.schedule_next(), Time::from_secs(15.0), "5 s of work at half the speed");
        p.accrue(Time::from_secs(9.0));
        p.speed = speed_under_contention(0.5, 1);
        assert_eq!(p.schedule_next(), Time::from_secs(12.0));
        assert_eq!(p.ran, Span::from_secs(9.0), "running time is time, not work");
    }
}
