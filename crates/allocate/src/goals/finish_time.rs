//! Finish-time fairness: nobody's finish, against what it would have been alone on a 1/n share, is later than it must.

use super::isolated::alone;
use super::{Found, aim, close_enough, laid_out, steps};
use crate::answer::{Answer, Certificate};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::rest::give_out;
use crate::rise::{From, Target, rise};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "finish-time",
    summary: "the largest ratio of finish time to finish time alone is as small as it can be",
    source: "Themis (Mahajan et al., NSDI 2020), made type-aware by Gavel (OSDI 2020), section 4.2",
    sense: Sense::Min,
    solve,
};

/// Jobs and what their ratios are made of; a job with nothing left asks for nothing.
pub(crate) struct Finish {
    pub(crate) steps: Vec<f64>,
    pub(crate) age: Vec<f64>,
    /// When the job would have ended alone.
    pub(crate) alone: Vec<f64>,
}

impl Finish {
    pub(crate) fn new(
        instance: &Instance,
        problem: &Problem,
        shares_alone: &[f64],
    ) -> Result<Self, SolveError> {
        let steps = steps(instance, DEF.name)?;
        let speed = |m| problem.throughput(m, shares_alone);
        let alone =
            instance.jobs.iter().enumerate().map(|(m, job)| job.isolated_time_s + steps[m] / speed(m));
        Ok(Self { alone: alone.collect(), age: instance.jobs.iter().map(|job| job.age_s).collect(), steps })
    }

    pub(crate) fn waits(&self, m: usize) -> bool {
        self.steps[m] > 0.0
    }

    /// The job's ratio at this speed.
    pub(crate) fn ratio(&self, m: usize, speed: f64) -> f64 {
        (self.age[m] + self.steps[m] / speed) / self.alone[m]
    }
}

/// θ is the ratio's negative, so that it rises; the target S/(ρD − t) is convex in it.
impl Target for Finish {
    fn at(&self, m: usize, theta: f64) -> (f64, f64) {
        if !self.waits(m) {
            return (0.0, 0.0);
        }
        let left = -theta * self.alone[m] - self.age[m];
        (self.steps[m] / left, self.steps[m] * self.alone[m] / (left * left))
    }
}

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::finish_time(instance, &problem);
    }
    let mut seed = alone(&problem);
    let finish = Finish::new(instance, &problem, &seed)?;
    // Half of that is where the rise starts: reached with room to spare.
    seed.iter_mut().for_each(|share| *share *= 0.5);
    let worst = |x: &[f64]| {
        let waiting = (0..problem.n).filter(|&m| finish.waits(m));
        waiting.map(|m| finish.ratio(m, problem.throughput(m, x))).fold(0.0, f64::max)
    };
    let unreachable = (0..problem.n).filter(|&m| finish.waits(m));
    let lowest = unreachable.map(|m| finish.ratio(m, problem.fastest[m])).fold(0.0, f64::max);
    let from = From { theta: -worst(&seed), shares: Some(&seed), hints: Vec::new() };
    let risen = rise(&problem, &finish, from, -lowest, aim(&problem), |_, _| false);
    close_enough(worst(&risen.shares), -risen.bound)?;
    let mut shares = risen.shares;
    give_out(
        &problem,
        &mut shares,
        |m, speed| if finish.waits(m) { -finish.ratio(m, speed) } else { f64::INFINITY },
    );
    let objective = worst(&shares);
    // Where no type is short of anything, those bind that go as fast as they can.
    let free = risen.prices.iter().all(|price| *price == 0.0);
    let binds = |m: &usize| {
        let speed = if free { problem.fastest[*m] } else { problem.throughput(*m, &shares) };
        let ratio = finish.ratio(*m, speed);
        finish.waits(*m) && ratio >= objective * (1.0 - 1e-9)
    };
    let binding = (0..problem.n).filter(binds).collect();
    let found = Found { objective, shares, prices: risen.prices, binding, certificate: Certificate::Prices };
    Ok(found.answer(instance, &problem))
}
