//! Dimensionless features of tasks and instances, so that inference does not depend on the unit of time. Most lie
//! between 0 and 1.

use crate::insertion::CheapestMachines;
use crate::instance::Instance;

/// Features per task.
pub(super) const TASK_FEATURES: usize = 12;
/// Features per instance, shared by all its tasks.
pub(super) const INSTANCE_FEATURES: usize = 7;

/// Feature matrix: one row per task, and the features of the instance.
#[derive(Debug, Clone)]
pub(super) struct Features {
    pub(super) rows: Vec<[f32; TASK_FEATURES]>,
    pub(super) global: [f32; INSTANCE_FEATURES],
}

/// Saturating ratio `value / (value + measure)`: 0 at 0, 1/2 at `measure`, towards 1 beyond.
#[inline]
fn saturating_ratio(value: f64, measure: f64) -> f64 {
    value / (value + measure)
}

impl Features {
    pub(super) fn new(instance: &Instance, cheapest: &CheapestMachines, up: &[f64], down: &[f64]) -> Self {
        let (tasks, p) = (instance.tasks(), instance.machines());
        let (sums, machines, count) = (cheapest.sums(), p as f64, tasks.max(1) as f64);
        let longest = up.iter().zip(down).map(|(u, d)| u + d).fold(f64::MIN_POSITIVE, f64::max);
        let sum = sums.iter().sum::<f64>();
        let mean = (sum / count).max(f64::MIN_POSITIVE);
        let mut demand = vec![0.0f64; p];
        (0..tasks).for_each(|task| demand[cheapest.cheapest_machine(task).0] += 1.0 / count);
        let cost_spread =
            |task: usize| cheapest.cheapest_machine(task).1 * machines / sums[task].max(f64::MIN_POSITIVE);
        let transfer = |edges: &[(u32, f64)]| {
            let sum: f64 = edges.iter().map(|e| instance.mean_transfer(e.1)).sum();
            saturating_ratio(machines * sum / edges.len().max(1) as f64, mean)
        };
        let rows = (0..tasks).map(|task| {
            let (before, after) = (instance.predecessors(task), instance.successors(task));
            let heaviest = after.iter().map(|e| up[e.0 as usize]).fold(0.0, f64::max);
            let row = [
                1.0,
                up[task] / longest,
                down[task] / longest,
                (up[task] + down[task]) / longest,
                saturating_ratio(sums[task], mean),
                cost_spread(task),
                saturating_ratio(before.len() as f64, 3.0),
                saturating_ratio(after.len() as f64, 3.0),
                transfer(before),
                transfer(after),
                (up[task] - heaviest) / longest,
                saturating_ratio(demand[cheapest.cheapest_machine(task).0] * machines, 4.0),
            ];
            row.map(|value| value as f32)
        });
        let rows = rows.collect();
        let edges = instance.edge_count();
        let transfers: f64 = instance.edges().map(|e| machines * instance.mean_transfer(e.data)).sum();
        let global = [
            saturating_ratio(count / machines, 16.0),
            saturating_ratio(machines, 16.0),
            // Utilisation if only the critical path limited the schedule.
            saturating_ratio(sum / (machines * longest), 1.0),
            saturating_ratio(transfers / edges.max(1) as f64, mean),
            saturating_ratio(edges as f64 / count, 2.0),
            // Largest share of tasks with the same cheapest machine: 1 where machines differ by speed alone.
            demand.iter().copied().fold(0.0, f64::max),
            (0..tasks).map(cost_spread).sum::<f64>() / count,
        ];
        Self { rows, global: global.map(|value| value as f32) }
    }
}
