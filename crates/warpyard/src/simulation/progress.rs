//! Progress of several simulations at once: jobs submitted, time left, events, simulated time, speed. The most important
//! comes first, since a narrow terminal cuts off the rest.

use crate::show::{figure, format_span_secs, percent, time_left};
use crate::simulation::ProgressLine;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use warpyard_core::{Event, EventKind};

/// Events counted between two updates of the totals.
const EVENTS_PER_UPDATE: u64 = 4096;

/// Totals over all simulations.
pub(crate) struct Progress {
    line: Mutex<ProgressLine>,
    began: Instant,
    simulations: u64,
    /// Jobs of all simulations together.
    jobs: u64,
    ended: AtomicU64,
    events: AtomicU64,
    submitted: AtomicU64,
}

/// Events and submissions of one simulation that are not in the totals yet.
#[derive(Default)]
pub(crate) struct RunCount {
    events: u64,
    submitted: u64,
}

impl Progress {
    /// Progress of this many simulations of this many jobs each.
    pub(crate) fn of(simulations: u64, jobs: u64) -> Self {
        Self {
            line: Mutex::new(ProgressLine::of_stderr()),
            began: Instant::now(),
            simulations,
            jobs: jobs.saturating_mul(simulations).max(1),
            ended: AtomicU64::new(0),
            events: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
        }
    }

    /// Whether anyone watches; otherwise nothing need be counted.
    pub(crate) fn is_watched(&self) -> bool {
        self.line.lock().expect("nobody panics while counting").is_watched()
    }

    /// Counts an event of a simulation.
    pub(crate) fn count(&self, count: &mut RunCount, event: &Event) {
        count.events += 1;
        count.submitted += u64::from(matches!(event.what, EventKind::JobSubmitted { .. }));
        if count.events.is_multiple_of(EVENTS_PER_UPDATE) {
            let RunCount { events, submitted } = std::mem::take(count);
            let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
            let submitted = self.submitted.fetch_add(submitted, Ordering::Relaxed) + submitted;
            self.update(events, submitted, Some(event.at.secs()));
        }
    }

    /// A simulation ended.
    pub(crate) fn end(&self, count: &RunCount) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let events = self.events.fetch_add(count.events, Ordering::Relaxed) + count.events;
        let submitted = self.submitted.fetch_add(count.submitted, Ordering::Relaxed) + count.submitted;
        self.update(events, submitted, None);
    }

    fn update(&self, events: u64, submitted: u64, at: Option<f64>) {
        self.line.lock().expect("nobody panics while counting").update(|| {
            let took = self.began.elapsed().as_secs_f64();
            let done = (submitted as f64 / self.jobs as f64).min(1.0);
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
