//! What the network sees: numbers without a unit, so that nothing depends on the scale of an instance. Most lie
//! between 0 and 1.

use crate::insertion::Cheapest;
use crate::instance::Instance;

/// Numbers per task.
pub(super) const OF_TASK: usize = 12;
/// Numbers per instance, the same for all its tasks.
pub(super) const OF_WHOLE: usize = 7;

/// One row per task, and what all tasks share.
#[derive(Debug, Clone)]
pub(super) struct Features {
    pub(super) rows: Vec<[f32; OF_TASK]>,
    pub(super) whole: [f32; OF_WHOLE],
}

/// From 0 towards 1; half way where a number equals its measure.
#[inline]
fn part(value: f64, measure: f64) -> f64 {
    value / (value + measure)
}

impl Features {
    pub(super) fn new(instance: &Instance, cheapest: &Cheapest, up: &[f64], down: &[f64]) -> Self {
        let (tasks, p) = (instance.tasks(), instance.machines());
        let (sums, machines, count) = (cheapest.sums(), p as f64, tasks.max(1) as f64);
        let longest = up.iter().zip(down).map(|(u, d)| u + d).fold(f64::MIN_POSITIVE, f64::max);
        let sum = sums.iter().sum::<f64>();
        let mean = (sum / count).max(f64::MIN_POSITIVE);
        let mut sought = vec![0.0f64; p];
        (0..tasks).for_each(|task| sought[cheapest.first(task).0] += 1.0 / count);
        let spread = |task: usize| cheapest.first(task).1 * machines / sums[task].max(f64::MIN_POSITIVE);
        let transfer = |edges: &[(u32, f64)]| {
            let sum: f64 = edges.iter().map(|e| instance.mean_transfer(e.1)).sum();
            part(machines * sum / edges.len().max(1) as f64, mean)
        };
        let rows = (0..tasks).map(|task| {
            let (before, after) = (instance.predecessors(task), instance.successors(task));
            let heaviest = after.iter().map(|e| up[e.0 as usize]).fold(0.0, f64::max);
            let row = [
                1.0,
                up[task] / longest,
                down[task] / longest,
                (up[task] + down[task]) / longest,
                part(sums[task], mean),
                spread(task),
                part(before.len() as f64, 3.0),
                part(after.len() as f64, 3.0),
                transfer(before),
                transfer(after),
                (up[task] - heaviest) / longest,
                part(sought[cheapest.first(task).0] * machines, 4.0),
            ];
            row.map(|value| value as f32)
        });
        let rows = rows.collect();
        let edges = instance.edge_count();
        let transfers: f64 = instance.edges().map(|e| machines * instance.mean_transfer(e.data)).sum();
        let whole = [
            part(count / machines, 16.0),
            part(machines, 16.0),
            // How the work would fill the machines if only the longest way kept them waiting.
            part(sum / (machines * longest), 1.0),
            part(transfers / edges.max(1) as f64, mean),
            part(edges as f64 / count, 2.0),
            // Whether all tasks want the same machine: so it is where machines differ by speed alone.
            sought.iter().copied().fold(0.0, f64::max),
            (0..tasks).map(spread).sum::<f64>() / count,
        ];
        Self { rows, whole: whole.map(|value| value as f32) }
    }
}
