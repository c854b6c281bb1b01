//! The goals: what an allocation is for, each with a name, a summary, where it comes from, and its solver. The registry
//! feeds the command line, the policies and the tests; adding a goal is one file and one line.

use crate::answer::{Answer, Certificate, Shares};
use crate::goals;
use crate::instance::{Instance, InstanceError, Job};

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
    /// Jobs should share, and nobody says how fast they then are.
    #[error(
        "pair_throughputs: missing, and sharing needs it: steps a second of two jobs on one GPU, by type and profile"
    )]
    NoPairs,
    /// Jobs that share are of more kinds than can be solved in time.
    #[error(
        "{goal} with sharing takes {most} kinds of jobs at most, and there are {kinds}; leave sharing out, or follow another goal"
    )]
    TooManyKinds {
        /// The goal.
        goal: &'static str,
        /// How many kinds there are.
        kinds: usize,
        /// How many it takes.
        most: usize,
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
    /// The solver came to something that is no number.
    #[error("the solver came to a result that is no number")]
    NoNumber,
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
        if instance.jobs.is_empty() {
            return Ok(Answer::nobody(instance.types.len()));
        }
        let answer = (self.solve)(instance, options)?;
        if !answer.is_of_numbers() {
            return Err(SolveError::NoNumber);
        }
        let even = !options.sharing && self.prefers_no_type(options, &answer);
        Ok(if even { even_out(instance, answer) } else { answer })
    }

    /// Whether an answer says how much time everyone has, and not where: so it does to whom all types are equal, but a rule,
    /// or a queue, says who runs where, and what types cost differs.
    pub fn prefers_no_type(&self, options: Options, answer: &Answer) -> bool {
        let fixed = matches!(answer.certificate, Certificate::Rule | Certificate::Queues { .. });
        options.types == Types::Blind && !fixed && self.name != "cost"
    }
}

/// Whoever takes all types for equal must not prefer one: every job's time is spread over them all, as many as there are
/// of each, where every job runs on every type. Its speed, as the goal sees it, stays what it was.
fn even_out(instance: &Instance, answer: Answer) -> Answer {
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
    Answer { allocation, normalised, ..answer }
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
