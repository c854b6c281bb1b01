//! Throughput: as many steps a second as can be, whoever's they are.

use super::{Found, aim, close_enough, laid_out};
use crate::answer::{Answer, Certificate};
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::rest::give_out;
use crate::total::{Kept, Totalling};

pub(crate) const DEF: GoalDef = GoalDef {
    name: "throughput",
    summary: "as many steps a second in total as can be",
    source: "Gavel (Narayanan et al., OSDI 2020), section 4.2",
    sense: Sense::Max,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    if options.sharing {
        return crate::sharing::throughput(instance, &problem);
    }
    let mut totalled =
        Totalling { problem: &problem, value: &problem.speed, due: &[], kept: Kept::Worth(0.0) }
            .solve(None, aim(&problem));
    close_enough(totalled.value, totalled.bound)?;
    give_out(&problem, &mut totalled.shares, |m, speed| speed * problem.level_per_step(m));
    let objective = (0..problem.n).map(|m| problem.throughput(m, &totalled.shares)).sum();
    let found = Found {
        objective,
        shares: totalled.shares,
        prices: totalled.prices,
        binding: Vec::new(),
        certificate: Certificate::Prices,
    };
    Ok(found.answer(instance, &problem))
}
