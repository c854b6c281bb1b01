//! Strategy-proof allocation with GPU sharing: maximises the product of speeds, then discounts each job by the harm it
//! does to the others.
//!
//! A job's final speed is the product of all speeds over a number it does not influence, as without sharing. Where two
//! partners keep different fractions, the one that keeps more continues alone for as long as it takes to reach its
//! speed. How long that is depends on its speed alone: its own statement, or the pair table where that has it faster.
//! So overstating gains nothing, and neither does understating what the table knows.

use super::PairSpeeds;
use super::nash::{Agreed, agree, bound};
use super::program::{Duals, Way, Ways};
use super::spread::Spread;
use crate::goal::SolveError;
use crate::goals::bottleneck;
use crate::goals::strategy_proof::ensure_absolute_gap;
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solution::{Certificate, Solution};

/// Absolute gap in Σ log speed that is aimed at.
const GAP: f64 = 1e-7;
/// What Σ log speed may lose by fewer pairs.
const AS_GOOD: f64 = 1e-8;
/// Ways that cost more than this many times what they are worth are not looked at first.
const DEAR: f64 = 1.2;
/// There is a program to solve for every kind of jobs, each with rows for every kind: with this many all of them take half
/// a minute.
const MOST_KINDS: usize = 200;

pub(crate) fn strategy_proof(instance: &Instance, problem: &Problem) -> Result<Solution, SolveError> {
    let ways = Ways::new(instance, problem, |_| 0.0)?;
    let kinds = ways.classes.len();
    if kinds > MOST_KINDS {
        return Err(SolveError::TooManyKinds { goal: "strategy-proof", kinds, most: MOST_KINDS });
    }
    let jobs: Vec<f64> = ways.classes.iter().map(|class| class.jobs.len() as f64).collect();
    let all = agree(&ways, &jobs, GAP)?;
    let sum = |times: &[f64]| -> f64 {
        ways.speeds(times).iter().zip(&jobs).map(|(speed, jobs)| jobs * speed.ln()).sum()
    };
    // From inside, everyone has a little of everything; a corner at which all are as fast has few pairs.
    let corner = ways.scale(&ways.speeds(&all.times)).ok().map(|scaled| scaled.solution);
    let corner = corner.filter(|times| sum(times) >= all.value - AS_GOOD);
    let times = corner.unwrap_or(all.times);
    let (speeds, value) = (ways.speeds(&times), sum(&times));
    ensure_absolute_gap(value, all.bound)?;
    let few = promising(&ways, &all.duals);
    let mut discounts = vec![1.0; problem.n];
    for (c, class) in ways.classes.iter().enumerate() {
        let here = value - speeds[c].ln();
        let mut others = jobs.clone();
        others[c] -= 1.0;
        // What the others have now is feasible without this job too.
        let part = (here - most(&ways, &few, &others)?).min(0.0).exp();
        class.jobs.iter().for_each(|&m| discounts[m] = part);
    }
    let constant: f64 = (0..problem.n).map(|m| (problem.level_per_step(m) / problem.weight[m]).ln()).sum();
    let before = Spread::new(&ways, &times, problem);
    let after = before.discounted(instance, &discounts);
    let (alone, pairs) = before.shares();
    let answer = after.answer(instance, problem, &ways, &all.duals, value + constant);
    let worth = ways.worth(&all.duals, problem.n);
    let certificate = Certificate::SharedDiscounts { discounts, alone, pairs, duals: worth };
    let bottleneck = bottleneck(Vec::new(), &answer.prices, answer.objective);
    Ok(Solution { certificate, bottleneck, ..answer })
}

/// The largest Σ log speed of these jobs. Few ways will do where all of them show at its prices that no other is of use.
fn most(ways: &Ways, few: &Ways, jobs: &[f64]) -> Result<f64, SolveError> {
    let proved = |found: &Agreed| ensure_absolute_gap(found.value, bound(ways, jobs, &found.duals)).is_ok();
    if let Some(found) = agree(few, jobs, GAP).ok().filter(proved) {
        return Ok(found.value);
    }
    let found = agree(ways, jobs, GAP)?;
    ensure_absolute_gap(found.value, found.bound)?;
    Ok(found.value)
}

/// Everyone alone, and the pairs that hardly cost more than they are worth: with one job less prices are little else.
fn promising(ways: &Ways, duals: &Duals) -> Ways {
    let promises = |way: &&Way| {
        let worth: f64 = way.members().map(|(class, speed)| duals.speed[class] * speed).sum();
        let time: f64 = way.members().map(|(class, _)| duals.time[class]).sum();
        let cost = time + ways.classes[way.classes[0]].gpus * duals.types[way.gpu_type];
        !way.pair || cost <= DEAR * worth
    };
    let few = ways.ways.iter().filter(promises).copied().collect();
    Ways { classes: ways.classes.clone(), ways: few, capacity: ways.capacity.clone() }
}

impl Spread {
    /// Every job's part of its speed.
    fn discounted(&self, instance: &Instance, parts: &[f64]) -> Self {
        let partners = PairSpeeds::new(instance);
        let (mut alone, types) = (self.alone.clone(), self.types);
        for (row, part) in alone.chunks_exact_mut(types).zip(parts) {
            row.iter_mut().for_each(|share| *share *= part);
        }
        let mut pairs = self.pairs.clone();
        for (&[a, b], row) in &mut pairs {
            let both = parts[a].min(parts[b]);
            let more = if parts[a] > parts[b] { 0 } else { 1 };
            let m = [a, b][more];
            for (j, share) in row.iter_mut().enumerate().filter(|(_, share)| **share > 0.0) {
                let speeds = partners.paired(&instance.jobs[a], &instance.jobs[b], j).unwrap_or_default();
                let by_itself = (speeds[more] / partners.alone(&instance.jobs[m], j)).min(1.0);
                alone[m * types + j] += (parts[m] - both) * *share * by_itself;
                *share *= both;
            }
        }
        Self { alone, pairs, types }
    }
}
