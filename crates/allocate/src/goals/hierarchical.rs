//! Hierarchical fairness: organisations share by weight, and inside each its members do, fairly or first in, first out,
//! to any depth. The objective is what the worst-off organisation at the top gets per weight.

use super::{Found, laid_out};
use crate::answer::{Answer, Certificate};
use crate::filling::{Tree, fill};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::rest::give_out;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "hierarchical",
    summary: "organisations share by weight, their members fairly or first in, first out, to any depth",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.3",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let missing = SolveError::MissingTable { field: "entities", goal: DEF.name };
    let tree = Tree::nested(instance, instance.entities.as_ref().ok_or(missing)?);
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::hierarchical(instance, &problem, tree);
    }
    let top = tree.top();
    let filled = fill(&problem, &tree)?;
    let mut shares = filled.shares;
    give_out(&problem, &mut shares, |m, speed| speed * problem.level_per_step(m));
    let level = |m: &usize| problem.throughput(*m, &shares) * problem.level_per_step(*m);
    let of = |(weight, jobs): &(f64, Vec<usize>)| jobs.iter().map(level).sum::<f64>() / weight;
    let objective = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(of).fold(f64::INFINITY, f64::min);
    let binding = (0..problem.n).filter(|&m| filled.stopped[m] == Some(0)).collect();
    // Organisations rise together, each by its part of how far the filling goes.
    let together: f64 = top.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(weight, _)| weight).sum();
    let prices = filled.stages.first().map_or_else(
        || vec![0.0; problem.k],
        |stage| stage.prices.iter().map(|price| price / together).collect(),
    );
    let certificate = Certificate::Stages { stages: filled.stages, stopped: filled.stopped };
    Ok(Found { objective, shares, prices, binding, certificate }.answer(instance, &problem))
}
