//! One file per goal, and what they share: turning shares and prices into an answer.

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

use crate::answer::{Answer, Bottleneck, Certificate, Scarce, Shares};
use crate::goal::{SolveError, Types};
use crate::instance::Instance;
use crate::problem::Problem;

/// The gap solvers aim at, no finer than a sum over so many jobs is known; what they promise is [`PROMISED`].
pub(crate) fn aim(problem: &Problem) -> f64 {
    1e-12 + 1e-15 * problem.n as f64
}

/// The largest gap an answer may have: relative, or absolute where it is a sum of logarithms.
pub(crate) const PROMISED: f64 = 5e-7;

/// What a solver found, before it is dressed up.
pub(crate) struct Found {
    pub(crate) objective: f64,
    pub(crate) shares: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    /// The places of the jobs whose own constraint binds.
    pub(crate) binding: Vec<usize>,
    pub(crate) certificate: Certificate,
}

impl Found {
    pub(crate) fn answer(self, instance: &Instance, problem: &Problem) -> Answer {
        let bottleneck = bottleneck(self.binding, &self.prices, self.objective);
        Answer {
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

/// Each job's true speed under `shares` over its mean speed, whatever the solver took its speed for.
fn normalised(instance: &Instance, problem: &Problem, shares: &[f64]) -> Vec<f64> {
    let rows = shares.chunks_exact(problem.k);
    let speed =
        |job: &crate::Job, row: &[f64]| job.throughputs.iter().zip(row).map(|(t, x)| t * x).sum::<f64>();
    instance.jobs.iter().zip(rows).zip(&problem.mean).map(|((job, row), p)| speed(job, row) / p).collect()
}

/// What keeps `of`, the objective or whatever the prices are of, from being better.
pub(crate) fn bottleneck(mut binding: Vec<usize>, prices: &[f64], of: f64) -> Bottleneck {
    let count = binding.len();
    binding.truncate(Bottleneck::MOST_JOBS);
    let scarcest =
        prices.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, p)| *p > 0.0);
    let scarce = scarcest.map(|(gpu_type, price)| Scarce {
        gpu_type,
        price,
        gain: if of == 0.0 { 0.0 } else { price / of.abs() },
        of,
    });
    Bottleneck { jobs: binding, binding: count, scarce }
}

/// Refuses an answer whose gap is too wide to be called exact.
pub(crate) fn close_enough(value: f64, bound: f64) -> Result<(), SolveError> {
    let gap = (bound - value).abs() / value.abs().max(bound.abs()).max(1e-300);
    if gap <= PROMISED || value == bound { Ok(()) } else { Err(SolveError::Stuck { gap }) }
}

/// Steps left of every job, where the goal needs them.
pub(crate) fn steps(instance: &Instance, goal: &'static str) -> Result<Vec<f64>, SolveError> {
    let missing = |job| SolveError::Missing { job, field: "num_steps_remaining", goal };
    instance.jobs.iter().map(|job| job.steps.ok_or_else(|| missing(job.id))).collect()
}

/// Speeds as the goal is allowed to see them.
pub(crate) fn laid_out(instance: &Instance, types: Types) -> Problem {
    Problem::new(instance, types)
}
