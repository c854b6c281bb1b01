//! Allocation goals: the registry entry (name, summary, source, solver), options and errors. The registry feeds the
//! command line, the policies and the tests.

use crate::goals;
use crate::instance::{Instance, InstanceError, Job};
use crate::solution::{Certificate, Shares, Solution};

/// Whether a goal knows that jobs run faster on some GPU types than on others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TypeAwareness {
    /// Speeds per type.
    #[default]
    Aware,
    /// The job's mean speed on every type.
    Blind,
}

/// Whether a goal knows that a job is slower with its GPUs spread over machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlacementModel {
    /// The same speed wherever the GPUs are.
    #[default]
    Ignored,
    /// The measured speed of a spread job.
    Modelled,
}

/// Options that every goal takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether speeds differ between types.
    pub types: TypeAwareness,
    /// Whether two jobs may share a GPU, where the instance has the throughputs of pairs.
    pub sharing: bool,
    /// Whether spreading over machines costs speed.
    pub placement_model: PlacementModel,
}

/// Direction of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// Higher is better.
    Max,
    /// Lower is better.
    Min,
}

/// Reason there is no solution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// Invalid instance.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Field of a job that the goal needs.
    #[error("job {job}: {field}: missing, and {goal} needs it")]
    Missing {
        /// The job.
        job: u64,
        /// The field.
        field: &'static str,
        /// The goal.
        goal: &'static str,
    },
    /// Field of the instance that the goal needs.
    #[error("{field}: missing, and {goal} needs it")]
    MissingTable {
        /// The field.
        field: &'static str,
        /// The goal.
        goal: &'static str,
    },
    /// Sharing without throughputs of pairs.
    #[error(
        "pair_throughputs: missing, and sharing needs it: steps a second of two jobs on one GPU, by type and profile"
    )]
    MissingPairs,
    /// More kinds of jobs with sharing than can be solved in time.
    #[error(
        "{goal} with sharing takes {most} kinds of jobs at most, and there are {kinds}; leave sharing out, or follow another goal"
    )]
    TooManyKinds {
        /// The goal.
        goal: &'static str,
        /// Kinds of jobs in the instance.
        kinds: usize,
        /// Largest number supported.
        most: usize,
    },
    /// Name that no goal has.
    #[error("there is no goal {goal}")]
    UnknownGoal {
        /// The name.
        goal: &'static str,
    },
    /// Solver stalled before the optimum.
    #[error("the solver stalled before it reached the optimum")]
    NoProgress,
    /// Solver result that is not finite.
    #[error("the solver produced a result that is not a finite number")]
    NotFinite,
    /// Gap to the dual bound too large to call the solution optimal.
    #[error("the solver stopped {gap:.1e} short of the optimum")]
    GapTooLarge {
        /// Remaining relative gap.
        gap: f64,
    },
}

/// Registry entry of a goal.
#[derive(Debug, Clone, Copy)]
pub struct GoalDef {
    /// Name on the command line and in policies.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Advice on when to choose it, as one line: "for a batch of jobs to end as early as possible".
    pub when: &'static str,
    /// Publication it comes from.
    pub source: &'static str,
    /// Direction of the objective.
    pub sense: Sense,
    /// Whether it distributes among entities (organisations).
    pub entities: bool,
    /// Whether GPU types have prices under it, so that idle capacity is not free.
    pub priced: bool,
    pub(crate) solve: fn(&Instance, Options) -> Result<Solution, SolveError>,
}

impl GoalDef {
    /// Validates the instance and solves it. The same instance always gives the same solution.
    pub fn solve(&self, instance: &Instance, options: Options) -> Result<Solution, SolveError> {
        instance.validate()?;
        let instance = &*instance.with_placement(options.placement_model);
        if options.placement_model == PlacementModel::Modelled {
            // With spread speeds a job may run on no type at all.
            instance.validate()?;
        }
        if instance.jobs.is_empty() {
            return Ok(Solution::empty(instance.types.len()));
        }
        let answer = (self.solve)(instance, options)?;
        if !answer.is_finite() {
            return Err(SolveError::NotFinite);
        }
        let even = !options.sharing && self.is_type_neutral(options, &answer);
        Ok(if even { spread_over_types(instance, answer) } else { answer })
    }

    /// Whether a solution fixes each job's total time but not its types. True for goals blind to types, except rules
    /// and queues, which name types, and goals under which types have prices.
    pub fn is_type_neutral(&self, options: Options, answer: &Solution) -> bool {
        let fixed = matches!(answer.certificate, Certificate::Rule | Certificate::Queues { .. });
        options.types == TypeAwareness::Blind && !fixed && !self.priced
    }
}

/// Spreads every job's time over all types in proportion to their counts, so that a type-blind goal prefers none. Only
/// where every job runs on every type; its speed as the goal sees it does not change.
fn spread_over_types(instance: &Instance, answer: Solution) -> Solution {
    let all: f64 = instance.types.iter().map(|t| f64::from(t.count)).sum();
    let anywhere = |job: &Job| {
        instance.types.iter().zip(&job.throughputs).all(|(t, speed)| *speed > 0.0 && job.gpus <= t.count)
    };
    if !instance.jobs.iter().all(anywhere) {
        return answer;
    }
    let spread = |row: &[f64]| -> Vec<f64> {
        let total: f64 = row.iter().sum();
        instance.types.iter().map(|t| total * f64::from(t.count) / all).collect()
    };
    let flat: Vec<f64> = answer.allocation.rows().flat_map(spread).collect();
    let allocation = Shares::new(instance.types.len(), flat);
    let speed = |(job, row): (&Job, &[f64])| {
        let mean: f64 =
            job.throughputs.iter().zip(&instance.types).map(|(s, t)| s * f64::from(t.count)).sum::<f64>()
                / all;
        job.throughputs.iter().zip(row).map(|(s, x)| s * x).sum::<f64>() / mean
    };
    let normalised = instance.jobs.iter().zip(allocation.rows()).map(speed).collect();
    Solution { allocation, normalised, ..answer }
}

/// Registry of all goals. Every goal is also a policy, in this order.
pub const GOALS: &[GoalDef] = &[
    goals::max_min::DEF,
    goals::max_min_fill::DEF,
    goals::hierarchical::DEF,
    goals::finish_time::DEF,
    goals::makespan::DEF,
    goals::throughput::DEF,
    goals::cost::DEF,
    goals::strategy_proof::DEF,
    goals::allox::DEF,
    goals::gandiva::DEF,
    goals::fifo_hetero::DEF,
    goals::isolated::DEF,
];

/// Looks up a goal by name.
pub fn goal(name: &str) -> Option<&'static GoalDef> {
    GOALS.iter().find(|goal| goal.name == name)
}
