//! Believing an answer without believing its solver: the shares fit, the objective is what they give, and the prices
//! prove by duality that nothing better exists. Shares no code with the solvers.

mod bounds;
mod course;
mod pairs;
mod queues;

use crate::answer::{Answer, Certificate, JobWorth, PairShare, Shares, Stage};
use crate::goal::{GoalDef, Options, Sense, Types};
use crate::instance::Instance;

/// Shares may exceed what there is by this much, absolutely.
pub const FEASIBLE: f64 = 1e-9;
/// The objective may fall short of the bound by this much: relatively, or absolutely where it is a sum of logarithms.
pub const OPTIMAL: f64 = 1e-6;

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The objective, computed from the shares.
    pub objective: f64,
    /// The best any allocation could reach, as the prices prove; `None` for a goal that is a rule.
    pub bound: Option<f64>,
    /// By how much the objective falls short of the bound, as [`OPTIMAL`] measures it; above that only where a schedule of
    /// jobs wider than one GPU is not proved to be the best.
    pub gap: f64,
    /// The most by which the shares exceed what there is.
    pub excess: f64,
}

/// Why an answer is not to be believed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckError {
    /// A share is negative or not a number.
    #[error("job {job}: a share of {share}")]
    Share {
        /// The job's id.
        job: u64,
        /// The share.
        share: f64,
    },
    /// A job gets a share where it cannot run.
    #[error("job {job}: a share of {share} on {gpu_type}, where it cannot run")]
    CannotRun {
        /// The job's id.
        job: u64,
        /// The share.
        share: f64,
        /// The type.
        gpu_type: String,
    },
    /// A job gets more than all its time.
    #[error("job {job}: {total} of its time is given out")]
    Time {
        /// The job's id.
        job: u64,
        /// How much.
        total: f64,
    },
    /// A type is given out more than there is of it.
    #[error("{gpu_type}: {used} of {count} GPUs are given out")]
    Gpus {
        /// The type.
        gpu_type: String,
        /// How many are used.
        used: f64,
        /// How many there are.
        count: u32,
    },
    /// The objective is not what the shares give.
    #[error("the objective is said to be {said}, the shares give {found}")]
    Objective {
        /// What was said.
        said: f64,
        /// What the shares give.
        found: f64,
    },
    /// The prices do not prove the objective optimal.
    #[error("the objective is {objective}, the prices only prove that it cannot pass {bound}")]
    NotProved {
        /// The objective.
        objective: f64,
        /// What the prices prove.
        bound: f64,
    },
    /// A job could rise further.
    #[error("job {job}: nothing proves that it can rise no further")]
    CouldRise {
        /// The job's id.
        job: u64,
    },
    /// A job keeps another part of what it had than its discount leaves it.
    #[error("job {job}: what it keeps is not what the discount of {discount} leaves it")]
    Discount {
        /// The job's id.
        job: u64,
        /// The part it may keep.
        discount: f64,
    },
    /// A job has no turn, or two, or a share that is not that of its turn.
    #[error("job {job}: its turn is not what its shares say")]
    Turn {
        /// The job's id.
        job: u64,
    },
    /// The answer lacks what would prove it.
    #[error("the answer's certificate does not fit its goal")]
    Certificate,
    /// The instance lacks what the goal needs.
    #[error("the instance lacks what {goal} needs")]
    Instance {
        /// The goal.
        goal: &'static str,
    },
}

/// Checks that `answer` is feasible and optimal for `goal`.
pub fn check(
    instance: &Instance,
    goal: &GoalDef,
    options: Options,
    answer: &Answer,
) -> Result<Checked, CheckError> {
    let instance = &*instance.placed(options.placing);
    let excess = feasible(instance, &answer.allocation, &answer.pairs)?;
    if instance.jobs.is_empty() {
        return Ok(Checked { objective: answer.objective, bound: None, gap: 0.0, excess });
    }
    // A price below nothing, or that is no number, proves whatever one likes.
    if duals(answer).any(|price| !(price >= 0.0 && price.is_finite())) {
        return Err(CheckError::Certificate);
    }
    let case = bounds::Case::new(instance, seen_speeds(instance, options.types), answer);
    let found = case.objective(goal.name)?;
    // What is added to a sum of logarithms multiplies what is under them; every other objective is its own measure.
    let part = |difference: f64, of: f64| match goal.name {
        "strategy-proof" => difference,
        _ => difference / of.abs().max(found.abs()).max(1e-300),
    };
    let agrees = part((found - answer.objective).abs(), answer.objective) <= OPTIMAL;
    if !agrees {
        return Err(CheckError::Objective { said: answer.objective, found });
    }
    let bound = match answer.certificate {
        Certificate::Rule | Certificate::Queues { proof: None, .. } => None,
        _ => Some(case.bound(goal.name)?),
    };
    let gap = bound.map_or(0.0, |bound| match goal.sense {
        Sense::Max => part(bound - found, bound),
        Sense::Min => part(found - bound, bound),
    });
    // Who needs several GPUs at once may have to wait for them all: then the bound is only that.
    let queues = matches!(answer.certificate, Certificate::Queues { .. });
    let exact = !queues || instance.jobs.iter().all(|job| job.gpus == 1);
    // A bound that is passed is none; nor is what is no number.
    let proved = gap >= -OPTIMAL && (gap <= OPTIMAL || !exact);
    match bound {
        Some(bound) if !proved || !bound.is_finite() => {
            Err(CheckError::NotProved { objective: found, bound })
        }
        _ => Ok(Checked { objective: found, bound, gap, excess }),
    }
}

