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
            let mut ways = instance.successors(task).iter().map(|&(next, data)| {
                let next = next as usize;
                let elsewhere = least_left[next] + narrow(instance.mean_transfer(data) * per_unit);
                Way { here: &found.rows[next * p..(next + 1) * p], elsewhere }
            });
            row.fill(0.0);
            while let Some(first) = ways.next() {
                // Those of most tasks go in one pass; a way that is gone twice changes nothing.
                let several = [first; AT_ONCE].map(|first| ways.next().unwrap_or(first));
                follow(&mut row, first, several);
            }
            least_left[task] = add_costs(&mut row, instance.costs(task), per_unit);
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
    less(f32::MAX, value as f32)
}

/// The way through a successor: what is left when it runs on the same machine, and when it runs elsewhere.
#[derive(Clone, Copy)]
struct Way<'a> {
    here: &'a [f32],
    elsewhere: f32,
}

/// Beside one, so many ways are looked at in the same pass.
const AT_ONCE: usize = 3;

widened! {
    /// Raises each machine's entry of `row` to the longest of these ways.
    fn follow(row: &mut [f32], first: Way<'_>, several: [Way<'_>; AT_ONCE]) = follow_each
}

#[inline(always)]
fn follow_each(row: &mut [f32], first: Way<'_>, several: [Way<'_>; AT_ONCE]) {
    let [second, third, fourth] = several;
    let here = first.here.iter().zip(second.here).zip(third.here.iter().zip(fourth.here));
    for (row, ((a, b), (c, d))) in row.iter_mut().zip(here) {
        let of_two = more(less(*a, first.elsewhere), less(*b, second.elsewhere));
        let of_others = more(less(*c, third.elsewhere), less(*d, fourth.elsewhere));
        *row = more(*row, more(of_two, of_others));
    }
}

widened! {
    /// Adds each machine's cost to its entry of `row`, and gives the least of them.
    fn add_costs(row: &mut [f32], costs: &[f64], per_unit: f64) -> f32 = add_each
}

#[inline(always)]
fn add_each(row: &mut [f32], costs: &[f64], per_unit: f64) -> f32 {
    for (row, cost) in row.iter_mut().zip(costs) {
        *row = less(f32::MAX, *row + (cost * per_unit) as f32);
    }
    let mut least = [f32::INFINITY; 16];
    let (rows, rest) = row.as_chunks::<16>();
    for row in rows {
        least = std::array::from_fn(|i| less(least[i], row[i]));
    }
    least.iter().chain(rest).fold(f32::INFINITY, |a, b| less(a, *b))
}

#[inline(always)]
fn less(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

#[inline(always)]
fn more(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}
