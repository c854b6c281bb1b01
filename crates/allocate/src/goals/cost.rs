//! Cost: as many steps per money as can be, deadlines kept; where they cannot all be, the least total shortfall in
//! steps a second first, and then as many steps per money as that leaves.

use super::{Found, aim, close_enough, laid_out};
use crate::answer::{Answer, Certificate, Shortfall};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::{Instance, Job};
use crate::problem::Problem;
use crate::total::{Due, Kept, Totalled, Totalling};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "cost",
    summary: "as many steps per money as can be, deadlines kept",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    solve,
};

/// Deadlines count as kept when their speeds are missed by no more than this part of them.
const KEPT: f64 = 1e-9;

/// What each type costs an hour.
pub(crate) fn costs(instance: &Instance) -> Result<Vec<f64>, SolveError> {
    let missing = SolveError::MissingTable { field: "cost_per_hour", goal: DEF.name };
    instance.types.iter().map(|t| t.cost_per_hour).collect::<Option<Vec<f64>>>().ok_or(missing)
}

/// The speed a job's deadline asks for; a deadline that has passed counts as one second away.
pub(crate) fn needed(job: &Job) -> Result<Option<f64>, SolveError> {
    let Some(left) = job.deadline_s else { return Ok(None) };
    let missing = SolveError::Missing { job: job.id, field: "num_steps_remaining", goal: DEF.name };
    Ok(Some(job.steps.ok_or(missing)? / left.max(1.0)).filter(|speed| *speed > 0.0))
}

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::cost(instance, &problem);
    }
    let costs = costs(instance)?;
    let value: Vec<f64> =
        problem.speed.chunks_exact(problem.k).flat_map(|row| divided(row, &costs)).collect();
    let needed: Vec<Option<f64>> = instance.jobs.iter().map(needed).collect::<Result<_, _>>()?;
    let (totalled, certificate) = if needed.iter().all(Option::is_none) {
        let mut totalling = Totalling { problem: &problem, value: &value, due: &[], kept: Kept::Worth(0.0) };
        (totalling.solve(None, aim(&problem)), Certificate::Prices)
    } else {
        with_deadlines(&problem, &value, &needed)?
    };
    close_enough(totalled.value, totalled.bound)?;
    let shares = totalled.shares;
    let shortfalls = shortfalls(&needed, |m| problem.throughput(m, &shares));
    let objective = shares.iter().zip(&value).map(|(x, v)| x * v).sum();
    let mut prices = totalled.prices;
    prices.truncate(problem.k);
    let binding = shortfalls.iter().map(|short| short.job).collect();
    let answer = Found { objective, shares, prices, binding, certificate }.answer(instance, &problem);
    Ok(Answer { shortfalls, ..answer })
}

fn divided<'a>(row: &'a [f64], costs: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    row.iter().zip(costs).map(|(t, c)| t / c)
}

/// Keeps the deadlines first: as much of them as can be kept, then the value.
fn with_deadlines(
    problem: &Problem,
    value: &[f64],
    needed: &[Option<f64>],
) -> Result<(Totalled, Certificate), SolveError> {
    let counts: Vec<Due> = needed.iter().map(|need| need.map_or(Due::Never, Due::Counts)).collect();
    let nothing = vec![0.0; value.len()];
    let mut keeping = Totalling { problem, value: &nothing, due: &counts, kept: Kept::Worth(1.0) };
    let kept = keeping.solve(None, aim(problem));
    close_enough(kept.value, kept.bound)?;
    let all: f64 = needed.iter().flatten().sum();
    let missed = |m: usize| needed[m].is_some_and(|n| problem.throughput(m, &kept.shares) < n * (1.0 - KEPT));
    if kept.value >= all * (1.0 - KEPT) && !(0..problem.n).any(missed) {
        let must: Vec<Due> = needed.iter().map(|need| need.map_or(Due::Never, Due::Must)).collect();
        let mut totalling = Totalling { problem, value, due: &must, kept: Kept::Worth(0.0) };
        return Ok((totalling.solve(Some(&kept.shares), aim(problem)), Certificate::Prices));
    }
    let least = kept.value * (1.0 - KEPT);
    let mut totalling = Totalling { problem, value, due: &counts, kept: Kept::AtLeast(least) };
    let totalled = totalling.solve(Some(&kept.shares), aim(problem));
    let certificate = Certificate::Deadlines { kept: totalled.prices[problem.k], prices: kept.prices };
    Ok((totalled, certificate))
}

/// Names every deadline that is not kept.
pub(crate) fn shortfalls(needed: &[Option<f64>], speed: impl Fn(usize) -> f64) -> Vec<Shortfall> {
    let short = |(m, need): (usize, &Option<f64>)| {
        let (needs, gets) = ((*need)?, speed(m));
        (gets < needs * (1.0 - 1e-6)).then_some(Shortfall { job: m, needs, gets })
    };
    needed.iter().enumerate().filter_map(short).collect()
}
