//! A leaning in the choice of machine, beside the earliest finish: towards machines that suit what follows, and
//! towards machines that waste no time on a task.

use crate::foresight::Foresight;
use crate::instance::Instance;
use crate::wide::widened;

/// Added to a task's finish when machines are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lean<'a> {
    /// May be empty when its share is 0.
    pub(crate) table: &'a Foresight,
    /// How much the optimistic cost of what follows counts, and how much the task's own cost counts once more: where
    /// machines are scarce, work done on the machine that does it quickly is worth a wait. One pair per task, or one
    /// for all.
    pub(crate) shares: &'a [(f64, f64)],
}

impl Lean<'_> {
    /// The shares of what is left, the task included, and of its own cost.
    #[inline]
    fn share(&self, task: usize) -> (f64, f64) {
        let (foresight, thrift) = if self.shares.len() == 1 { self.shares[0] } else { self.shares[task] };
        (foresight, thrift - foresight)
    }

    #[inline]
    pub(super) fn at(&self, task: usize, machine: usize, cost: f64) -> f64 {
        let (of_left, of_cost) = self.share(task);
        let left = if of_left == 0.0 { 0.0 } else { of_left * self.table.at(task, machine) };
        left + of_cost * cost
    }

    /// Fills a row with the bias of every machine.
    pub(super) fn bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        self.fill(instance, task, 0.0, row);
    }

    /// Fills a row with the bias of every machine and the cost there.
    pub(super) fn cost_and_bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        self.fill(instance, task, 1.0, row);
    }

    fn fill(&self, instance: &Instance, task: usize, costs_once: f64, row: &mut [f64]) {
        let (of_left, of_cost) = self.share(task);
        let costs = instance.costs(task);
        if of_left == 0.0 {
            weigh(row, costs, costs_once + of_cost);
        } else {
            let (left, unit) = self.table.row(task);
            weigh_both(row, costs, costs_once + of_cost, left, of_left * unit);
        }
    }
}

widened! {
    fn weigh(row: &mut [f64], costs: &[f64], of_cost: f64) = weigh_each
}

#[inline(always)]
fn weigh_each(row: &mut [f64], costs: &[f64], of_cost: f64) {
    for (bias, cost) in row.iter_mut().zip(costs) {
        *bias = of_cost * cost;
    }
}

widened! {
    fn weigh_both(row: &mut [f64], costs: &[f64], of_cost: f64, left: &[f32], of_left: f64) = weigh_each_of_both
}

#[inline(always)]
fn weigh_each_of_both(row: &mut [f64], costs: &[f64], of_cost: f64, left: &[f32], of_left: f64) {
    for (bias, (cost, left)) in row.iter_mut().zip(costs.iter().zip(left)) {
        *bias = of_left * f64::from(*left) + of_cost * cost;
    }
}
