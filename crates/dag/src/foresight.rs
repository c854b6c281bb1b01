//! What is left to do from each task on, by machine, if everything that follows could have the machine it likes best:
//! the optimistic cost table with the task's own cost added, in half the memory. For planners that lean on it; PEFT,
//! which is defined by the table itself, has the exact one in [`crate::optimistic_costs`].

use crate::insertion::prefetch;
use crate::instance::Instance;
use crate::wide::widened;

/// One row per task, one entry per machine, in units of about a mean cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foresight {
    rows: Vec<f32>,
    machines: usize,
    unit: f64,
}

impl Foresight {
    pub(crate) fn new(instance: &Instance) -> Self {
        let p = instance.machines();
        let mut found =
            Self { rows: vec![0.0; instance.tasks() * p], machines: p, unit: instance.mean_cost_about(1.0) };
        let per_unit = 1.0 / found.unit;
        let mut least_left = vec![0.0f32; instance.tasks()];
        let mut row = vec![0.0f32; p];
        let order = instance.topological_order();
        for (at, &task) in order.iter().enumerate().rev() {
            if let Some(&soon) = at.checked_sub(2).and_then(|at| order.get(at)) {
                for &(next, _) in instance.successors(soon as usize) {
                    prefetch(found.row(next as usize).0);
                }
            }
            let task = task as usize;
            row.fill(0.0);
            for &(next, data) in instance.successors(task) {
                let next = next as usize;
                let elsewhere = least_left[next] + narrow(instance.mean_transfer(data) * per_unit);
                follow(&mut row, &found.rows[next * p..(next + 1) * p], elsewhere);
            }
            add_costs(&mut row, instance.costs(task), per_unit);
            least_left[task] = row.iter().fold(f32::INFINITY, |a, b| if *b < a { *b } else { a });
            found.rows[task * p..(task + 1) * p].copy_from_slice(&row);
        }
        found
    }

    /// The entries of a task, and what one is worth.
    #[inline]
    pub(crate) fn row(&self, task: usize) -> (&[f32], f64) {
        (&self.rows[task * self.machines..(task + 1) * self.machines], self.unit)
    }

    /// What is left from `task` on when it runs on `machine`.
    #[inline]
    pub(crate) fn at(&self, task: usize, machine: usize) -> f64 {
        f64::from(self.rows[task * self.machines + machine]) * self.unit
    }
}

/// Sums of numbers that fit may not.
#[inline(always)]
fn narrow(value: f64) -> f32 {
    let value = value as f32;
    if value < f32::MAX { value } else { f32::MAX }
}

widened! {
    /// Raises each machine's entry of `row` to the way through a successor: run here, or elsewhere.
    fn follow(row: &mut [f32], left: &[f32], elsewhere: f32) = follow_each
}

#[inline(always)]
fn follow_each(row: &mut [f32], left: &[f32], elsewhere: f32) {
    for (row, left) in row.iter_mut().zip(left) {
        let way = if *left < elsewhere { *left } else { elsewhere };
        *row = if *row > way { *row } else { way };
    }
}

widened! {
    fn add_costs(row: &mut [f32], costs: &[f64], per_unit: f64) = add_each
}

#[inline(always)]
fn add_each(row: &mut [f32], costs: &[f64], per_unit: f64) {
    for (row, cost) in row.iter_mut().zip(costs) {
        *row = narrow(f64::from(*row) + cost * per_unit);
    }
}
