//! What a planner answers: where each task runs and when. Whether it may be so is [`crate::check()`]'s to say.

use crate::instance::Instance;

/// Where and when one task runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slot {
    /// The machine.
    pub machine: u32,
    /// When it starts.
    pub start: f64,
    /// When it ends.
    pub finish: f64,
}

/// One slot per task, by task index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    /// The slot of each task.
    pub slots: Vec<Slot>,
}

impl Schedule {
    /// When the last task ends.
    pub fn makespan(&self) -> f64 {
        self.slots.iter().fold(0.0, |latest, s| if s.finish > latest { s.finish } else { latest })
    }

    /// Mean over all tasks of finish less release.
    pub fn mean_turnaround(&self, instance: &Instance) -> f64 {
        self.mean(instance, |slot, release| slot.finish - release)
    }

    /// Mean over all tasks of start less release.
    pub fn mean_wait(&self, instance: &Instance) -> f64 {
        self.mean(instance, |slot, release| slot.start - release)
    }

    /// The tasks of each machine in the order they run.
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
