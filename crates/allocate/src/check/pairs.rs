//! Dual feasibility where jobs share GPUs: prices of types, of each job's time and of each job's speed, under which no
//! way to run, alone or in a pair, is worth more than it costs.

use std::collections::BTreeMap;

use crate::instance::{Instance, Job};
use crate::table::Profile;

/// Steps per second of two jobs that share a type, or `None` where they cannot; `visible` are the speeds that the goal
/// sees.
pub(super) fn pair_speeds(
    instance: &Instance,
    [one, other]: [&Job; 2],
    visible: [f64; 2],
    j: usize,
) -> Option<[f64; 2]> {
    let t = &instance.types[j];
    let wide = one.gpus == other.gpus && one.gpus <= t.count;
    if !wide || one.throughputs[j] <= 0.0 || other.throughputs[j] <= 0.0 {
        return None;
    }
    let profile = |job: &Job| Some(Profile { name: job.profile.clone()?, gpus: job.gpus });
    let [x, y] = instance.pairs.as_ref()?.paired(&t.name, &profile(one)?, &profile(other)?)?;
    Some([x * (visible[0] / one.throughputs[j]), y * (visible[1] / other.throughputs[j])])
}

/// Jobs that the dual cannot distinguish, with the dual prices of their time and speed.
struct JobClass<'a> {
    job: &'a Job,
    speeds: &'a [f64],
    many: bool,
    time: f64,
    worth: f64,
}

/// Least increase of each type's price that makes the duals feasible. `worth(m, j)` is the value of a step per second
/// of job m on type j.
pub(super) fn excess(
    instance: &Instance,
    speeds: &[Vec<f64>],
    prices: &[f64],
    time: &[f64],
    worth: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let types = instance.types.len();
    let mut excess = vec![0.0; types];
    for (j, excess) in excess.iter_mut().enumerate() {
        let mut classes: BTreeMap<(Option<&str>, Vec<u64>), JobClass<'_>> = BTreeMap::new();
        for (m, job) in instance.jobs.iter().enumerate().filter(|(m, _)| speeds[*m][j] > 0.0) {
            let numbers =
                [speeds[m][j], f64::from(job.gpus), time[m], worth(m, j)].map(f64::to_bits).to_vec();
            let first = JobClass { job, speeds: &speeds[m], many: false, time: time[m], worth: worth(m, j) };
            classes
                .entry((job.profile.as_deref(), numbers))
                .and_modify(|class| class.many = true)
                .or_insert(first);
        }
        let classes: Vec<JobClass<'_>> = classes.into_values().collect();
        for (i, one) in classes.iter().enumerate() {
            let gpus = f64::from(one.job.gpus);
            let mut raise = |gain: f64| *excess = f64::max(*excess, gain / gpus - prices[j]);
            raise(one.worth * one.speeds[j] - one.time);
            for other in &classes[if one.many { i } else { i + 1 }..] {
                if let Some([x, y]) =
                    pair_speeds(instance, [one.job, other.job], [one.speeds[j], other.speeds[j]], j)
                {
                    raise(one.worth * x + other.worth * y - one.time - other.time);
                }
            }
        }
    }
    excess
}
