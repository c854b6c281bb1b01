//! Schedules: machine and time of every task, and their objectives. Validation is in [`crate::check()`].

use crate::instance::Instance;

/// Slot of one task: machine, start and finish.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slot {
    /// Machine index.
    pub machine: u32,
    /// Start time.
    pub start: f64,
    /// Finish time.
    pub finish: f64,
}

/// Schedule: one slot per task, by task index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    /// The slot of each task.
    pub slots: Vec<Slot>,
}

impl Schedule {
    /// Finish of the last task.
    pub fn makespan(&self) -> f64 {
        self.slots.iter().fold(0.0, |latest, s| if s.finish > latest { s.finish } else { latest })
    }

    /// Mean over all tasks of finish minus release.
    pub fn mean_turnaround(&self, instance: &Instance) -> f64 {
        self.mean(instance, |slot, release| slot.finish - release)
    }

    /// Mean over all tasks of start minus release.
    pub fn mean_wait(&self, instance: &Instance) -> f64 {
        self.mean(instance, |slot, release| slot.start - release)
    }

    /// Tasks of each machine in execution order.
    pub fn by_machine(&self, machines: usize) -> Vec<Vec<u32>> {
        let mut lanes = vec![Vec::new(); machines];
        for (task, slot) in self.slots.iter().enumerate() {
            lanes[slot.machine as usize].push(task as u32);
        }
        for lane in &mut lanes {
            lane.sort_unstable_by(|a, b| {
                let (x, y) = (&self.slots[*a as usize], &self.slots[*b as usize]);
                x.start.total_cmp(&y.start).then(x.finish.total_cmp(&y.finish)).then(a.cmp(b))
            });
        }
        lanes
    }

    fn mean(&self, instance: &Instance, of: impl Fn(&Slot, f64) -> f64) -> f64 {
        if self.slots.is_empty() {
            return 0.0;
        }
        let sum: f64 =
            self.slots.iter().enumerate().map(|(task, slot)| of(slot, instance.release(task))).sum();
        sum / self.slots.len() as f64
    }
}
