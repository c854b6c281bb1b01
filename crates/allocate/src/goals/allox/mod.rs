//! Least average completion time: jobs are assigned to positions in queues, one queue per GPU. A job k positions from
//! its queue's end delays k completions, its own included, by its length there, so the cheapest assignment is the best
//! schedule; the first in each queue runs now. Exact for jobs of one GPU; wider jobs are assigned alike and start when
//! they fit, and then the assignment is a bound.
//!
//! With sharing, each waiting job, the next to start first, joins a running one where that lowers the average, on each
//! type the one with the highest combined throughput. That is a heuristic without a certificate.

mod matching;
mod queue;

use super::isolated::rule_solution_with_pairs;
use super::{bottleneck, problem_of, remaining_steps};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solution::{Certificate, PairShare, QueueDuals, Solution};
use matching::{Assignment, AssignmentProblem};
use queue::{Queue, QueueEntry, colocate_waiting};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "allox",
    summary: "least average completion time, by matching jobs to places in queues; with sharing, those that wait join others",
    when: "for the shortest mean completion time of jobs that run on several GPU types",
    source: "AlloX (Le et al., EuroSys 2020)",
    sense: Sense::Min,
    entities: false,
    priced: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Solution, SolveError> {
    if options.sharing && instance.pairs.is_none() {
        return Err(SolveError::MissingPairs);
    }
    let problem = problem_of(instance, options.types);
    let steps = remaining_steps(instance, DEF.name)?;
    let assigned = AssignmentProblem::new(&problem, &steps).solve();
    let mut queues: Vec<Queue> =
        (0..problem.k).map(|j| build_queue(&problem, &steps, &assigned, j)).collect();
    let n = problem.n as f64;
    let (mut prices, mut proof) = (vec![0.0; problem.k], None);
    if options.sharing {
        colocate_waiting(instance, &problem, &steps, &mut queues);
    } else {
        // One more GPU of a type adds one position of each kind. For jobs of several GPUs that value is not defined.
        if problem.gpus.iter().all(|gpus| *gpus == 1.0) {
            prices =
                assigned.position_prices.iter().map(|prices| prices.iter().sum::<f64>().abs() / n).collect();
        }
        proof = Some(QueueDuals { jobs: assigned.job_duals, positions: assigned.position_prices });
    }
    let objective = queues.iter().map(Queue::total).sum::<f64>() / n;
    let (shares, pairs) = running(&problem, &queues);
    let runs = queues.iter().enumerate().flat_map(|(j, queue)| queue.runs(j)).collect();
    Ok(Solution {
        objective,
        bottleneck: bottleneck(Vec::new(), &prices, objective),
        prices,
        certificate: Certificate::Queues { runs, proof },
        ..rule_solution_with_pairs(instance, &problem, shares, pairs)
    })
}

/// Jobs of one type by position, the furthest from the end first; ties go to the shorter job.
fn build_queue(problem: &Problem, steps: &[f64], assigned: &Assignment, j: usize) -> Queue {
    let length = |m: usize| steps[m] / problem.row(m)[j];
    let mut jobs: Vec<(usize, usize)> = (0..problem.n)
        .filter(|&m| assigned.positions[m].0 == j)
        .map(|m| (assigned.positions[m].1, m))
        .collect();
    jobs.sort_by(|a, b| b.0.cmp(&a.0).then(length(a.1).total_cmp(&length(b.1))).then(a.1.cmp(&b.1)));
    let entries = jobs.into_iter().map(|(_, m)| QueueEntry::alone(m, problem.gpus[m], length(m))).collect();
    Queue { entries, gpus: problem.capacity[j] }
}

/// Shares of the jobs that run now.
fn running(problem: &Problem, queues: &[Queue]) -> (Vec<f64>, Vec<PairShare>) {
    let (mut shares, mut pairs) = (vec![0.0; problem.n * problem.k], Vec::new());
    for (j, queue) in queues.iter().enumerate() {
        for entry in queue.running() {
            match entry.partner {
                None => shares[entry.job * problem.k + j] = 1.0,
                Some(other) => {
                    let jobs = [entry.job.min(other), entry.job.max(other)];
                    let only = (0..problem.k).map(|i| f64::from(u8::from(i == j))).collect();
                    pairs.push(PairShare { jobs, shares: only });
                }
            }
        }
    }
    (shares, pairs)
}