/// Everything the bounds take to be a price or a worth; places in queues have theirs below nothing and are looked at there.
fn duals(answer: &Answer) -> impl Iterator<Item = f64> {
    let of = |worth: &JobWorth| [worth.speed.clone(), worth.time.clone()].concat();
    let more = match &answer.certificate {
        Certificate::Jobs { speed, time } => [speed.clone(), time.clone()].concat(),
        Certificate::SharedDiscounts { worth, .. } => of(worth),
        Certificate::Deadlines { kept, prices } => [&[*kept], prices.as_slice()].concat(),
        Certificate::SharedDeadlines { kept, first_prices, first, both } => {
            [vec![*kept], first_prices.clone(), of(first), of(both)].concat()
        }
        Certificate::Stages { stages, .. } => {
            let stage =
                |stage: &Stage| [stage.prices.clone(), stage.jobs.iter().flat_map(of).collect()].concat();
            stages.iter().flat_map(stage).collect()
        }
        Certificate::Rule | Certificate::Prices | Certificate::Discounts(_) | Certificate::Queues { .. } => {
            Vec::new()
        }
    };
    answer.prices.iter().copied().chain(more)
}

/// The speeds a goal is allowed to see, 0 where a job is too wide.
fn seen_speeds(instance: &Instance, types: Types) -> Vec<Vec<f64>> {
    let all: f64 = instance.types.iter().map(|t| f64::from(t.count)).sum();
    let row = |job: &crate::Job| {
        let mean =
            instance.types.iter().zip(&job.throughputs).map(|(t, s)| f64::from(t.count) * s).sum::<f64>()
                / all;
        let seen = |(t, &speed): (&crate::GpuType, &f64)| match types {
            _ if speed <= 0.0 || t.count < job.gpus => 0.0,
            Types::Aware => speed,
            Types::Blind => mean,
        };
        instance.types.iter().zip(&job.throughputs).map(seen).collect()
    };
    instance.jobs.iter().map(row).collect()
}

fn feasible(instance: &Instance, allocation: &Shares, pairs: &[PairShare]) -> Result<f64, CheckError> {
    let mut used = vec![0.0; instance.types.len()];
    let mut time = vec![0.0; instance.jobs.len()];
    let mut excess = 0.0_f64;
    let alone = allocation.rows().enumerate().map(|(m, row)| (vec![m], row));
    let together = pairs.iter().map(|pair| (pair.jobs.to_vec(), pair.shares.as_slice()));
    for (jobs, row) in alone.chain(together) {
        for (j, &share) in row.iter().enumerate() {
            for &m in &jobs {
                let job = &instance.jobs[m];
                if share.is_nan() || share < -FEASIBLE {
                    return Err(CheckError::Share { job: job.id, share });
                }
                let t = &instance.types[j];
                if share > FEASIBLE && (job.throughputs[j] <= 0.0 || t.count < job.gpus) {
                    return Err(CheckError::CannotRun { job: job.id, share, gpu_type: t.name.clone() });
                }
                time[m] += share;
            }
            let wide = jobs.iter().map(|&m| instance.jobs[m].gpus).max().unwrap_or(0);
            used[j] += f64::from(wide) * share;
            excess = excess.max(-share);
        }
    }
    for (job, &total) in instance.jobs.iter().zip(&time) {
        excess = excess.max(total - 1.0);
        if total > 1.0 + FEASIBLE {
            return Err(CheckError::Time { job: job.id, total });
        }
    }
    for (t, &used) in instance.types.iter().zip(&used) {
        excess = excess.max(used - f64::from(t.count));
        if used > f64::from(t.count) + FEASIBLE {
            return Err(CheckError::Gpus { gpu_type: t.name.clone(), used, count: t.count });
        }
    }
    Ok(excess)
}
