//! Finish-time fairness: minimises the largest ratio of a job's finish time to its finish time alone on 1/n of the
//! cluster.

use super::isolated::isolated_shares;
use super::{RawSolution, ensure_relative_gap, problem_of, remaining_steps, target_gap};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::leftover::distribute_leftover;
use crate::max_level::{LevelStart, SpeedTarget, maximise_level};
use crate::problem::Problem;
use crate::solution::{Certificate, Solution};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "finish-time",
    summary: "the largest ratio of finish time to finish time alone is as small as it can be",
    when: "for no job to take much longer than with a fixed share of its own",
    source: "Themis (Mahajan et al., NSDI 2020), made type-aware by Gavel (OSDI 2020), section 4.2",
    sense: Sense::Min,
    entities: false,
    priced: false,
    solve,
};

/// Terms of the finish-time ratio of every job; a job without remaining steps demands nothing.
pub(crate) struct FinishTimes {
    pub(crate) steps: Vec<f64>,
    pub(crate) age: Vec<f64>,
    /// Finish time alone.
    pub(crate) alone: Vec<f64>,
}

impl FinishTimes {
    pub(crate) fn new(
        instance: &Instance,
        problem: &Problem,
        shares_alone: &[f64],
    ) -> Result<Self, SolveError> {
        let steps = remaining_steps(instance, DEF.name)?;
        let speed = |m| problem.throughput(m, shares_alone);
        let alone =
            instance.jobs.iter().enumerate().map(|(m, job)| job.isolated_time_s + steps[m] / speed(m));
        Ok(Self { alone: alone.collect(), age: instance.jobs.iter().map(|job| job.age_s).collect(), steps })
    }

    pub(crate) fn has_steps_left(&self, m: usize) -> bool {
        self.steps[m] > 0.0
    }

    /// Ratio of a job at this speed.
    pub(crate) fn ratio(&self, m: usize, speed: f64) -> f64 {
        (self.age[m] + self.steps[m] / speed) / self.alone[m]
    }
}

/// θ is the negated ratio ρ, so that it is maximised; the target S/(ρD − t) is convex in it.
impl SpeedTarget for FinishTimes {
    fn at(&self, m: usize, theta: f64) -> (f64, f64) {
        if !self.has_steps_left(m) {
            return (0.0, 0.0);
        }
        let left = -theta * self.alone[m] - self.age[m];
        (self.steps[m] / left, self.steps[m] * self.alone[m] / (left * left))
    }
}

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    let problem = problem_of(instance, options.types);
    if options.sharing {
        return crate::sharing::finish_time(instance, &problem);
    }
    let mut seed = isolated_shares(&problem);
    let finish = FinishTimes::new(instance, &problem, &seed)?;
    // Half the isolated shares are the start: feasible with room to spare.
    seed.iter_mut().for_each(|share| *share *= 0.5);
    let worst = |x: &[f64]| {
        let waiting = (0..problem.n).filter(|&m| finish.has_steps_left(m));
        waiting.map(|m| finish.ratio(m, problem.throughput(m, x))).fold(0.0, f64::max)
    };
    let unreachable = (0..problem.n).filter(|&m| finish.has_steps_left(m));
    let lowest = unreachable.map(|m| finish.ratio(m, problem.fastest[m])).fold(0.0, f64::max);
    let from = LevelStart { theta: -worst(&seed), shares: Some(&seed), hints: Vec::new() };
    let solved = maximise_level(&problem, &finish, from, -lowest, target_gap(&problem), |_, _| false);
    ensure_relative_gap(worst(&solved.shares), -solved.bound)?;
    let mut shares = solved.shares;
    distribute_leftover(&problem, &mut shares, |m, speed| {
        if finish.has_steps_left(m) { -finish.ratio(m, speed) } else { f64::INFINITY }
    });
    let objective = worst(&shares);
    // Where no type is scarce, the jobs at their top speed bind.
    let free = solved.prices.iter().all(|price| *price == 0.0);
    let binds = |m: &usize| {
        let speed = if free { problem.fastest[*m] } else { problem.throughput(*m, &shares) };
        let ratio = finish.ratio(*m, speed);
        finish.has_steps_left(*m) && ratio >= objective * (1.0 - 1e-9)
    };
    let binding = (0..problem.n).filter(binds).collect();
    let found =
        RawSolution { objective, shares, prices: solved.prices, binding, certificate: Certificate::Prices };
    Ok(found.into_solution(instance, &problem))
}
