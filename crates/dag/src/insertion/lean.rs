//! A leaning in the choice of machine, beside the earliest finish: towards machines that suit what follows, and
//! towards machines that waste no time on a task.

use crate::instance::Instance;

/// Added to a task's finish when machines are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lean<'a> {
    /// The optimistic cost table, row-major; may be empty when its share is 0.
    pub(crate) table: &'a [f64],
    /// How much the optimistic cost of what follows counts, and how much the task's own cost counts once more: where
    /// machines are scarce, work done on the machine that does it quickly is worth a wait. One pair per task, or one
    /// for all.
    pub(crate) shares: &'a [(f64, f64)],
}

impl Lean<'_> {
    #[inline]
    fn share(&self, task: usize) -> (f64, f64) {
        if self.shares.len() == 1 { self.shares[0] } else { self.shares[task] }
    }

    #[inline]
    pub(super) fn at(&self, task: usize, machine: usize, machines: usize, cost: f64) -> f64 {
        let (foresight, thrift) = self.share(task);
        let foreseen = if foresight == 0.0 { 0.0 } else { self.table[task * machines + machine] };
        foresight * foreseen + thrift * cost
    }

    /// Fills a row with the bias of every machine.
    pub(super) fn bias(&self, instance: &Instance, task: usize, row: &mut [f64]) {
        let (costs, p) = (instance.costs(task), instance.machines());
        let (foresight, thrift) = self.share(task);
        if foresight == 0.0 {
            for (bias, cost) in row.iter_mut().zip(costs) {
                *bias = thrift * cost;
            }
            return;
        }
        let table = &self.table[task * p..(task + 1) * p];
        for (bias, (cost, foreseen)) in row.iter_mut().zip(costs.iter().zip(table)) {
            *bias = foresight * foreseen + thrift * cost;
        }
    }
}
