//! What the network sees of a task: numbers without a unit, so that nothing depends on the scale of an instance.

use crate::instance::Instance;
use crate::rank::least;

/// Numbers per task.
pub(super) const COUNT: usize = 16;

/// One row per task.
#[derive(Debug, Clone)]
pub(super) struct Features {
    pub(super) rows: Vec<[f32; COUNT]>,
}

impl Features {
    pub(super) fn new(instance: &Instance, sums: &[f64], up: &[f64], down: &[f64]) -> Self {
        let (tasks, p) = (instance.tasks(), instance.machines());
        let machines = p as f64;
        let longest = up.iter().zip(down).map(|(u, d)| u + d).fold(f64::MIN_POSITIVE, f64::max);
        let mean = (sums.iter().sum::<f64>() / tasks.max(1) as f64).max(f64::MIN_POSITIVE);
        let edges = instance.edge_count().max(1) as f64;
        let transfers: f64 = instance.edges().map(|e| machines * instance.mean_transfer(e.data)).sum();
        // How the work would fill the machines if only the longest way kept them waiting.
        let fill = sums.iter().sum::<f64>() / (machines * longest);
        let whole = [
            (tasks as f64 / machines).ln() / 4.0,
            machines.ln() / 4.0,
            fill.max(1e-6).ln() / 2.0,
            (transfers / edges / mean).ln_1p(),
            (edges / tasks.max(1) as f64).ln_1p(),
        ];
        let rows = (0..tasks).map(|task| {
            let cost = sums[task].max(f64::MIN_POSITIVE);
            let (before, after) = (instance.predecessors(task), instance.successors(task));
            let transfer = |edges: &[(u32, f64)]| {
                let sum: f64 = edges.iter().map(|e| machines * instance.mean_transfer(e.1)).sum();
                (sum / edges.len().max(1) as f64 / mean).ln_1p()
            };
            let heaviest = after.iter().map(|e| up[e.0 as usize]).fold(0.0, f64::max);
            let row = [
                1.0,
                up[task] / longest,
                down[task] / longest,
                (up[task] + down[task]) / longest,
                (cost / mean).ln_1p(),
                least(instance.costs(task)) * machines / cost,
                (before.len() as f64).ln_1p() / 2.0,
                (after.len() as f64).ln_1p() / 2.0,
                transfer(before),
                transfer(after),
                (up[task] - heaviest) / longest,
                whole[0],
                whole[1],
                whole[2],
                whole[3],
                whole[4],
            ];
            row.map(|value| value as f32)
        });
        Self { rows: rows.collect() }
    }
}
