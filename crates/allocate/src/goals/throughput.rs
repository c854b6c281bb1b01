//! Throughput: maximises the total steps per second over all jobs.

use super::{RawSolution, ensure_relative_gap, problem_of, target_gap};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::leftover::distribute_leftover;
use crate::max_total::{SoftDeadlines, TotalProblem};
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "throughput",
    summary: "as many steps a second in total as can be",
    when: "for the most total progress, whoever makes it",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::throughput(instance, &problem);
    }
    let mut solved = TotalProblem {
        problem: &problem,
        value: &problem.speed,
        deadlines: &[],
        soft: SoftDeadlines::Weighted(0.0),
    }
    .solve(None, target_gap(&problem));
    ensure_relative_gap(solved.value, solved.bound)?;
    distribute_leftover(&problem, &mut solved.shares, |m, speed| speed * problem.level_per_step(m));
    let objective = (0..problem.n).map(|m| problem.throughput(m, &solved.shares)).sum();
    let found = RawSolution {
        objective,
        shares: solved.shares,
        prices: solved.prices,
        binding: Vec::new(),
        certificate: Certificate::Prices,
    };
    Ok(found.into_solution(instance, &problem))
}
