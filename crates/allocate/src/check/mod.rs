//! Verification of solutions, independent of the solvers: the shares are feasible, the objective is what they give,
//! and the prices prove by weak duality that nothing better exists.

mod bounds;
mod pairs;
mod queues;
mod trajectory;

use crate::goal::{GoalDef, Options, Sense, TypeAwareness};
use crate::instance::Instance;
use crate::solution::{Certificate, JobDuals, PairShare, Shares, Solution, Stage};

/// Absolute tolerance of feasibility.
pub const FEASIBLE: f64 = 1e-9;
/// Tolerance of optimality: relative, or absolute for a sum of logarithms.
pub const OPTIMAL: f64 = 1e-6;

/// Result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// Objective computed from the shares.
    pub objective: f64,
    /// Dual bound that the prices prove; `None` for a goal that is a rule.
    pub bound: Option<f64>,
    /// Gap between objective and bound, as [`OPTIMAL`] measures it; larger only where the schedule of jobs wider than
    /// one GPU is not proved optimal.
    pub gap: f64,
    /// Largest excess of the shares over the capacity.
    pub excess: f64,
}

/// Reason a solution is rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckError {
    /// Share that is negative or not a number.
    #[error("job {job}: a share of {share}")]
    Share {
        /// The job's id.
        job: u64,
        /// The share.
        share: f64,
    },
    /// Share on a type where the job cannot run.
    #[error("job {job}: a share of {share} on {gpu_type}, where it cannot run")]
    CannotRun {
        /// The job's id.
        job: u64,
        /// The share.
        share: f64,
        /// The type.
        gpu_type: String,
    },
    /// More than all of a job's time.
    #[error("job {job}: {total} of its time is given out")]
    Time {
        /// The job's id.
        job: u64,
        /// Share of its time given out.
        total: f64,
    },
    /// More GPUs than a type has.
    #[error("{gpu_type}: {used} of {count} GPUs are given out")]
    Gpus {
        /// The type.
        gpu_type: String,
        /// GPUs used.
        used: f64,
        /// GPUs of the type.
        count: u32,
    },
    /// Objective that the shares do not give.
    #[error("the objective is claimed to be {claimed}, the shares give {found}")]
    Objective {
        /// Claimed objective.
        claimed: f64,
        /// Objective of the shares.
        found: f64,
    },
    /// Objective that the prices do not prove optimal.
    #[error("the objective is {objective}, the prices only prove that it cannot pass {bound}")]
    Unproved {
        /// The objective.
        objective: f64,
        /// What the prices prove.
        bound: f64,
    },
    /// Job without a proof that it cannot rise further.
    #[error("job {job}: nothing proves that it can rise no further")]
    CouldRise {
        /// The job's id.
        job: u64,
    },
    /// Job that keeps another fraction than its discount.
    #[error("job {job}: what it keeps is not what the discount of {discount} leaves it")]
    Discount {
        /// The job's id.
        job: u64,
        /// The part it may keep.
        discount: f64,
    },
    /// Job without a run, with two, or with a share that does not match its run.
    #[error("job {job}: its scheduled run does not match its shares")]
    Run {
        /// The job's id.
        job: u64,
    },
    /// Certificate that does not fit the goal.
    #[error("the answer's certificate does not fit its goal")]
    Certificate,
    /// Field of the instance that the goal needs.
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
    answer: &Solution,
) -> Result<CheckReport, CheckError> {
    let instance = &*instance.with_placement(options.placement_model);
    let excess = feasible(instance, &answer.allocation, &answer.pairs)?;
    if instance.jobs.is_empty() {
        return Ok(CheckReport { objective: answer.objective, bound: None, gap: 0.0, excess });
    }
    // With a negative or non-finite price anything could be proved.
    if duals(answer).any(|price| !(price >= 0.0 && price.is_finite())) {
        return Err(CheckError::Certificate);
    }
    let case = bounds::DualCheck::new(instance, visible_speeds(instance, options.types), answer);
    let found = case.objective(goal.name)?;
    // An absolute difference of logarithms is a relative difference of the product; other objectives are compared
    // relatively.
    let relative = |difference: f64, of: f64| match goal.name {
        "strategy-proof" => difference,
        _ => difference / of.abs().max(found.abs()).max(1e-300),
    };
    let agrees = relative((found - answer.objective).abs(), answer.objective) <= OPTIMAL;
    if !agrees {
        return Err(CheckError::Objective { claimed: answer.objective, found });
    }
    let bound = match answer.certificate {
        Certificate::Rule | Certificate::Queues { proof: None, .. } => None,
        _ => Some(case.bound(goal.name)?),
    };
    let gap = bound.map_or(0.0, |bound| match goal.sense {
        Sense::Max => relative(bound - found, bound),
        Sense::Min => relative(found - bound, bound),
    });
    // A job of several GPUs may wait for all of them, so the assignment bound need not be tight.
    let queues = matches!(answer.certificate, Certificate::Queues { .. });
    let exact = !queues || instance.jobs.iter().all(|job| job.gpus == 1);
    // An objective beyond its bound disproves the bound.
    let proved = gap >= -OPTIMAL && (gap <= OPTIMAL || !exact);
    match bound {
        Some(bound) if !proved || !bound.is_finite() => Err(CheckError::Unproved { objective: found, bound }),
        _ => Ok(CheckReport { objective: found, bound, gap, excess }),
    }
}

/// All dual prices that the bounds use; prices of queue positions are at most 0 and are checked there.
fn duals(answer: &Solution) -> impl Iterator<Item = f64> {
    let of = |worth: &JobDuals| [worth.speed.clone(), worth.time.clone()].concat();
    let more = match &answer.certificate {
        Certificate::Jobs { speed, time } => [speed.clone(), time.clone()].concat(),
        Certificate::SharedDiscounts { duals, .. } => of(duals),
        Certificate::Deadlines { deadline_price, prices } => [&[*deadline_price], prices.as_slice()].concat(),
        Certificate::SharedDeadlines { deadline_price, deadline_prices, deadline_duals, duals } => {
            [vec![*deadline_price], deadline_prices.clone(), of(deadline_duals), of(duals)].concat()
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

/// Speeds that a goal may see; 0 where a job needs more GPUs than the type has.
fn visible_speeds(instance: &Instance, types: TypeAwareness) -> Vec<Vec<f64>> {
    let all: f64 = instance.types.iter().map(|t| f64::from(t.count)).sum();
    let row = |job: &crate::Job| {
        let mean =
            instance.types.iter().zip(&job.throughputs).map(|(t, s)| f64::from(t.count) * s).sum::<f64>()
                / all;
        let visible = |(t, &speed): (&crate::GpuType, &f64)| match types {
            _ if speed <= 0.0 || t.count < job.gpus => 0.0,
            TypeAwareness::Aware => speed,
            TypeAwareness::Blind => mean,
        };
        instance.types.iter().zip(&job.throughputs).map(visible).collect()
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
