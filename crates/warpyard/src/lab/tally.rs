//! How far simulations are, several at once: how long until all jobs have come, events, simulated time, speed. What one
//! wants to know most comes first, since a narrow terminal cuts off the rest.

use super::Line;
use crate::show::{figure, format_span_secs, percent, time_left};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use warpyard_core::{Event, EventKind};

/// Events between two looks at whether there is something to say.
const NOW_AND_THEN: u64 = 4096;

/// What is counted.
pub(crate) struct Tally {
    line: Mutex<Line>,
    began: Instant,
    simulations: u64,
    /// Jobs of all simulations together.
    jobs: u64,
    ended: AtomicU64,
    events: AtomicU64,
    come: AtomicU64,
}

/// The part of one simulation.
#[derive(Default)]
pub(crate) struct Part {
    events: u64,
    come: u64,
}

impl Tally {
    /// A tally of so many simulations of so many jobs each.
    pub(crate) fn of(simulations: u64, jobs: u64) -> Self {
        Self {
            line: Mutex::new(Line::of_stderr()),
            began: Instant::now(),
            simulations,
            jobs: jobs.saturating_mul(simulations).max(1),
            ended: AtomicU64::new(0),
            events: AtomicU64::new(0),
            come: AtomicU64::new(0),
        }
    }

    /// Whether anyone watches; otherwise nothing need be counted.
    pub(crate) fn is_watched(&self) -> bool {
        self.line.lock().expect("nobody panics while counting").is_watched()
    }

    /// Counts an event of a simulation.
    pub(crate) fn count(&self, part: &mut Part, event: &Event) {
        part.events += 1;
        part.come += u64::from(matches!(event.what, EventKind::JobSubmitted { .. }));
        if part.events.is_multiple_of(NOW_AND_THEN) {
            let Part { events, come } = std::mem::take(part);
            let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
            let come = self.come.fetch_add(come, Ordering::Relaxed) + come;
            self.say(events, come, Some(event.at.secs()));
        }
    }

    /// A simulation ended.
    pub(crate) fn end(&self, part: &Part) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let events = self.events.fetch_add(part.events, Ordering::Relaxed) + part.events;
        let come = self.come.fetch_add(part.come, Ordering::Relaxed) + part.come;
        self.say(events, come, None);
    }

    fn say(&self, events: u64, come: u64, at: Option<f64>) {
        self.line.lock().expect("nobody panics while counting").say(|| {
            let took = self.began.elapsed().as_secs_f64();
            let done = (come as f64 / self.jobs as f64).min(1.0);
            let left = time_left(took, done);
            let speed = figure((events as f64 / took.max(1e-6)).round());
            let which = match self.simulations {
                1 => String::new(),
                all => format!("{} of {all} simulations, ", self.ended.load(Ordering::Relaxed)),
            };
            let at = at.map(|at| format!("{} simulated, ", format_span_secs(at))).unwrap_or_default();
            format!("{} of jobs, {left}, {which}{at}{events} events, {speed} a second", percent(done))
        });
    }
}
