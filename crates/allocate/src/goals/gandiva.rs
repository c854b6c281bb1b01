//! Packing after Gandiva: all jobs are time-sliced on all types; where there are more jobs than GPUs, the pairs that
//! lose least share GPUs, as many as it takes.

use super::isolated::rule_solution_with_pairs;
use super::problem_of;
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::{Instance, Job};
use crate::problem::Problem;
use crate::sharing::PairSpeeds;
use crate::solution::{PairShare, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "gandiva",
    summary: "everyone takes turns, and the pairs that lose least share GPUs where there are too few",
    when: "for jobs that run well together in measured pairs and may share GPUs",
    source: "Gandiva (Xiao et al., OSDI 2018), as Gavel compares with it",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    let partners = if options.sharing { select_pairs(instance, &problem)? } else { Vec::new() };
    let mut paired = vec![false; problem.n];
    partners.iter().flatten().for_each(|&m| paired[m] = true);
    let width: f64 = (0..problem.n).filter(|&m| !paired[m]).map(|m| problem.gpus[m]).sum::<f64>()
        + partners.iter().map(|[a, _]| problem.gpus[*a]).sum::<f64>();
    let time_slices = |runs: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let mut row: Vec<f64> =
            (0..problem.k).map(|j| if runs(j) { problem.capacity[j] / width } else { 0.0 }).collect();
        let total = row.iter().sum::<f64>().max(1.0);
        row.iter_mut().for_each(|share| *share /= total);
        row
    };
    let mut shares = vec![0.0; problem.n * problem.k];
    for m in (0..problem.n).filter(|&m| !paired[m]) {
        let row = time_slices(&|j| problem.row(m)[j] > 0.0);
        shares[m * problem.k..(m + 1) * problem.k].copy_from_slice(&row);
    }
    let table = PairSpeeds::new(instance);
    let speeds = |&[a, b]: &[usize; 2], j: usize| table.paired(&instance.jobs[a], &instance.jobs[b], j);
    let pairs = partners
        .iter()
        .map(|pair| PairShare { jobs: *pair, shares: time_slices(&|j| speeds(pair, j).is_some()) });
    let pairs = pairs.collect();
    Ok(rule_solution_with_pairs(instance, &problem, shares, pairs))
}

/// Pairs that share, best first, until every other job has GPUs of its own or no pair gains.
fn select_pairs(instance: &Instance, problem: &Problem) -> Result<Vec<[usize; 2]>, SolveError> {
    if instance.pairs.is_none() {
        return Err(SolveError::MissingPairs);
    }
    let table = PairSpeeds::new(instance);
    let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
    for (a, one) in instance.jobs.iter().enumerate() {
        for (b, other) in instance.jobs.iter().enumerate().skip(a + 1) {
            let together = combined_throughput(&table, problem, (a, one), (b, other));
            if together > 1.0 {
                candidates.push((together, a, b));
            }
        }
    }
    candidates.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut excess = problem.gpus.iter().sum::<f64>() - problem.capacity.iter().sum::<f64>();
    let mut taken = vec![false; problem.n];
    let mut pairs = Vec::new();
    for (_, a, b) in candidates {
        if excess > 0.0 && !taken[a] && !taken[b] {
            (taken[a], taken[b]) = (true, true);
            excess -= problem.gpus[a];
            pairs.push([a, b]);
        }
    }
    Ok(pairs)
}

/// Combined throughput of two jobs relative to running alone, averaged over the GPUs that either can use; types they
/// cannot share count as 0. Uses true speeds, as Gandiva measures pairs by trying them.
fn combined_throughput(
    table: &PairSpeeds<'_>,
    problem: &Problem,
    (a, one): (usize, &Job),
    (b, other): (usize, &Job),
) -> f64 {
    let (mut together, mut gpus) = (0.0, 0.0);
    for j in (0..problem.k).filter(|&j| problem.row(a)[j] > 0.0 || problem.row(b)[j] > 0.0) {
        gpus += problem.capacity[j];
        if let Some([x, y]) = table.paired(one, other, j) {
            together += problem.capacity[j] * (x / one.throughputs[j] + y / other.throughputs[j]);
        }
    }
    together / gpus
}
