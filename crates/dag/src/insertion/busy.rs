//! A coarse clock over all machines at once: for each tick and machine, until when the machine is busy from that
//! tick on. It knows less than the timelines, but a row of it is read like a row of costs. Kept only where machines
//! are so full that looking at the cheapest ones does not do.

use crate::instance::Instance;

#[derive(Debug, Clone)]
pub(super) struct BusyTable {
    machines: usize,
    /// A power of two, so that ticks are exact.
    tick: f64,
    /// Row-major, one row per tick; grows with the schedule.
    until: Vec<f64>,
    /// Past this many rows nothing is noted: far-off times must not cost memory.
    most_rows: usize,
}

impl BusyTable {
    pub(super) fn new(instance: &Instance) -> Self {
        let tick = instance.mean_cost_about(0.25);
        let machines = instance.machines();
        let most_rows = (instance.tasks() / 4).max(4096);
        Self { machines, tick, until: Vec::new(), most_rows }
    }

    /// How far back a busy stretch is worth noting: new tasks arrive at its end.
    pub(super) fn reach(&self) -> f64 {
        16.0 * self.tick
    }

    /// Until when each machine is busy from `at` on; a moment before `at` says nothing.
    #[inline]
    pub(super) fn row(&self, at: f64) -> Option<&[f64]> {
        let first = ((at / self.tick) as usize).saturating_mul(self.machines);
        self.until.get(first..first.saturating_add(self.machines))
    }

    /// Notes that `machine` is busy from `from` to `to`.
    pub(super) fn note(&mut self, machine: usize, from: f64, to: f64) {
        let from = from.max(to - self.reach());
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
