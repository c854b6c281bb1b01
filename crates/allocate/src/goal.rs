//! The goals: what an allocation is for, each with a name, a summary, where it comes from, and its solver. The registry
//! feeds the command line, the policies and the tests; adding a goal is one file and one line.

use crate::answer::Answer;
use crate::goals;
use crate::instance::{Instance, InstanceError};

/// Whether a goal knows that jobs are faster on some types than on others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Types {
    /// It does.
    #[default]
    Aware,
    /// It takes every type for the job's mean one.
    Blind,
}

/// Whether a goal knows that a job is slower with its GPUs spread over machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placing {
    /// It takes them to be as fast wherever they are.
    #[default]
    Ignored,
    /// It does.
    Modelled,
}

/// What may be asked of every goal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether types differ.
    pub types: Types,
    /// Whether two jobs may share a GPU, where the instance says how fast they then are.
    pub sharing: bool,
    /// Whether it matters where a job's GPUs are.
    pub placing: Placing,
}

/// Whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// More is better.
    Max,
    /// Less is better.
    Min,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// The instance makes no sense.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The goal needs something of a job that the instance does not say.
    #[error("job {job}: {field}: missing, and {goal} needs it")]
    Missing {
        /// The job.
        job: u64,
        /// The field.
        field: &'static str,
        /// The goal.
        goal: &'static str,
    },
    /// The goal needs something the instance does not say.
    #[error("{field}: missing, and {goal} needs it")]
    MissingTable {
        /// The field.
        field: &'static str,
        /// The goal.
        goal: &'static str,
    },
    /// The goal does not know sharing.
    #[error("{goal} does not know sharing")]
    NoSharing {
        /// The goal.
        goal: &'static str,
    },
    /// There is no goal of this name.
    #[error("there is no goal {goal}")]
    NoSuchGoal {
        /// The name.
        goal: &'static str,
    },
    /// The solver no longer came any closer to the optimum.
    #[error("the solver came no closer to the optimum and gave up")]
    NoProgress,
    /// The solver did not come close enough to the optimum to be trusted.
    #[error("the solver stopped {gap:.1e} short of the optimum")]
    Stuck {
        /// The relative gap left.
        gap: f64,
    },
}

/// A goal, as the registry has it.
#[derive(Debug, Clone, Copy)]
pub struct GoalDef {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether more or less of its objective is better.
    pub sense: Sense,
    /// Whether it knows sharing.
    pub sharing: bool,
    pub(crate) solve: fn(&Instance, Options) -> Result<Answer, SolveError>,
}

impl GoalDef {
    /// Checks the instance and solves it. Same instance, same answer.
    pub fn solve(&self, instance: &Instance, options: Options) -> Result<Answer, SolveError> {
        instance.validate()?;
        let instance = &*instance.placed(options.placing);
        if options.placing == Placing::Modelled {
            // A job may run nowhere when spread.
            instance.validate()?;
        }
        if options.sharing && !self.sharing {
            return Err(SolveError::NoSharing { goal: self.name });
        }
        if instance.jobs.is_empty() {
            return Ok(Answer::nobody(instance.types.len()));
        }
        (self.solve)(instance, options)
    }
}

/// Every goal there is.
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

/// The goal of this name.
pub fn goal(name: &str) -> Option<&'static GoalDef> {
    GOALS.iter().find(|goal| goal.name == name)
}
