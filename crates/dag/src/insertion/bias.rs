//! Machine bias: a term added to the finish time when machines are compared, for machines that suit the successors of
//! a task (foresight) and machines that waste no time on the task itself (thrift).

use crate::instance::Instance;
use crate::multiversion::multiversioned;
use crate::remaining_cost::RemainingCosts;

/// Machine bias: `foresight` times the remaining optimistic cost plus `thrift` times the task's own cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineBias<'a> {
    /// Remaining cost table; may be empty when foresight is 0.
    pub(crate) remaining: &'a RemainingCosts,
    /// Foresight and thrift, one pair per task or one for all. Thrift pays where machines are scarce: it accepts a
    /// wait for the machine that does the work quickly.
    pub(crate) weights: &'a [(f64, f64)],
}

impl MachineBias<'_> {
    /// Weights of the table entry and of the own cost. The entry includes the own cost, so foresight is subtracted
    /// from thrift.
    #[inline]
    fn linear_weights(&self, task: usize) -> (f64, f64) {
        let (foresight, thrift) = if self.weights.len() == 1 { self.weights[0] } else { self.weights[task] };
        (foresight, thrift - foresight)
    }

    /// Bias of one machine.
    #[inline]
    pub(super) fn at(&self, task: usize, machine: usize, cost: f64) -> f64 {
        let (remaining_weight, cost_weight) = self.linear_weights(task);
        let remaining =
            if remaining_weight == 0.0 { 0.0 } else { remaining_weight * self.remaining.at(task, machine) };
        remaining + cost_weight * cost
    }

    /// Fills a row with the bias of every machine.
    pub(super) fn fill_bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        self.fill(instance, task, 0.0, row);
    }

    /// Fills a row with cost plus bias of every machine.
    pub(super) fn fill_cost_and_bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        self.fill(instance, task, 1.0, row);
    }

    fn fill(&self, instance: &Instance, task: usize, base: f64, row: &mut [f64]) {
        let (remaining_weight, cost_weight) = self.linear_weights(task);
        let costs = instance.costs(task);
        if remaining_weight == 0.0 {
            weigh_costs(row, costs, base + cost_weight);
        } else {
            let (remaining, unit) = self.remaining.row(task);
            weigh_costs_and_remaining(row, costs, base + cost_weight, remaining, remaining_weight * unit);
        }
    }
}

multiversioned! {
    fn weigh_costs(row: &mut [f64], costs: &[f64], cost_weight: f64) = weigh_costs_scalar
}

#[inline(always)]
fn weigh_costs_scalar(row: &mut [f64], costs: &[f64], cost_weight: f64) {
    for (bias, cost) in row.iter_mut().zip(costs) {
        *bias = cost_weight * cost;
    }
}

multiversioned! {
    fn weigh_costs_and_remaining(row: &mut [f64], costs: &[f64], cost_weight: f64, remaining: &[f32], remaining_weight: f64) = weigh_costs_and_remaining_scalar
}

#[inline(always)]
fn weigh_costs_and_remaining_scalar(
    row: &mut [f64],
    costs: &[f64],
    cost_weight: f64,
    remaining: &[f32],
    remaining_weight: f64,
) {
    for (bias, (cost, remaining)) in row.iter_mut().zip(costs.iter().zip(remaining)) {
        *bias = remaining_weight * f64::from(*remaining) + cost_weight * cost;
    }
}
