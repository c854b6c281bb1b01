//! Max-min fairness: maximises the lowest level, which is speed over mean speed and weight.

use super::{RawSolution, ensure_relative_gap, problem_of, target_gap};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::leftover::distribute_leftover;
use crate::max_level::{LevelStart, LinearTarget, maximise_level};
use crate::problem::Problem;
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "max-min",
    summary: "the worst-off job's weighted normalised throughput is as large as it can be",
    when: "for equal shares of GPU time, counted by how fast each job runs",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.1",
    sense: Sense::Max,
    entities: false,
    priced: false,
    solve,
};

/// Speed of a job per unit of level: thr = level · w·P/s.
pub(crate) fn speed_per_level(problem: &Problem, m: usize) -> f64 {
    problem.weight[m] / problem.level_per_step(m)
}

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::max_min(instance, &problem);
    }
    let rate: Vec<f64> = (0..problem.n).map(|m| speed_per_level(&problem, m)).collect();
    let found = maximise_worst(&problem, rate)?;
    Ok(found.into_solution(instance, &problem))
}

/// Largest θ at which every job runs at `rate`·θ, and shares that realise it, leftover capacity distributed.
pub(crate) fn maximise_worst(problem: &Problem, rate: Vec<f64>) -> Result<RawSolution, SolveError> {
    let reach = |rate: &[f64], m: usize| match rate[m] {
        rate if rate > 0.0 => problem.fastest[m] / rate,
        _ => f64::INFINITY,
    };
    let highest = (0..problem.n).map(|m| reach(&rate, m)).fold(f64::INFINITY, f64::min);
    if highest.is_infinite() {
        // No job asks for any speed.
        let (shares, prices) = (vec![0.0; problem.n * problem.k], vec![0.0; problem.k]);
        let certificate = Certificate::Prices;
        return Ok(RawSolution {
            objective: f64::INFINITY,
            shares,
            prices,
            binding: Vec::new(),
            certificate,
        });
    }
    let target = LinearTarget(rate);
    let solved =
        maximise_level(problem, &target, LevelStart::none(), highest, target_gap(problem), |_, _| false);
    ensure_relative_gap(solved.theta, solved.bound)?;
    let rate = target.0;
    let mut shares = solved.shares;
    let level = |m: usize, x: &[f64]| problem.throughput(m, x) / rate[m];
    let needy = || (0..problem.n).filter(|&m| rate[m] > 0.0);
    let objective = needy().map(|m| level(m, &shares)).fold(f64::INFINITY, f64::min);
    distribute_leftover(
        problem,
        &mut shares,
        |m, speed| if rate[m] > 0.0 { speed / rate[m] } else { f64::INFINITY },
    );
    let objective = needy().map(|m| level(m, &shares)).fold(f64::INFINITY, f64::min).max(objective);
    // Where no type is scarce, the jobs at their top speed bind.
    let free = solved.prices.iter().all(|price| *price == 0.0);
    let binds = |m: usize| if free { reach(&rate, m) } else { level(m, &shares) };
    let binding = needy().filter(|&m| binds(m) <= objective * (1.0 + 1e-9)).collect();
    Ok(RawSolution { objective, shares, prices: solved.prices, binding, certificate: Certificate::Prices })
}
