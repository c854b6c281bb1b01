//! Lower bounds on the makespan of an instance with heterogeneous machines.

use crate::instance::Instance;
use crate::rank::least;

/// Lower bounds on the makespan of an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Longest chain, each task on the machine that suits the chain best; a move between machines pays its transfer.
    pub critical_path: f64,
    /// Total work spread over all machines, each task where it is cheap and no machine above the mean load (Lagrangian
    /// bound).
    pub area: f64,
}

impl Bounds {
    /// Computes both bounds in a few passes over the costs.
    pub fn of(instance: &Instance) -> Self {
        Self { critical_path: critical_path(instance), area: area(instance) }
    }

    /// Larger of the two bounds.
    pub fn makespan(&self) -> f64 {
        self.critical_path.max(self.area)
    }
}

/// Earliest finish of every task on every machine, over all predecessors, ignoring contention: a predecessor ran on
/// the same machine, or on its best machine and sent its data over the fastest link.
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
            // The predecessor's earliest finish anywhere plus the fastest link bounds every arrival from another
            // machine.
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

/// Lagrangian relaxation in which tasks may be split over machines. Any machine weights that sum to one give a lower
/// bound: each task at its least weighted cost. Multiplicative updates raise the weight of machines above the mean
/// load, which tightens the bound.
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
    // The weights sum to one only up to rounding; a lower bound must not exceed the optimum because of it.
    best * (1.0 - 1e-12)
}
