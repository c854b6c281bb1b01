//! First in, first out on heterogeneous types: jobs in instance order, each on the fastest type with enough free GPUs,
//! until one does not fit; no job overtakes. With sharing, jobs that do not fit are paired with running ones, in the
//! same order.

use super::isolated::rule_solution_with_pairs;
use super::problem_of;
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::PairSpeeds;
use crate::solution::{PairShare, Solution};

/// Least combined throughput of a pair relative to running alone: 1.5, as in Gavel.
const MIN_COMBINED_THROUGHPUT: f64 = 1.5;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "fifo-hetero",
    summary: "first in, first out, each job on the fastest type that has room",
    when: "for order of arrival, each job on the GPU type it runs fastest on",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    let mut free = problem.capacity.clone();
    let mut placed: Vec<usize> = Vec::new();
    for m in 0..problem.n {
        let speed = problem.row(m);
        let fastest = (0..problem.k)
            .filter(|&j| speed[j] > 0.0 && problem.gpus[m] <= free[j])
            .max_by(|&a, &b| speed[a].total_cmp(&speed[b]));
        let Some(j) = fastest else { break };
        free[j] -= problem.gpus[m];
        placed.push(j);
    }
    let joined = if options.sharing { pair_waiting_jobs(instance, &problem, &placed)? } else { Vec::new() };
    let only = |j: usize| (0..problem.k).map(|i| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let mut shares = vec![0.0; problem.n * problem.k];
    for (m, &j) in placed.iter().enumerate().filter(|(m, _)| joined.iter().all(|[host, _]| host != m)) {
        shares[m * problem.k + j] = 1.0;
    }
    let pairs = joined.into_iter().map(|jobs| PairShare { jobs, shares: only(placed[jobs[0]]) }).collect();
    Ok(rule_solution_with_pairs(instance, &problem, shares, pairs))
}

/// Pairs each waiting job with the unpaired running job of highest combined throughput, until one finds no partner.
fn pair_waiting_jobs(
    instance: &Instance,
    problem: &Problem,
    placed: &[usize],
) -> Result<Vec<[usize; 2]>, SolveError> {
    if instance.pairs.is_none() {
        return Err(SolveError::MissingPairs);
    }
    let table = PairSpeeds::new(instance);
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for m in placed.len()..problem.n {
        let combined = |host: usize, j: usize| {
            let [one, other] = table.paired(&instance.jobs[host], &instance.jobs[m], j)?;
            let alone = |m: usize| instance.jobs[m].throughputs[j];
            Some(one / alone(host) + other / alone(m))
        };
        let alone =
            placed.iter().enumerate().filter(|(host, _)| pairs.iter().all(|[taken, _]| taken != host));
        let candidates = alone.filter_map(|(host, &j)| Some((combined(host, j)?, host)));
        // Ties go to the earlier host.
        let best = candidates
            .filter(|(combined, _)| *combined > MIN_COMBINED_THROUGHPUT)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let Some((_, host)) = best else { break };
        pairs.push([host, m]);
    }
    Ok(pairs)
}
