//! Strategy-proof: the largest product of everyone's speeds, and then each job keeps only the part of its shares that
//! the others' product loses by its being there. What a job ends up with is then the product of all speeds over a
//! number it has no hand in, so that stating one's throughputs wrongly can only lose (Cole, Gkatzelis and Goel, 2013).

use std::collections::HashMap;

use super::{Found, PROMISED, laid_out};
use crate::answer::{Answer, Certificate};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::nash::Nash;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "strategy-proof",
    summary: "largest product of speeds, discounted so that overstating a throughput gains nothing",
    source: "the partial allocation mechanism (Cole, Gkatzelis and Goel, EC 2013)",
    sense: Sense::Max,
    solve,
};

/// Absolute gap in Σ log speed: what any job ends up with is within this part of exact.
const GAP: f64 = 1e-7;

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::strategy_proof(instance, &problem);
    }
    let mut everyone = Nash::new(&problem);
    let all = everyone.solve(GAP);
    let nearby = everyone.around(&all.prices);
    // Without them the search would first go far from where everyone's prices were, where all have to be asked.
    let ends = nearby.iter().skip(1).step_by(2).flat_map(|nearby| nearby.ends(&all.prices));
    let hints: Vec<Vec<f64>> = all.hints.iter().cloned().chain(ends).collect();
    let used = problem.usage(&all.shares);
    let mut kept: HashMap<Vec<u64>, f64> = HashMap::new();
    let mut discounts = Vec::with_capacity(problem.n);
    for m in 0..problem.n {
        // Jobs alike in speeds and width do the others the same harm.
        let alike: Vec<u64> = problem.row(m).iter().chain([&problem.gpus[m]]).map(|x| x.to_bits()).collect();
        let discount = *kept.entry(alike).or_insert_with(|| {
            let mut others = everyone.without(m, &nearby);
            // What the others have now is feasible without this job too.
            let here = all.value - problem.throughput(m, &all.shares).ln();
            let row = &all.shares[m * problem.k..(m + 1) * problem.k];
            let left: Vec<f64> =
                used.iter().zip(row).map(|(u, x)| (u - problem.gpus[m] * x).max(0.0)).collect();
            (here - others.value((here, &left), hints.clone(), GAP)).min(0.0).exp()
        });
        discounts.push(discount);
    }
    let constant: f64 = (0..problem.n).map(|m| (problem.level_per_step(m) / problem.weight[m]).ln()).sum();
    let objective = all.value + constant;
    near(all.value, all.bound)?;
    let mut shares = all.shares;
    for (row, discount) in shares.chunks_exact_mut(problem.k).zip(&discounts) {
        row.iter_mut().for_each(|share| *share *= discount);
    }
    let certificate = Certificate::Discounts(discounts);
    let found = Found { objective, shares, prices: all.prices, binding: Vec::new(), certificate };
    Ok(found.answer(instance, &problem))
}

/// Refuses a sum of logarithms too far from its bound. What it lacks is a part of the product, however many jobs there are
/// and in whatever units their speeds.
pub(crate) fn near(value: f64, bound: f64) -> Result<(), SolveError> {
    let gap = (bound - value).abs();
    if gap <= PROMISED { Ok(()) } else { Err(SolveError::Stuck { gap }) }
}
