//! Goals, one file each, and the conversion of shares and prices to a solution that they share.

pub(crate) mod allox;
pub(crate) mod cost;
pub(crate) mod fifo_hetero;
pub(crate) mod finish_time;
pub(crate) mod gandiva;
pub(crate) mod hierarchical;
pub(crate) mod isolated;
pub(crate) mod makespan;
pub(crate) mod max_min;
pub(crate) mod max_min_fill;
pub(crate) mod strategy_proof;
pub(crate) mod throughput;

use crate::goal::{SolveError, TypeAwareness};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solution::{Bottleneck, Certificate, ScarceType, Shares, Solution};

/// Relative gap that solvers aim at, no finer than a sum over so many jobs can be; [`MAX_GAP`] is guaranteed.
pub(crate) fn target_gap(problem: &Problem) -> f64 {
    1e-12 + 1e-15 * problem.n as f64
}

/// Largest accepted gap: relative, or absolute for a sum of logarithms.
pub(crate) const MAX_GAP: f64 = 5e-7;

/// Solver result before it is converted to a [`Solution`].
pub(crate) struct RawSolution {
    pub(crate) objective: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    /// Indices of the jobs whose own constraint binds.
    pub(crate) binding: Vec<usize>,
    pub(crate) certificate: Certificate,
}

impl RawSolution {
    pub(crate) fn into_solution(self, instance: &Instance, problem: &Problem) -> Solution {
        let bottleneck = bottleneck(self.binding, &self.prices, self.objective);
        Solution {
            objective: self.objective,
            normalised: normalised(instance, problem, &self.shares),
            allocation: Shares::new(problem.k, self.shares),
            prices: self.prices,
            bottleneck,
            pairs: Vec::new(),
            shortfalls: Vec::new(),
            certificate: self.certificate,
        }
    }
}

/// True speed of each job under `shares` over its mean speed, whatever speed the solver assumed.
fn normalised(instance: &Instance, problem: &Problem, shares: &[f64]) -> Vec<f64> {
    let rows = shares.chunks_exact(problem.k);
    let speed =
        |job: &crate::Job, row: &[f64]| job.throughputs.iter().zip(row).map(|(t, x)| t * x).sum::<f64>();
    instance.jobs.iter().zip(rows).zip(&problem.mean).map(|((job, row), p)| speed(job, row) / p).collect()
}

/// Bottleneck of `of`, the objective or the quantity the prices refer to.
pub(crate) fn bottleneck(mut binding: Vec<usize>, prices: &[f64], of: f64) -> Bottleneck {
    let count = binding.len();
    binding.truncate(Bottleneck::MAX_JOBS);
    let scarcest =
        prices.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, p)| *p > 0.0);
    let scarce = scarcest.map(|(gpu_type, price)| ScarceType {
        gpu_type,
        price,
        gain: if of == 0.0 { 0.0 } else { price / of.abs() },
        of,
    });
    Bottleneck { jobs: binding, binding: count, scarce }
}

/// Rejects a solution whose relative gap exceeds [`MAX_GAP`].
pub(crate) fn ensure_relative_gap(value: f64, bound: f64) -> Result<(), SolveError> {
    let gap = (bound - value).abs() / value.abs().max(bound.abs()).max(1e-300);
    if gap <= MAX_GAP || value == bound { Ok(()) } else { Err(SolveError::GapTooLarge { gap }) }
}

/// Remaining steps of every job, which the goal requires.
pub(crate) fn remaining_steps(instance: &Instance, goal: &'static str) -> Result<Vec<f64>, SolveError> {
    let missing = |job| SolveError::Missing { job, field: "num_steps_remaining", goal };
    instance.jobs.iter().map(|job| job.steps.ok_or_else(|| missing(job.id))).collect()
}

/// Numeric problem with speeds as the goal may see them.
pub(crate) fn problem_of(instance: &Instance, types: TypeAwareness) -> Problem {
    Problem::new(instance, types)
}
