//! Max-min fairness: the job worst off, by its speed over its mean speed and weight, runs as fast as it can.

use super::{Found, aim, close_enough, laid_out};
use crate::answer::{Answer, Certificate};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::rest::give_out;
use crate::rise::{From, Scaled, rise};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "max-min",
    summary: "the worst-off job's weighted normalised throughput is as large as it can be",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.1",
    sense: Sense::Max,
    solve,
};

/// A job's speed per unit of level: thr = level · w·P/s.
pub(crate) fn speed_per_level(problem: &Problem, m: usize) -> f64 {
    problem.weight[m] / problem.level_per_step(m)
}

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::max_min(instance, &problem);
    }
    let rate: Vec<f64> = (0..problem.n).map(|m| speed_per_level(&problem, m)).collect();
    let found = worst_as_fast_as_can_be(&problem, rate)?;
    Ok(found.answer(instance, &problem))
}

/// The largest θ at which every job runs at `rate`·θ, and shares that do, the rest given out.
pub(crate) fn worst_as_fast_as_can_be(problem: &Problem, rate: Vec<f64>) -> Result<Found, SolveError> {
    let reach = |rate: &[f64], m: usize| match rate[m] {
        rate if rate > 0.0 => problem.fastest[m] / rate,
        _ => f64::INFINITY,
    };
    let highest = (0..problem.n).map(|m| reach(&rate, m)).fold(f64::INFINITY, f64::min);
    if highest.is_infinite() {
        // Nobody asks for anything.
        let (shares, prices) = (vec![0.0; problem.n * problem.k], vec![0.0; problem.k]);
        let certificate = Certificate::Prices;
        return Ok(Found { objective: f64::INFINITY, shares, prices, binding: Vec::new(), certificate });
    }
    let target = Scaled(rate);
    let risen = rise(problem, &target, From::nothing(), highest, aim(problem), |_, _| false);
    close_enough(risen.theta, risen.bound)?;
    let rate = target.0;
    let mut shares = risen.shares;
    let level = |m: usize, x: &[f64]| problem.throughput(m, x) / rate[m];
    let needy = || (0..problem.n).filter(|&m| rate[m] > 0.0);
    let objective = needy().map(|m| level(m, &shares)).fold(f64::INFINITY, f64::min);
    give_out(problem, &mut shares, |m, speed| if rate[m] > 0.0 { speed / rate[m] } else { f64::INFINITY });
    let objective = needy().map(|m| level(m, &shares)).fold(f64::INFINITY, f64::min).max(objective);
    // Where no type is short of anything, those bind that go as fast as they can.
    let free = risen.prices.iter().all(|price| *price == 0.0);
    let binds = |m: usize| if free { reach(&rate, m) } else { level(m, &shares) };
    let binding = needy().filter(|&m| binds(m) <= objective * (1.0 + 1e-9)).collect();
    Ok(Found { objective, shares, prices: risen.prices, binding, certificate: Certificate::Prices })
}
