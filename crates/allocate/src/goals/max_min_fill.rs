//! Max-min fairness by water-filling: once the worst-off jobs cannot rise, the others continue, level by level, until
//! no job can rise without lowering one of lower level.

use super::{RawSolution, bottleneck, problem_of};
use crate::filling::{Tree, fill};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::leftover::distribute_leftover;
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "max-min-fill",
    summary: "max-min, then the next-worst job's, level by level until nobody can be raised",
    when: "for equal shares, where what one job cannot use goes to the next worst off",
    source: "Gavel (Narayanan et al., OSDI 2020), water filling, section 4.3",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::fill(instance, &problem);
    }
    let result = fill(&problem, &Tree::flat(&problem.weight))?;
    let mut shares = result.shares;
    let level = |m: usize, speed: f64| speed * problem.level_per_step(m) / problem.weight[m];
    distribute_leftover(&problem, &mut shares, level);
    let objective =
        (0..problem.n).map(|m| level(m, problem.throughput(m, &shares))).fold(f64::INFINITY, f64::min);
    let binding: Vec<usize> = (0..problem.n).filter(|&m| result.stopped[m] == Some(0)).collect();
    let held_back = binding.iter().map(|&m| level(m, problem.throughput(m, &shares)));
    let held_back = held_back.fold(f64::INFINITY, f64::min);
    // Jobs that still rise when the first are stopped rise together, each in proportion to its weight: prices per unit
    // of filling become prices per unit of level.
    let rises = |m: &usize| level(*m, problem.fastest[*m]) > held_back * (1.0 + 1e-9);
    let together: f64 = (0..problem.n).filter(rises).map(|m| problem.weight[m]).sum();
    let stage = result.stages.first().filter(|_| together > 0.0);
    let prices = stage.map_or_else(
        || vec![0.0; problem.k],
        |stage| stage.prices.iter().map(|price| price / together).collect(),
    );
    let certificate = Certificate::Stages { stages: result.stages, stopped: result.stopped };
    let bottleneck = bottleneck(binding.clone(), &prices, held_back);
    let found = RawSolution { objective, shares, prices, binding, certificate };
    Ok(Solution { bottleneck, ..found.into_solution(instance, &problem) })
}
