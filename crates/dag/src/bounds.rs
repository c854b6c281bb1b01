//! What no schedule can beat, knowing that machines are unlike.

use crate::instance::Instance;
use crate::rank::least;

/// Lower bounds on the makespan of an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The longest chain, each task where it fits the chain best, a move to another machine paying its transfer.
    pub critical_path: f64,
    /// All work spread over all machines, each task where it is cheap, no machine doing more than its share.
    pub area: f64,
}

impl Bounds {
    /// Computes both, in a few passes over the costs.
    pub fn of(instance: &Instance) -> Self {
        Self { critical_path: critical_path(instance), area: area(instance) }
    }

    /// The larger of the two.
    pub fn makespan(&self) -> f64 {
        self.critical_path.max(self.area)
    }
}

/// The earliest a task can end on each machine: after every predecessor, which ran here, or elsewhere and sent its
/// data over the fastest link there is.
fn critical_path(instance: &Instance) -> f64 {
    let p = instance.machines();
    let transfer = instance.least_transfer();
    let mut earliest = vec![0.0f64; instance.tasks() * p];
    let mut row = vec![0.0f64; p];
    let mut bound = 0.0f64;
    for &task in instance.topological_order() {
        let task = task as usize;
        let release = instance.release(task);
        for ((row, ready), cost) in
            row.iter_mut().zip(&earliest[task * p..(task + 1) * p]).zip(instance.costs(task))
        {
            *row = (if *ready > release { *ready } else { release }) + cost;
        }
        let soonest = least(&row);
        bound = bound.max(soonest);
        for &(next, data) in instance.successors(task) {
            let elsewhere = soonest + transfer(data);
            let into = &mut earliest[next as usize * p..(next as usize + 1) * p];
            for (into, here) in into.iter_mut().zip(&row) {
                let arrival = if *here < elsewhere { *here } else { elsewhere };
                *into = if *into > arrival { *into } else { arrival };
            }
        }
    }
    bound
}

/// The relaxation in which tasks may be cut and run anywhere at once. Any weights of the machines give a bound: the
/// work of each task at its cheapest weighted cost. The weights start equal and grow where the work gathers.
fn area(instance: &Instance) -> f64 {
    const ENTRIES_TO_READ: usize = 40_000_000;
    let p = instance.machines();
    let passes = (ENTRIES_TO_READ / instance.cost_matrix().len().max(1)).clamp(1, 60);
    let mut weight = vec![1.0 / p as f64; p];
    let mut load = vec![0.0f64; p];
    let mut best = 0.0f64;
    for pass in 0..passes {
        load.fill(0.0);
        let mut bound = 0.0;
        for row in instance.cost_matrix().chunks_exact(p) {
            let mut cheapest = (f64::INFINITY, 0);
            for (machine, (cost, weight)) in row.iter().zip(&weight).enumerate() {
                if cost * weight < cheapest.0 {
                    cheapest = (cost * weight, machine);
                }
            }
            bound += cheapest.0;
            load[cheapest.1] += row[cheapest.1];
        }
        best = best.max(bound);
        let mean = load.iter().sum::<f64>() / p as f64;
        if mean <= 0.0 {
            break;
        }
        let step = 0.5 / (1.0 + pass as f64);
        for (weight, load) in weight.iter_mut().zip(&load) {
            *weight *= (step * (load / mean - 1.0).clamp(-1.0, 1.0)).exp();
        }
        let sum: f64 = weight.iter().sum();
        weight.iter_mut().for_each(|w| *w /= sum);
    }
    // The weights add up to one only within rounding; the bound must not exceed the truth for it.
    best * (1.0 - 1e-12)
}
