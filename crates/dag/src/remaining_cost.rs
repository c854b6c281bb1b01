//! Remaining cost table: for each task and machine, the optimistic cost of the task and its successors, in `f32`. It
//! is the optimistic cost table plus the task's own cost, in half the memory, for planners that use it as a bias;
//! PEFT, which is defined by the exact table, uses [`crate::optimistic_costs`].

use crate::insertion::prefetch;
use crate::instance::Instance;
use crate::multiversion::multiversioned;

/// Optimistic remaining costs: one row per task, one entry per machine, in units of about a mean cost so that `f32`
/// keeps its precision on any scale.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemainingCosts {
    rows: Vec<f32>,
    machines: usize,
    unit: f64,
}

impl RemainingCosts {
    pub(crate) fn new(instance: &Instance) -> Self {
        let p = instance.machines();
        let mut found =
            Self { rows: vec![0.0; instance.tasks() * p], machines: p, unit: instance.mean_cost_about(1.0) };
        let per_unit = 1.0 / found.unit;
        let mut least_remaining = vec![0.0f32; instance.tasks()];
        let mut row = vec![0.0f32; p];
        let order = instance.topological_order();
        for (at, &task) in order.iter().enumerate().rev() {
            // Rows are far apart in memory: those of the task after next are prefetched now.
            if let Some(&soon) = at.checked_sub(2).and_then(|at| order.get(at)) {
                for &(next, _) in instance.successors(soon as usize) {
                    prefetch(found.row(next as usize).0);
                }
            }
            let task = task as usize;
            let mut paths = instance.successors(task).iter().map(|&(next, data)| {
                let next = next as usize;
                let elsewhere = least_remaining[next] + saturate(instance.mean_transfer(data) * per_unit);
                SuccessorPath { here: &found.rows[next * p..(next + 1) * p], elsewhere }
            });
            row.fill(0.0);
            while let Some(first) = paths.next() {
                // Most tasks have at most four successors: one pass over the row. Missing paths repeat the first,
                // which changes no maximum.
                let others = [first; MORE_PATHS].map(|first| paths.next().unwrap_or(first));
                raise_by_successors(&mut row, first, others);
            }
            least_remaining[task] = add_costs(&mut row, instance.costs(task), per_unit);
            found.rows[task * p..(task + 1) * p].copy_from_slice(&row);
        }
        found
    }

    /// Row of a task, and the unit its entries are counted in.
    #[inline]
    pub(crate) fn row(&self, task: usize) -> (&[f32], f64) {
        (&self.rows[task * self.machines..(task + 1) * self.machines], self.unit)
    }

    /// Remaining cost from `task` on, `task` included, when it runs on `machine`.
    #[inline]
    pub(crate) fn at(&self, task: usize, machine: usize) -> f64 {
        f64::from(self.rows[task * self.machines + machine]) * self.unit
    }
}

/// Converts to `f32`; sums beyond its range become its maximum instead of infinity.
#[inline(always)]
fn saturate(value: f64) -> f32 {
    min(f32::MAX, value as f32)
}

/// Path through one successor: remaining cost per machine when it stays on the same machine, and when it moves
/// elsewhere.
#[derive(Clone, Copy)]
struct SuccessorPath<'a> {
    here: &'a [f32],
    elsewhere: f32,
}

/// Paths folded into a row in the same pass as the first.
const MORE_PATHS: usize = 3;

multiversioned! {
    /// Raises each machine's entry of `row` to the longest of these paths.
    fn raise_by_successors(row: &mut [f32], first: SuccessorPath<'_>, others: [SuccessorPath<'_>; MORE_PATHS]) = raise_by_successors_scalar
}

#[inline(always)]
fn raise_by_successors_scalar(
    row: &mut [f32],
    first: SuccessorPath<'_>,
    others: [SuccessorPath<'_>; MORE_PATHS],
) {
    let [second, third, fourth] = others;
    let here = first.here.iter().zip(second.here).zip(third.here.iter().zip(fourth.here));
    for (row, ((a, b), (c, d))) in row.iter_mut().zip(here) {
        let of_two = max(min(*a, first.elsewhere), min(*b, second.elsewhere));
        let of_others = max(min(*c, third.elsewhere), min(*d, fourth.elsewhere));
        *row = max(*row, max(of_two, of_others));
    }
}

multiversioned! {
    /// Adds each machine's own cost to its entry of `row` and returns the least sum.
    fn add_costs(row: &mut [f32], costs: &[f64], per_unit: f64) -> f32 = add_costs_scalar
}

#[inline(always)]
fn add_costs_scalar(row: &mut [f32], costs: &[f64], per_unit: f64) -> f32 {
    for (row, cost) in row.iter_mut().zip(costs) {
        *row = min(f32::MAX, *row + (cost * per_unit) as f32);
    }
    let mut least = [f32::INFINITY; 16];
    let (rows, rest) = row.as_chunks::<16>();
    for row in rows {
        least = std::array::from_fn(|i| min(least[i], row[i]));
    }
    least.iter().chain(rest).fold(f32::INFINITY, |a, b| min(a, *b))
}

#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}
