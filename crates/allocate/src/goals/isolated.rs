//! Isolated shares: every job gets 1/n of every type, as if alone. The baseline of other goals. GPU sharing has no
//! effect.

use super::{RawSolution, problem_of};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::PairSpeeds;
use crate::solution::{Certificate, PairShare, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "isolated",
    summary: "every job gets a 1/n share of every type, as if it were alone; sharing changes nothing",
    when: "a baseline: every job has a fixed equal share",
    source: "Gavel (Narayanan et al., OSDI 2020), the baseline of its comparisons",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    let shares = isolated_shares(&problem);
    Ok(rule_solution(instance, &problem, shares))
}

/// Shares of a job on its 1/n of the cluster: (c/n)/s on each type it can use, scaled down to all of its time.
pub(crate) fn isolated_shares(problem: &Problem) -> Vec<f64> {
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

/// Speed of each job on its 1/n of the cluster.
pub fn isolated_speeds(instance: &Instance) -> Vec<f64> {
    let problem = problem_of(instance, crate::TypeAwareness::Aware);
    let shares = isolated_shares(&problem);
    (0..problem.n).map(|m| problem.throughput(m, &shares)).collect()
}

/// Solution of a goal that is a rule. Its objective is the lowest level, as for max-min, so that rules and optima can
/// be compared.
pub(crate) fn rule_solution(instance: &Instance, problem: &Problem, shares: Vec<f64>) -> Solution {
    let level = |m: usize| problem.throughput(m, &shares) / super::max_min::speed_per_level(problem, m);
    let objective = (0..problem.n).map(level).fold(f64::INFINITY, f64::min);
    let objective = if objective.is_finite() { objective } else { 0.0 };
    let prices = vec![0.0; problem.k];
    RawSolution { objective, shares, prices, binding: Vec::new(), certificate: Certificate::Rule }
        .into_solution(instance, problem)
}

/// Rule solution with shares of time in pairs.
pub(crate) fn rule_solution_with_pairs(
    instance: &Instance,
    problem: &Problem,
    shares: Vec<f64>,
    pairs: Vec<PairShare>,
) -> Solution {
    let table = PairSpeeds::new(instance);
    let mut answer = rule_solution(instance, problem, shares);
    for PairShare { jobs, shares } in &pairs {
        let [a, b] = jobs.map(|m| &instance.jobs[m]);
        for (j, share) in shares.iter().enumerate() {
            let both = table.paired(a, b, j).unwrap_or_default();
            for (&m, speed) in jobs.iter().zip(both) {
                answer.normalised[m] += speed * share / problem.mean[m];
            }
        }
    }
    let level = |m: usize| answer.normalised[m] * problem.gpus[m] / problem.weight[m];
    answer.objective = (0..problem.n).map(level).fold(f64::INFINITY, f64::min);
    Solution { pairs, ..answer }
}
