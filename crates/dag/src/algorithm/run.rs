//! What a planner is given besides the instance, and what it gives back.

use std::fmt;

use crate::instance::Instance;
use crate::schedule::Schedule;

/// What a search makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// When the last task ends.
    #[default]
    Makespan,
    /// Mean of finish less release.
    MeanTurnaround,
    /// Mean of start less release.
    MeanWait,
}

impl Objective {
    /// The value of a schedule; less is better.
    pub fn of(self, instance: &Instance, schedule: &Schedule) -> f64 {
        match self {
            Self::Makespan => schedule.makespan(),
            Self::MeanTurnaround => schedule.mean_turnaround(instance),
            Self::MeanWait => schedule.mean_wait(instance),
        }
    }
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Schedules made so far.
    pub iterations: u64,
    /// The best value so far.
    pub best: f64,
    /// What found it.
    pub by: &'static str,
}

/// How to search: until when, from which seed, for what. Planners that do not search ignore it.
///
/// ```
/// use std::time::{Duration, Instant};
/// use warpyard_dag::algorithm::Run;
/// let until = Instant::now() + Duration::from_secs(1);
/// let mut anytime = Run::until(move || Instant::now() >= until);
/// let mut repeatable = Run::iterations(500).seed(7);
/// ```
pub struct Run<'a> {
    pub(crate) seed: u64,
    pub(crate) objective: Objective,
    left: Option<u64>,
    made: u64,
    stop: Box<dyn FnMut() -> bool + 'a>,
    progress: Box<dyn FnMut(Progress) + 'a>,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("seed", &self.seed).field("left", &self.left).finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// Searches until `stop` says so; it is asked between schedules.
    pub fn until(stop: impl FnMut() -> bool + 'a) -> Self {
        Self {
            seed: 1,
            objective: Objective::Makespan,
            left: None,
            made: 0,
            stop: Box::new(stop),
            progress: Box::new(|_| ()),
        }
    }

    /// Searches until that many schedules were made: the same seed gives the same plan.
    pub fn iterations(count: u64) -> Self {
        Self { left: Some(count), ..Self::until(|| false) }
    }

    /// Names the run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes something else than the makespan small.
    #[must_use]
    pub fn objective(mut self, objective: Objective) -> Self {
        self.objective = objective;
        self
    }

    /// Is told of every improvement.
    #[must_use]
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'a) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Whether another schedule may be made; counts it.
    pub(crate) fn go_on(&mut self) -> bool {
        if self.left.is_some_and(|left| self.made >= left) || (self.stop)() {
            return false;
        }
        self.made += 1;
        true
    }

    /// Whether time is up in the midst of a schedule; a run by count always finishes what it began.
    pub(crate) fn is_over(&mut self) -> bool {
        self.left.is_none() && (self.stop)()
    }

    pub(crate) fn tell(&mut self, best: f64, by: &'static str) {
        (self.progress)(Progress { iterations: self.made, best, by });
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }
}

/// What a planner gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The schedule.
    pub schedule: Schedule,
    /// For a portfolio, the member that found it.
    pub winner: Option<&'static str>,
    /// Schedules made on the way.
    pub iterations: u64,
}

impl Plan {
    pub(crate) fn of(schedule: Schedule) -> Self {
        Self { schedule, winner: None, iterations: 1 }
    }
}

/// One planner.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub origin: &'static str,
    /// Whether it goes on until told to stop.
    pub searches: bool,
    pub(crate) plan: fn(&Instance, &mut Run<'_>) -> Plan,
}

impl Algorithm {
    /// Plans `instance`.
    pub fn plan(&self, instance: &Instance, run: &mut Run<'_>) -> Plan {
        (self.plan)(instance, run)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Algorithm").field("name", &self.name).finish_non_exhaustive()
    }
}
