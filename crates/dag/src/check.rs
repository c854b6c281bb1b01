//! The independent judge of schedules. It shares no code with any planner: it knows costs, edges, links and
//! releases, and nothing of timelines or ranks.

use crate::instance::Instance;
use crate::schedule::Schedule;

/// What is wrong with a schedule; the first thing found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Not one slot per task.
    #[error("{found} slots for {tasks} tasks")]
    TaskCount {
        /// Slots in the schedule.
        found: usize,
        /// Tasks in the instance.
        tasks: usize,
    },
    /// A slot names a machine that is not there.
    #[error("task {task} is on machine {machine}, which does not exist")]
    UnknownMachine {
        /// The task.
        task: String,
        /// The machine it names.
        machine: u32,
    },
    /// A slot is not as long as the task takes there, or is no time at all.
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
        /// What it costs there.
        cost: f64,
    },
    /// A task starts before it is released.
    #[error("task {task} starts at {start}, before its release at {release}")]
    Release {
        /// The task.
        task: String,
        /// Its start.
        start: f64,
        /// Its release.
        release: f64,
    },
    /// A task starts before its data has arrived.
    #[error("task {to} starts at {start}, but the data of {from} arrives at {arrival}")]
    Precedence {
        /// The producing task.
        from: String,
        /// The consuming task.
        to: String,
        /// When the consumer starts.
        start: f64,
        /// When the data is there.
        arrival: f64,
    },
    /// Two tasks are on one machine at once.
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

/// Holds a schedule against its instance: each task once, as long as it takes, on a machine that exists, after its
/// release and its data, and never two at once on a machine. Whole numbers are compared exactly; others with a
/// relative slack of 1e-9.
///
/// # Errors
/// The first violation found.
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
