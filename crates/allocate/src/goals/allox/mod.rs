//! Least average completion: jobs are matched to places in queues, one queue per GPU. A job k places before its queue's
//! end delays k completions, its own among them, by its length there; the cheapest matching is the best schedule. Who
//! is first in a queue runs now. Exact for jobs of one GPU; wider ones are matched alike and run where they fit, and then
//! the matching is a bound.
//!
//! With sharing, whoever waits, the next in line first, joins one of those that run, on each type the one it gets on best
//! with, where that lowers the average. That is a rule: nothing proves that no other pairs would lower it more.

mod matching;
mod queue;

use super::isolated::by_rule_with_pairs;
use super::{bottleneck, laid_out, steps};
use crate::answer::{Answer, Certificate, PairShare, Places};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use matching::{Matched, Matching};
use queue::{Line, Unit, join};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "allox",
    summary: "least average completion time, by matching jobs to places in queues; with sharing, those that wait join others",
    source: "AlloX (Le et al., EuroSys 2020)",
    sense: Sense::Min,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    if options.sharing && instance.pairs.is_none() {
        return Err(SolveError::NoPairs);
    }
    let problem = laid_out(instance, options.types);
    let steps = steps(instance, DEF.name)?;
    let matched = Matching::new(&problem, &steps).solve();
    let mut lines: Vec<Line> = (0..problem.k).map(|j| line(&problem, &steps, &matched, j)).collect();
    let n = problem.n as f64;
    let (mut prices, mut proof) = (vec![0.0; problem.k], None);
    if options.sharing {
        join(instance, &problem, &steps, &mut lines);
    } else {
        // One GPU more of a type is one place more of each kind; what it is to jobs that need several nobody can say.
        if problem.gpus.iter().all(|gpus| *gpus == 1.0) {
            prices = matched.places.iter().map(|places| places.iter().sum::<f64>().abs() / n).collect();
        }
        proof = Some(Places { worth: matched.worth, prices: matched.places });
    }
    let objective = lines.iter().map(Line::total).sum::<f64>() / n;
    let (shares, pairs) = running(&problem, &lines);
    let turns = lines.iter().enumerate().flat_map(|(j, line)| line.turns(j)).collect();
    Ok(Answer {
        objective,
        bottleneck: bottleneck(Vec::new(), &prices, objective),
        prices,
        certificate: Certificate::Queues { turns, proof },
        ..by_rule_with_pairs(instance, &problem, shares, pairs)
    })
}

/// A type's jobs: the furthest from the end comes first; the shorter of two as far.
fn line(problem: &Problem, steps: &[f64], matched: &Matched, j: usize) -> Line {
    let length = |m: usize| steps[m] / problem.row(m)[j];
    let mut jobs: Vec<(usize, usize)> =
        (0..problem.n).filter(|&m| matched.of[m].0 == j).map(|m| (matched.of[m].1, m)).collect();
    jobs.sort_by(|a, b| b.0.cmp(&a.0).then(length(a.1).total_cmp(&length(b.1))).then(a.1.cmp(&b.1)));
    let units = jobs.into_iter().map(|(_, m)| Unit::alone(m, problem.gpus[m], length(m))).collect();
    Line { units, gpus: problem.capacity[j] }
}

/// The shares of those that run now.
fn running(problem: &Problem, lines: &[Line]) -> (Vec<f64>, Vec<PairShare>) {
    let (mut shares, mut pairs) = (vec![0.0; problem.n * problem.k], Vec::new());
    for (j, line) in lines.iter().enumerate() {
        for unit in line.running() {
            match unit.with {
                None => shares[unit.job * problem.k + j] = 1.0,
                Some(other) => {
                    let jobs = [unit.job.min(other), unit.job.max(other)];
                    let only = (0..problem.k).map(|i| f64::from(u8::from(i == j))).collect();
                    pairs.push(PairShare { jobs, shares: only });
                }
            }
        }
    }
    (shares, pairs)
}
