//! Isolated: everyone gets a 1/n share of every type, as if alone. What others are measured against. Who is alone has no
//! company: sharing changes nothing.

use super::{Found, laid_out};
use crate::answer::{Answer, Certificate, PairShare};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::Partners;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "isolated",
    summary: "every job gets a 1/n share of every type, as if it were alone; sharing changes nothing",
    source: "Gavel (Narayanan et al., OSDI 2020), the baseline of its comparisons",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    let shares = alone(&problem);
    Ok(by_rule(instance, &problem, shares))
}

/// The shares of a job alone on its 1/n share: (c/n)/s on each type it can use, scaled down to all its time.
pub(crate) fn alone(problem: &Problem) -> Vec<f64> {
    let mut shares = Vec::with_capacity(problem.n * problem.k);
    for m in 0..problem.n {
        let part = problem.n as f64 * problem.gpus[m];
        let row =
            problem.row(m).iter().zip(&problem.capacity).map(|(t, c)| if *t > 0.0 { c / part } else { 0.0 });
        let start = shares.len();
        shares.extend(row);
        let total: f64 = shares[start..].iter().sum();
        if total > 1.0 {
            shares[start..].iter_mut().for_each(|share| *share /= total);
        }
    }
    shares
}

/// How fast each job would be alone on its 1/n share.
pub fn alone_speeds(instance: &Instance) -> Vec<f64> {
    let problem = laid_out(instance, crate::Types::Aware);
    let shares = alone(&problem);
    (0..problem.n).map(|m| problem.throughput(m, &shares)).collect()
}

/// The answer of a goal that is a rule: its objective is the worst-off job's level, as for max-min, so that rules and
/// optima can be compared.
pub(crate) fn by_rule(instance: &Instance, problem: &Problem, shares: Vec<f64>) -> Answer {
    let level = |m: usize| problem.throughput(m, &shares) / super::max_min::speed_per_level(problem, m);
    let objective = (0..problem.n).map(level).fold(f64::INFINITY, f64::min);
    let objective = if objective.is_finite() { objective } else { 0.0 };
    let prices = vec![0.0; problem.k];
    Found { objective, shares, prices, binding: Vec::new(), certificate: Certificate::Rule }
        .answer(instance, problem)
}

/// The same where two jobs have shares of time together.
pub(crate) fn by_rule_with_pairs(
    instance: &Instance,
    problem: &Problem,
    shares: Vec<f64>,
    pairs: Vec<PairShare>,
) -> Answer {
    let table = Partners::new(instance);
    let mut answer = by_rule(instance, problem, shares);
    for PairShare { jobs, shares } in &pairs {
        let [a, b] = jobs.map(|m| &instance.jobs[m]);
        for (j, share) in shares.iter().enumerate() {
            let both = table.together(a, b, j).unwrap_or_default();
            for (&m, speed) in jobs.iter().zip(both) {
                answer.normalised[m] += speed * share / problem.mean[m];
            }
        }
    }
    let level = |m: usize| answer.normalised[m] * problem.gpus[m] / problem.weight[m];
    answer.objective = (0..problem.n).map(level).fold(f64::INFINITY, f64::min);
    Answer { pairs, ..answer }
}
