//! What prices prove where jobs share GPUs: a price for every type, for every job's time and for every job's speed; no
//! way to run, alone or in a pair, may be worth more than it costs.

use std::collections::BTreeMap;

use crate::instance::{Instance, Job};
use crate::table::Profile;

/// Steps a second of two jobs that share a type, or `None` where they cannot; `seen` is what the goal takes each one's
/// speed there to be.
pub(super) fn together(
    instance: &Instance,
    [one, other]: [&Job; 2],
    seen: [f64; 2],
    j: usize,
) -> Option<[f64; 2]> {
    let t = &instance.types[j];
    let wide = one.gpus == other.gpus && one.gpus <= t.count;
    if !wide || one.throughputs[j] <= 0.0 || other.throughputs[j] <= 0.0 {
        return None;
    }
    let profile = |job: &Job| Some(Profile { name: job.profile.clone()?, gpus: job.gpus });
    let [x, y] = instance.pairs.as_ref()?.together(&t.name, &profile(one)?, &profile(other)?)?;
    Some([x * (seen[0] / one.throughputs[j]), y * (seen[1] / other.throughputs[j])])
}

/// Jobs of which the dual cannot tell one from another, and what their time and a step a second are worth.
struct Alike<'a> {
    job: &'a Job,
    speeds: &'a [f64],
    many: bool,
    time: f64,
    worth: f64,
}

/// By how much each type's price must rise so that no way to run is worth more than it costs. `worth(m, j)` is what a
/// step a second of job m on type j is worth.
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
        let mut alike: BTreeMap<(Option<&str>, Vec<u64>), Alike<'_>> = BTreeMap::new();
        for (m, job) in instance.jobs.iter().enumerate().filter(|(m, _)| speeds[*m][j] > 0.0) {
            let numbers =
                [speeds[m][j], f64::from(job.gpus), time[m], worth(m, j)].map(f64::to_bits).to_vec();
            let first = Alike { job, speeds: &speeds[m], many: false, time: time[m], worth: worth(m, j) };
            alike
                .entry((job.profile.as_deref(), numbers))
                .and_modify(|alike| alike.many = true)
                .or_insert(first);
        }
        let alike: Vec<Alike<'_>> = alike.into_values().collect();
        for (i, one) in alike.iter().enumerate() {
            let gpus = f64::from(one.job.gpus);
            let mut offer = |gain: f64| *excess = f64::max(*excess, gain / gpus - prices[j]);
            offer(one.worth * one.speeds[j] - one.time);
            for other in &alike[if one.many { i } else { i + 1 }..] {
                if let Some([x, y]) =
                    together(instance, [one.job, other.job], [one.speeds[j], other.speeds[j]], j)
                {
                    offer(one.worth * x + other.worth * y - one.time - other.time);
                }
            }
        }
    }
    excess
}
