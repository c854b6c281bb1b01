//! First in, first out on unlike types: jobs in the order of the instance, each on the fastest type that still has room
//! for it, until one finds none. Nobody overtakes. With sharing those that find none join others, in the same order.

use super::isolated::by_rule_with_pairs;
use super::laid_out;
use crate::answer::{Answer, PairShare};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::sharing::Partners;

/// What two must do together of what they do alone for one to join the other: half as much again, as Gavel has it.
const WORTH_IT: f64 = 1.5;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "fifo-hetero",
    summary: "first in, first out, each job on the fastest type that has room",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
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
    let joined = if options.sharing { joined(instance, &problem, &placed)? } else { Vec::new() };
    let only = |j: usize| (0..problem.k).map(|i| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let mut shares = vec![0.0; problem.n * problem.k];
    for (m, &j) in placed.iter().enumerate().filter(|(m, _)| joined.iter().all(|[host, _]| host != m)) {
        shares[m * problem.k + j] = 1.0;
    }
    let pairs = joined.into_iter().map(|jobs| PairShare { jobs, shares: only(placed[jobs[0]]) }).collect();
    Ok(by_rule_with_pairs(instance, &problem, shares, pairs))
}

/// Those who found no room, each beside whoever it gets on best with of those that are alone, until one finds nobody.
fn joined(instance: &Instance, problem: &Problem, placed: &[usize]) -> Result<Vec<[usize; 2]>, SolveError> {
    if instance.pairs.is_none() {
        return Err(SolveError::NoPairs);
    }
    let table = Partners::new(instance);
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for m in placed.len()..problem.n {
        let worth = |host: usize, j: usize| {
            let [one, other] = table.together(&instance.jobs[host], &instance.jobs[m], j)?;
            let alone = |m: usize| instance.jobs[m].throughputs[j];
            Some(one / alone(host) + other / alone(m))
        };
        let alone =
            placed.iter().enumerate().filter(|(host, _)| pairs.iter().all(|[taken, _]| taken != host));
        let offers = alone.filter_map(|(host, &j)| Some((worth(host, j)?, host)));
        // The earlier of two that are as good.
        let best = offers
            .filter(|(worth, _)| *worth > WORTH_IT)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let Some((_, host)) = best else { break };
        pairs.push([host, m]);
    }
    Ok(pairs)
}
