//! Packing as Gandiva does: everyone takes turns on everything, and where there are more jobs than GPUs those pairs
//! share that lose least by it, as many as it takes.

use super::isolated::by_rule_with_pairs;
use super::laid_out;
use crate::answer::{Answer, PairShare};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::{Instance, Job};
use crate::problem::Problem;
use crate::sharing::Partners;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "gandiva",
    summary: "everyone takes turns, and the pairs that lose least share GPUs where there are too few",
    source: "Gandiva (Xiao et al., OSDI 2018), as Gavel compares with it",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    let partners = if options.sharing { pairs(instance, &problem)? } else { Vec::new() };
    let mut paired = vec![false; problem.n];
    partners.iter().flatten().for_each(|&m| paired[m] = true);
    let width: f64 = (0..problem.n).filter(|&m| !paired[m]).map(|m| problem.gpus[m]).sum::<f64>()
        + partners.iter().map(|[a, _]| problem.gpus[*a]).sum::<f64>();
    let turns = |runs: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let mut row: Vec<f64> =
            (0..problem.k).map(|j| if runs(j) { problem.capacity[j] / width } else { 0.0 }).collect();
        let total = row.iter().sum::<f64>().max(1.0);
        row.iter_mut().for_each(|share| *share /= total);
        row
    };
    let mut shares = vec![0.0; problem.n * problem.k];
    for m in (0..problem.n).filter(|&m| !paired[m]) {
        let row = turns(&|j| problem.row(m)[j] > 0.0);
        shares[m * problem.k..(m + 1) * problem.k].copy_from_slice(&row);
    }
    let table = Partners::new(instance);
    let speeds = |&[a, b]: &[usize; 2], j: usize| table.together(&instance.jobs[a], &instance.jobs[b], j);
    let pairs =
        partners.iter().map(|pair| PairShare { jobs: *pair, shares: turns(&|j| speeds(pair, j).is_some()) });
    let pairs = pairs.collect();
    Ok(by_rule_with_pairs(instance, &problem, shares, pairs))
}

/// The pairs that share: the best first, until everyone left has GPUs of his own or no pair gains.
fn pairs(instance: &Instance, problem: &Problem) -> Result<Vec<[usize; 2]>, SolveError> {
    if instance.pairs.is_none() {
        return Err(SolveError::NoPairs);
    }
    let table = Partners::new(instance);
    let mut offers: Vec<(f64, usize, usize)> = Vec::new();
    for (a, one) in instance.jobs.iter().enumerate() {
        for (b, other) in instance.jobs.iter().enumerate().skip(a + 1) {
            let together = worth(&table, problem, (a, one), (b, other));
            if together > 1.0 {
                offers.push((together, a, b));
            }
        }
    }
    offers.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut over = problem.gpus.iter().sum::<f64>() - problem.capacity.iter().sum::<f64>();
    let mut taken = vec![false; problem.n];
    let mut pairs = Vec::new();
    for (_, a, b) in offers {
        if over > 0.0 && !taken[a] && !taken[b] {
            (taken[a], taken[b]) = (true, true);
            over -= problem.gpus[a];
            pairs.push([a, b]);
        }
    }
    Ok(pairs)
}

/// What two jobs do together over what they would do alone, on the mean GPU that either runs on: where they cannot share,
/// they do nothing in their turn. Seen by their true speeds, as Gandiva measures pairs by trying them.
fn worth(table: &Partners<'_>, problem: &Problem, (a, one): (usize, &Job), (b, other): (usize, &Job)) -> f64 {
    let (mut together, mut gpus) = (0.0, 0.0);
    for j in (0..problem.k).filter(|&j| problem.row(a)[j] > 0.0 || problem.row(b)[j] > 0.0) {
        gpus += problem.capacity[j];
        if let Some([x, y]) = table.together(one, other, j) {
            together += problem.capacity[j] * (x / one.throughputs[j] + y / other.throughputs[j]);
        }
    }
    together / gpus
}
