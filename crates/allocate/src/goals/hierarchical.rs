//! Hierarchical fairness: organisations share by weight, and inside each its members do, fairly or first in, first
//! out, to any depth. The objective is the lowest total level per weight among the top-level organisations.

use super::{RawSolution, problem_of};
use crate::filling::{Tree, fill};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::leftover::distribute_leftover;
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "hierarchical",
    summary: "organisations share by weight, their members fairly or first in, first out, to any depth",
    when: "for groups that own shares and divide them among their members",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.3",
    sense: Sense::Max,
    entities: true,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let missing = SolveError::MissingTable { field: "entities", goal: DEF.name };
    let tree = Tree::nested(instance, instance.entities.as_ref().ok_or(missing)?);
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::hierarchical(instance, &problem, tree);
    }
    let top = tree.top_entities();
    let result = fill(&problem, &tree)?;
    let mut shares = result.shares;
    distribute_leftover(&problem, &mut shares, |m, speed| speed * problem.level_per_step(m));
    let level = |m: &usize| problem.throughput(*m, &shares) * problem.level_per_step(*m);
    let of = |(weight, jobs): &(f64, Vec<usize>)| jobs.iter().map(level).sum::<f64>() / weight;
    let objective = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(of).fold(f64::INFINITY, f64::min);
    let binding = (0..problem.n).filter(|&m| result.stopped[m] == Some(0)).collect();
    // Organisations rise together, each in proportion to its weight.
    let together: f64 = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(weight, _)| weight).sum();
    let prices = result.stages.first().map_or_else(
        || vec![0.0; problem.k],
        |stage| stage.prices.iter().map(|price| price / together).collect(),
    );
    let certificate = Certificate::Stages { stages: result.stages, stopped: result.stopped };
    Ok(RawSolution { objective, shares, prices, binding, certificate }.into_solution(instance, &problem))
}
