//! Definitions that planners share: the registry entry, search options, objective, progress and plan.

use std::fmt;

use crate::instance::Instance;
use crate::schedule::Schedule;

/// Objective that a search minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Finish of the last task.
    #[default]
    Makespan,
    /// Mean of finish minus release.
    MeanTurnaround,
    /// Mean of start minus release.
    MeanWait,
}

impl Objective {
    /// Value of a schedule; lower is better.
    pub fn of(self, instance: &Instance, schedule: &Schedule) -> f64 {
        match self {
            Self::Makespan => schedule.makespan(),
            Self::MeanTurnaround => schedule.mean_turnaround(instance),
            Self::MeanWait => schedule.mean_wait(instance),
        }
    }
}

/// Progress of a search, reported on every improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Schedules started so far.
    pub iterations: u64,
    /// Best value so far.
    pub best: f64,
    /// Method that found it.
    pub by: &'static str,
}

/// Options of a search: budget, seed, objective and progress callback. Planners that do not search ignore them.
///
/// ```
/// use std::time::{Duration, Instant};
/// use warpyard_dag::algorithm::SearchOptions;
/// let until = Instant::now() + Duration::from_secs(1);
/// let mut anytime = SearchOptions::until(move || Instant::now() >= until);
/// let mut repeatable = SearchOptions::iterations(500).seed(7);
/// ```
pub struct SearchOptions<'a> {
    pub(crate) seed: u64,
    pub(crate) objective: Objective,
    max_iterations: Option<u64>,
    started: u64,
    stop: Box<dyn FnMut() -> bool + 'a>,
    progress: Box<dyn FnMut(Progress) + 'a>,
}

impl fmt::Debug for SearchOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchOptions")
            .field("seed", &self.seed)
            .field("max_iterations", &self.max_iterations)
            .finish_non_exhaustive()
    }
}

impl<'a> SearchOptions<'a> {
    /// Budget by time: searches until `stop` returns true; it is called between schedules, and during long ones.
    pub fn until(stop: impl FnMut() -> bool + 'a) -> Self {
        Self {
            seed: 1,
            objective: Objective::Makespan,
            max_iterations: None,
            started: 0,
            stop: Box::new(stop),
            progress: Box::new(|_| ()),
        }
    }

    /// Budget by count: searches until that many schedules were made, in a portfolio by the member it is named for
    /// (`climb` in `best`). The same seed gives the same plan.
    pub fn iterations(count: u64) -> Self {
        Self { max_iterations: Some(count), ..Self::until(|| false) }
    }

    /// Sets the seed of all random draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the objective; the makespan by default.
    #[must_use]
    pub fn objective(mut self, objective: Objective) -> Self {
        self.objective = objective;
        self
    }

    /// Sets the callback for improvements.
    #[must_use]
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'a) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Starts an iteration: false when the budget is exhausted, otherwise counts one more schedule.
    pub(crate) fn start_iteration(&mut self) -> bool {
        if self.max_iterations.is_some_and(|most| self.started >= most) || (self.stop)() {
            return false;
        }
        self.started += 1;
        true
    }

    /// Whether the time budget ran out during a schedule. Never true for a budget by count, which keeps such runs
    /// deterministic.
    pub(crate) fn is_expired(&mut self) -> bool {
        self.max_iterations.is_none() && (self.stop)()
    }

    /// Whether the budget is one of time, under which a run need not be repeatable.
    pub(crate) fn is_time_budget(&self) -> bool {
        self.max_iterations.is_none()
    }

    /// Lifts a budget by count until [`Self::resume_count`] is given what this returns.
    pub(crate) fn suspend_count(&mut self) -> SuspendedCount {
        SuspendedCount { remaining: self.max_iterations.take().map(|most| most.saturating_sub(self.started)) }
    }

    /// Continues a budget by count with as many schedules as were left when it was suspended.
    pub(crate) fn resume_count(&mut self, suspended: SuspendedCount) {
        self.max_iterations = suspended.remaining.map(|remaining| self.started.saturating_add(remaining));
    }

    /// Counts schedules that another thread made under this budget.
    pub(crate) fn add_iterations(&mut self, count: u64) {
        self.started += count;
    }

    pub(crate) fn report_progress(&mut self, best: f64, by: &'static str) {
        (self.progress)(Progress { iterations: self.started, best, by });
    }

    pub(crate) fn iterations_started(&self) -> u64 {
        self.started
    }
}

/// Budget by count that is suspended; see [`SearchOptions::suspend_count`].
#[must_use]
pub(crate) struct SuspendedCount {
    remaining: Option<u64>,
}

/// Plan: a schedule and how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The schedule.
    pub schedule: Schedule,
    /// Member of a portfolio that found it.
    pub winner: Option<&'static str>,
    /// Schedules made until it was returned.
    pub iterations: u64,
}

impl Plan {
    pub(crate) fn of(schedule: Schedule) -> Self {
        Self { schedule, winner: None, iterations: 1 }
    }
}

/// Registry entry of a planner.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Publication or project it comes from.
    pub origin: &'static str,
    /// Whether it continues until its budget is exhausted.
    pub searches: bool,
    pub(crate) plan: fn(&Instance, &mut SearchOptions<'_>) -> Plan,
}

impl Algorithm {
    /// Plans `instance`.
    pub fn plan(&self, instance: &Instance, run: &mut SearchOptions<'_>) -> Plan {
        (self.plan)(instance, run)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Algorithm").field("name", &self.name).finish_non_exhaustive()
    }
}
