//! Max-min fairness filled up: once the worst-off job can rise no more the others go on, level by level, until nobody
//! can be raised without lowering someone lower.

use super::{Found, bottleneck, laid_out};
use crate::answer::{Answer, Certificate};
use crate::filling::{Tree, fill};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::rest::give_out;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "max-min-fill",
    summary: "max-min, then the next-worst job's, level by level until nobody can be raised",
    source: "Gavel (Narayanan et al., OSDI 2020), water filling, section 4.3",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::fill(instance, &problem);
    }
    let filled = fill(&problem, &Tree::flat(&problem.weight))?;
    let mut shares = filled.shares;
    let level = |m: usize, speed: f64| speed * problem.level_per_step(m) / problem.weight[m];
    give_out(&problem, &mut shares, level);
    let objective =
        (0..problem.n).map(|m| level(m, problem.throughput(m, &shares))).fold(f64::INFINITY, f64::min);
    let binding: Vec<usize> = (0..problem.n).filter(|&m| filled.stopped[m] == Some(0)).collect();
    let held_back = binding.iter().map(|&m| level(m, problem.throughput(m, &shares)));
    let held_back = held_back.fold(f64::INFINITY, f64::min);
    // Those who still rise when the first are stopped rise together, each by its part of how far the filling goes.
    let rises = |m: &usize| level(*m, problem.fastest[*m]) > held_back * (1.0 + 1e-9);
    let together: f64 = (0..problem.n).filter(rises).map(|m| problem.weight[m]).sum();
    let stage = filled.stages.first().filter(|_| together > 0.0);
    let prices = stage.map_or_else(
        || vec![0.0; problem.k],
        |stage| stage.prices.iter().map(|price| price / together).collect(),
    );
    let certificate = Certificate::Stages { stages: filled.stages, stopped: filled.stopped };
    let bottleneck = bottleneck(binding.clone(), &prices, held_back);
    let found = Found { objective, shares, prices, binding, certificate };
    Ok(Answer { bottleneck, ..found.answer(instance, &problem) })
}
