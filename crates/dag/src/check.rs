//! Schedule validation, independent of every planner: it knows costs, edges, links and releases, and nothing of
//! timelines or ranks.

use crate::instance::Instance;
use crate::schedule::Schedule;

/// Violated constraint of a schedule; the first one found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Number of slots differs from the number of tasks.
    #[error("{found} slots for {tasks} tasks")]
    TaskCount {
        /// Slots in the schedule.
        found: usize,
        /// Tasks in the instance.
        tasks: usize,
    },
    /// Slot on a machine that does not exist.
    #[error("task {task} is on machine {machine}, which does not exist")]
    UnknownMachine {
        /// The task.
        task: String,
        /// Machine index.
        machine: u32,
    },
    /// Slot of the wrong length, or with an invalid time.
    #[error("task {task} runs from {start} to {finish}, but takes {cost} on machine {machine}")]
    Duration {
        /// The task.
        task: String,
        /// Its machine.
        machine: String,
        /// Its start.
        start: f64,
        /// Its finish.
        finish: f64,
        /// Cost on that machine.
        cost: f64,
    },
    /// Start before the task's release.
    #[error("task {task} starts at {start}, before its release at {release}")]
    Release {
        /// The task.
        task: String,
        /// Its start.
        start: f64,
        /// Its release.
        release: f64,
    },
    /// Start before the arrival of a predecessor's data.
    #[error("task {to} starts at {start}, but the data of {from} arrives at {arrival}")]
    Precedence {
        /// The producing task.
        from: String,
        /// The consuming task.
        to: String,
        /// Start of the consumer.
        start: f64,
        /// Arrival of the data.
        arrival: f64,
    },
    /// Two tasks on one machine at the same time.
    #[error("tasks {first} and {second} overlap on machine {machine}")]
    Overlap {
        /// The machine.
        machine: String,
        /// The earlier task.
        first: String,
        /// The later task.
        second: String,
    },
}

/// Validates a schedule against its instance: every task exactly once, for its cost, on an existing machine, after its
/// release and its data, and no two at once on a machine. Integral instances are compared exactly; others with a
/// relative tolerance of 1e-9.
///
/// # Errors
/// Returns the first violation found.
pub fn check(instance: &Instance, schedule: &Schedule) -> Result<(), Violation> {
    let slots = &schedule.slots;
    if slots.len() != instance.tasks() {
        return Err(Violation::TaskCount { found: slots.len(), tasks: instance.tasks() });
    }
    let name = |task: usize| instance.task_name(task).into_owned();
    let slack = |at: f64| if instance.is_integral() { 0.0 } else { 1e-9 * at.abs().max(1e-300) };
    for (task, slot) in slots.iter().enumerate() {
        let machine = slot.machine as usize;
        if machine >= instance.machines() {
            return Err(Violation::UnknownMachine { task: name(task), machine: slot.machine });
        }
        let cost = instance.costs(task)[machine];
        let (start, finish) = (slot.start, slot.finish);
        let right_length = (finish - start - cost).abs() <= slack(finish);
        if !(start >= 0.0 && finish.is_finite() && right_length) {
            let machine = instance.machine_name(machine).into_owned();
            return Err(Violation::Duration { task: name(task), machine, start, finish, cost });
        }
        let release = instance.release(task);
        if start < release - slack(release) {
            return Err(Violation::Release { task: name(task), start, release });
        }
    }
    for edge in instance.edges() {
        let (from, to) = (&slots[edge.from as usize], &slots[edge.to as usize]);
        let arrival = from.finish + instance.transfer(edge.data, from.machine as usize, to.machine as usize);
        if to.start < arrival - slack(arrival) {
            return Err(Violation::Precedence {
                from: name(edge.from as usize),
                to: name(edge.to as usize),
                start: to.start,
                arrival,
            });
        }
    }
    for (machine, lane) in schedule.by_machine(instance.machines()).iter().enumerate() {
        for pair in lane.windows(2) {
            let (first, second) = (pair[0] as usize, pair[1] as usize);
            if slots[second].start < slots[first].finish - slack(slots[first].finish) {
                return Err(Violation::Overlap {
                    machine: instance.machine_name(machine).into_owned(),
                    first: name(first),
                    second: name(second),
                });
            }
        }
    }
    Ok(())
}
