//! Leftover capacity: the optimum of a max-min goal may leave GPUs idle; they go to the job of lowest level that can
//! use them, then to the next, until no job can use any. The objective does not change.

use crate::problem::Problem;

/// Shares below this are rounding.
const NEGLIGIBLE: f64 = 1e-12;

/// Distributes idle capacity, jobs of lowest `level` at their speed first.
pub(crate) fn distribute_leftover(problem: &Problem, shares: &mut [f64], level: impl Fn(usize, f64) -> f64) {
    let k = problem.k;
    let mut free: Vec<f64> =
        problem.capacity.iter().zip(problem.usage(shares)).map(|(c, u)| (c - u).max(0.0)).collect();
    let idle = |free: &[f64]| free.iter().zip(&problem.capacity).any(|(f, c)| *f > 1e-9 * c.max(1.0));
    let mut passes = 0;
    // A job that moves to a faster type frees a slower one for the next pass; each pass moves capacity one type down
    // at most.
    while idle(&free) && passes <= k {
        let mut order: Vec<(f64, usize)> =
            (0..problem.n).map(|m| (level(m, problem.throughput(m, shares)), m)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut moved = false;
        for (_, m) in order {
            moved |= raise_job(problem, m, &mut shares[m * k..(m + 1) * k], &mut free);
            if !idle(&free) {
                break;
            }
        }
        if !moved {
            break;
        }
        passes += 1;
    }
    problem.trim(shares);
}

/// Gives job `m` all it can use of the free capacity, fastest type first. Once its time is used up, time on slower
/// types moves to the faster one.
fn raise_job(problem: &Problem, m: usize, row: &mut [f64], free: &mut [f64]) -> bool {
    let (speed, gpus) = (problem.row(m), problem.gpus[m]);
    let mut spare = (1.0 - row.iter().sum::<f64>()).max(0.0);
    let mut moved = false;
    let mut tried = vec![false; row.len()];
    while let Some(j) = (0..row.len())
        .filter(|&j| !tried[j] && speed[j] > 0.0 && free[j] > NEGLIGIBLE * gpus)
        .max_by(|&a, &b| speed[a].total_cmp(&speed[b]))
    {
        tried[j] = true;
        let take = spare.min(free[j] / gpus);
        if take > NEGLIGIBLE {
            row[j] += take;
            spare -= take;
            free[j] = (free[j] - take * gpus).max(0.0);
            moved = true;
        }
        while let Some(i) = (0..row.len())
            .filter(|&i| row[i] > NEGLIGIBLE && speed[i] < speed[j] * (1.0 - 1e-9))
            .min_by(|&a, &b| speed[a].total_cmp(&speed[b]))
        {
            let take = row[i].min(free[j] / gpus);
            if take <= NEGLIGIBLE {
                break;
            }
            row[i] -= take;
            row[j] += take;
            free[i] += take * gpus;
            free[j] = (free[j] - take * gpus).max(0.0);
            moved = true;
        }
    }
    moved
}
