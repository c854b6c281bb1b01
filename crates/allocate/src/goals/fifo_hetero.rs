//! First in, first out on unlike types: jobs in the order of the instance, each on the fastest type that still has room
//! for it, until one finds none. Nobody overtakes.

use super::isolated::by_rule;
use super::laid_out;
use crate::answer::Answer;
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "fifo-hetero",
    summary: "first in, first out, each job on the fastest type that has room",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    sharing: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    let mut free = problem.capacity.clone();
    let mut shares = vec![0.0; problem.n * problem.k];
    for m in 0..problem.n {
        let speed = problem.row(m);
        let fastest = (0..problem.k)
            .filter(|&j| speed[j] > 0.0 && problem.gpus[m] <= free[j])
            .max_by(|&a, &b| speed[a].total_cmp(&speed[b]));
        let Some(j) = fastest else { break };
        free[j] -= problem.gpus[m];
        shares[m * problem.k + j] = 1.0;
    }
    Ok(by_rule(instance, &problem, shares))
}
