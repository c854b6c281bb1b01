//! Busy-until table: for each time step and machine, the end of the busy interval at that step. Coarser than the
//! timelines, but its row for one time is read like a row of costs. Kept only while timelines are so dense that
//! probing by cheapest machine takes many probes.

use crate::instance::Instance;

/// Busy-until times of all machines on a grid of time steps.
#[derive(Debug, Clone)]
pub(super) struct BusyTable {
    machines: usize,
    /// Length of a step: a power of two, so that multiples are exact.
    tick: f64,
    /// Row-major, one row per step; grows with the schedule. Zero where nothing is known.
    until: Vec<f64>,
    /// Row limit: times further out are not recorded, so that a distant slot costs no memory.
    most_rows: usize,
}

impl BusyTable {
    pub(super) fn new(instance: &Instance) -> Self {
        let tick = instance.mean_cost_about(0.25);
        let machines = instance.machines();
        let most_rows = (instance.tasks() / 4).max(4096);
        Self { machines, tick, until: Vec::new(), most_rows }
    }

    /// How far before its end a busy interval is recorded: new tasks arrive near the ends.
    pub(super) fn lookback(&self) -> f64 {
        16.0 * self.tick
    }

    /// Lower bound on when each machine is free from `at` on; an entry before `at` says nothing.
    #[inline]
    pub(super) fn row(&self, at: f64) -> Option<&[f64]> {
        let first = ((at / self.tick) as usize).saturating_mul(self.machines);
        self.until.get(first..first.saturating_add(self.machines))
    }

    /// Records that `machine` is busy from `from` to `to`.
    pub(super) fn mark_busy(&mut self, machine: usize, from: f64, to: f64) {
        let from = from.max(to - self.lookback());
        // Only steps inside the interval: at a step before `from` the machine may be idle.
        let first = (from / self.tick).ceil() as usize;
        let end = ((to / self.tick).ceil() as usize).min(self.most_rows);
        if first >= end {
            return;
        }
        if self.until.len() < end * self.machines {
            self.until.resize((end + 16) * self.machines, 0.0);
        }
        let column = self.until[first * self.machines + machine..].iter_mut().step_by(self.machines);
        column.take(end - first).for_each(|until| *until = to);
    }
}
