//! Makespan: the last job ends as early as it can.

use super::max_min::worst_as_fast_as_can_be;
use super::{laid_out, steps};
use crate::answer::Answer;
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "makespan",
    summary: "the last job ends as early as it can",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Min,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::makespan(instance, &problem);
    }
    // thr ≥ S/T for every job: with θ = 1/T, a rise at rate S.
    let mut found = worst_as_fast_as_can_be(&problem, steps(instance, DEF.name)?)?;
    found.objective = 1.0 / found.objective;
    let slope = found.objective * found.objective;
    found.prices.iter_mut().for_each(|price| *price *= slope);
    Ok(found.answer(instance, &problem))
}
