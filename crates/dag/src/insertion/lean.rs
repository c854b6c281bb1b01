//! A leaning in the choice of machine, beside the earliest finish: towards machines that suit what follows, and
//! towards machines that waste no time on a task.

use crate::instance::Instance;

/// Added to a task's finish when machines are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lean<'a> {
    /// The optimistic cost table, row-major; may be empty when its share is 0.
    pub(crate) table: &'a [f64],
    /// How much the optimistic cost of what follows counts.
    pub(crate) foresight: f64,
    /// How much the task's own cost counts, once more. Where machines are scarce, work done on the machine that does
    /// it quickly is worth a wait.
    pub(crate) thrift: f64,
}

impl Lean<'_> {
    #[inline]
    pub(super) fn at(&self, task: usize, machine: usize, machines: usize, cost: f64) -> f64 {
        let foreseen = if self.foresight == 0.0 { 0.0 } else { self.table[task * machines + machine] };
        self.foresight * foreseen + self.thrift * cost
    }

    /// Fills a row with the bias of every machine.
    pub(super) fn bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        let (costs, p) = (instance.costs(task), instance.machines());
        if self.foresight == 0.0 {
            for (bias, cost) in row.iter_mut().zip(costs) {
                *bias = self.thrift * cost;
            }
            return;
        }
        let table = &self.table[task * p..(task + 1) * p];
        for (bias, (cost, foreseen)) in row.iter_mut().zip(costs.iter().zip(table)) {
            *bias = self.foresight * foreseen + self.thrift * cost;
        }
    }
}
