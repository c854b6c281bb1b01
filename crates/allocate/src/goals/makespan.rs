//! Makespan: minimises the completion of the last job.

use super::max_min::maximise_worst;
use super::{problem_of, remaining_steps};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::solution::Solution;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "makespan",
    summary: "the last job ends as early as it can",
    when: "for a batch of jobs to end as early as possible",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Min,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::makespan(instance, &problem);
    }
    // thr ≥ S/T for every job: with θ = 1/T, a common level at rate S.
    let mut found = maximise_worst(&problem, remaining_steps(instance, DEF.name)?)?;
    found.objective = 1.0 / found.objective;
    let slope = found.objective * found.objective;
    found.prices.iter_mut().for_each(|price| *price *= slope);
    Ok(found.into_solution(instance, &problem))
}
