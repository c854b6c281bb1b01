//! Cost: maximises steps per unit of money subject to deadlines. Where deadlines cannot all be met, first minimises
//! the total shortfall in steps per second, then maximises steps per unit of money.

use super::{RawSolution, ensure_relative_gap, problem_of, target_gap};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::{Instance, Job};
use crate::max_total::{DeadlineSpeed, SoftDeadlines, TotalProblem, TotalSolution};
use crate::problem::Problem;
use crate::solution::{Certificate, Shortfall, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "cost",
    summary: "as many steps per money as can be, deadlines kept",
    when: "for the most progress per price, where GPU types have prices",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    entities: false,
    priced: true,
    solve,
};

/// Relative shortfall of speed up to which a deadline counts as met.
const DEADLINE_TOLERANCE: f64 = 1e-9;

/// Hourly cost of each type.
pub(crate) fn hourly_costs(instance: &Instance) -> Result<Vec<f64>, SolveError> {
    let missing = SolveError::MissingTable { field: "cost_per_hour", goal: DEF.name };
    instance.types.iter().map(|t| t.cost_per_hour).collect::<Option<Vec<f64>>>().ok_or(missing)
}

/// Speed that a job's deadline demands; a deadline in the past counts as one second away.
pub(crate) fn deadline_speed(job: &Job) -> Result<Option<f64>, SolveError> {
    let Some(left) = job.deadline_s else { return Ok(None) };
    let missing = SolveError::Missing { job: job.id, field: "num_steps_remaining", goal: DEF.name };
    Ok(Some(job.steps.ok_or(missing)? / left.max(1.0)).filter(|speed| *speed > 0.0))
}

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::cost(instance, &problem);
    }
    let costs = hourly_costs(instance)?;
    let value: Vec<f64> =
        problem.speed.chunks_exact(problem.k).flat_map(|row| per_cost(row, &costs)).collect();
    let needed: Vec<Option<f64>> = instance.jobs.iter().map(deadline_speed).collect::<Result<_, _>>()?;
    let (solved, certificate) = if needed.iter().all(Option::is_none) {
        let mut total = TotalProblem {
            problem: &problem,
            value: &value,
            deadlines: &[],
            soft: SoftDeadlines::Weighted(0.0),
        };
        (total.solve(None, target_gap(&problem)), Certificate::Prices)
    } else {
        with_deadlines(&problem, &value, &needed)?
    };
    ensure_relative_gap(solved.value, solved.bound)?;
    let shares = solved.shares;
    let shortfalls = shortfalls(&needed, |m| problem.throughput(m, &shares));
    let objective = shares.iter().zip(&value).map(|(x, v)| x * v).sum();
    let mut prices = solved.prices;
    prices.truncate(problem.k);
    let binding = shortfalls.iter().map(|shortfall| shortfall.job).collect();
    let answer =
        RawSolution { objective, shares, prices, binding, certificate }.into_solution(instance, &problem);
    Ok(Solution { shortfalls, ..answer })
}

fn per_cost<'a>(row: &'a [f64], costs: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    row.iter().zip(costs).map(|(t, c)| t / c)
}

/// Lexicographic optimum: total deadline speed first, then value.
fn with_deadlines(
    problem: &Problem,
    value: &[f64],
    needed: &[Option<f64>],
) -> Result<(TotalSolution, Certificate), SolveError> {
    let counts: Vec<DeadlineSpeed> =
        needed.iter().map(|need| need.map_or(DeadlineSpeed::None, DeadlineSpeed::Counted)).collect();
    let nothing = vec![0.0; value.len()];
    let mut keeping =
        TotalProblem { problem, value: &nothing, deadlines: &counts, soft: SoftDeadlines::Weighted(1.0) };
    let kept = keeping.solve(None, target_gap(problem));
    ensure_relative_gap(kept.value, kept.bound)?;
    let all: f64 = needed.iter().flatten().sum();
    let missed = |m: usize| {
        needed[m].is_some_and(|n| problem.throughput(m, &kept.shares) < n * (1.0 - DEADLINE_TOLERANCE))
    };
    // All deadlines can be met: they become hard constraints.
    if kept.value >= all * (1.0 - DEADLINE_TOLERANCE) && !(0..problem.n).any(missed) {
        let must: Vec<DeadlineSpeed> =
            needed.iter().map(|need| need.map_or(DeadlineSpeed::None, DeadlineSpeed::Required)).collect();
        let mut total = TotalProblem { problem, value, deadlines: &must, soft: SoftDeadlines::Weighted(0.0) };
        return Ok((total.solve(Some(&kept.shares), target_gap(problem)), Certificate::Prices));
    }
    // Otherwise the total is held at its maximum while the value is maximised.
    let least = kept.value * (1.0 - DEADLINE_TOLERANCE);
    let mut total = TotalProblem { problem, value, deadlines: &counts, soft: SoftDeadlines::AtLeast(least) };
    let solved = total.solve(Some(&kept.shares), target_gap(problem));
    let certificate =
        Certificate::Deadlines { deadline_price: solved.prices[problem.k], prices: kept.prices };
    Ok((solved, certificate))
}

/// Deadlines that are not met.
pub(crate) fn shortfalls(needed: &[Option<f64>], speed: impl Fn(usize) -> f64) -> Vec<Shortfall> {
    let shortfall = |(m, need): (usize, &Option<f64>)| {
        let (needed, achieved) = ((*need)?, speed(m));
        (achieved < needed * (1.0 - 1e-6)).then_some(Shortfall { job: m, needed, achieved })
    };
    needed.iter().enumerate().filter_map(shortfall).collect()
}
