//! Strategy-proof allocation: maximises the product of speeds, then each job keeps the fraction of its shares by which
//! its presence reduces the product of the others. Its final speed is the product of all speeds over a number it does
//! not influence, so misreporting throughputs cannot gain (Cole, Gkatzelis and Goel, 2013).

use std::collections::HashMap;

use super::{MAX_GAP, RawSolution, problem_of};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::nash::Nash;
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "strategy-proof",
    summary: "largest product of speeds, discounted so that overstating a throughput gains nothing",
    when: "for users who might overstate their speeds to get more",
    source: "the partial allocation mechanism (Cole, Gkatzelis and Goel, EC 2013)",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

/// Absolute gap in Σ log speed: every final speed is within this fraction of exact.
const GAP: f64 = 1e-7;

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::strategy_proof(instance, &problem);
    }
    let mut everyone = Nash::new(&problem);
    let all = everyone.solve(GAP);
    let regions = everyone.price_regions(&all.prices);
    // Without these the search would first go far from the joint prices, where every job must be evaluated.
    let ends = regions.iter().skip(1).step_by(2).flat_map(|region| region.corner_prices(&all.prices));
    let hints: Vec<Vec<f64>> = all.hints.iter().cloned().chain(ends).collect();
    let used = problem.usage(&all.shares);
    let mut discount_of: HashMap<Vec<u64>, f64> = HashMap::new();
    let mut discounts = Vec::with_capacity(problem.n);
    for m in 0..problem.n {
        // Jobs with equal speeds and width get the same discount.
        let class: Vec<u64> = problem.row(m).iter().chain([&problem.gpus[m]]).map(|x| x.to_bits()).collect();
        let discount = *discount_of.entry(class).or_insert_with(|| {
            let mut others = everyone.without(m, &regions);
            // The others' current shares stay feasible without this job.
            let current = all.value - problem.throughput(m, &all.shares).ln();
            let row = &all.shares[m * problem.k..(m + 1) * problem.k];
            let left: Vec<f64> =
                used.iter().zip(row).map(|(u, x)| (u - problem.gpus[m] * x).max(0.0)).collect();
            (current - others.value((current, &left), hints.clone(), GAP)).min(0.0).exp()
        });
        discounts.push(discount);
    }
    let constant: f64 = (0..problem.n).map(|m| (problem.level_per_step(m) / problem.weight[m]).ln()).sum();
    let objective = all.value + constant;
    ensure_absolute_gap(all.value, all.bound)?;
    let mut shares = all.shares;
    for (row, discount) in shares.chunks_exact_mut(problem.k).zip(&discounts) {
        row.iter_mut().for_each(|share| *share *= discount);
    }
    let certificate = Certificate::Discounts(discounts);
    let found = RawSolution { objective, shares, prices: all.prices, binding: Vec::new(), certificate };
    Ok(found.into_solution(instance, &problem))
}

/// Rejects a sum of logarithms too far from its bound. An absolute gap is a factor of the product, whatever the number
/// of jobs and the units of speed.
pub(crate) fn ensure_absolute_gap(value: f64, bound: f64) -> Result<(), SolveError> {
    let gap = (bound - value).abs();
    if gap <= MAX_GAP { Ok(()) } else { Err(SolveError::GapTooLarge { gap }) }
}
