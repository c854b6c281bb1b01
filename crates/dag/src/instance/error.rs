//! Errors of building an instance.

/// Reason an instance is invalid. Tasks and machines are named where they have names, otherwise numbered from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// No machines.
    #[error("there are no machines")]
    NoMachines,
    /// More tasks, edges or machines than a 32-bit index allows.
    #[error("too large: {tasks} tasks, {edges} edges, {machines} machines")]
    TooLarge {
        /// Number of tasks.
        tasks: usize,
        /// Number of edges.
        edges: usize,
        /// Number of machines.
        machines: usize,
    },
    /// Incomplete last row of costs.
    #[error("task {task}: has {found} costs, but there are {machines} machines")]
    MissingCosts {
        /// The task.
        task: String,
        /// Costs given.
        found: usize,
        /// Number needed.
        machines: usize,
    },
    /// Cost that is negative, infinite or not a number.
    #[error("task {task}: cost {value} on machine {machine} is not a finite number of at least 0")]
    BadCost {
        /// The task.
        task: String,
        /// The machine.
        machine: String,
        /// Given value.
        value: f64,
    },
    /// Release time that is negative, infinite or not a number.
    #[error("task {task}: release time {value} is not a finite number of at least 0")]
    BadRelease {
        /// The task.
        task: String,
        /// Given value.
        value: f64,
    },
    /// Number of release times differs from the number of tasks.
    #[error("{found} release times for {tasks} tasks")]
    ReleaseCount {
        /// Release times given.
        found: usize,
        /// Number needed.
        tasks: usize,
    },
    /// Number of names differs from the number of tasks or machines.
    #[error("{found} names for {expected} {what}")]
    NameCount {
        /// Kind of object named.
        what: &'static str,
        /// Names given.
        found: usize,
        /// Number needed.
        expected: usize,
    },
    /// Edge to or from a task that does not exist.
    #[error("edge {edge} ({from} to {to}): there is no task {missing}")]
    UnknownTask {
        /// Position among the edges.
        edge: usize,
        /// Its start.
        from: u32,
        /// Its end.
        to: u32,
        /// Missing end.
        missing: u32,
    },
    /// Edge whose data or cost is negative, infinite or not a number.
    #[error("edge {from} to {to}: {value} is not a finite number of at least 0")]
    BadData {
        /// Its start.
        from: String,
        /// Its end.
        to: String,
        /// Given value.
        value: f64,
    },
    /// Dependency cycle; the first task is repeated at the end.
    #[error("dependency cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// Link table that is not machines x machines.
    #[error("{table} has {found} entries, but {machines} machines need {}", machines * machines)]
    LinkShape {
        /// `latency` or `bandwidth`.
        table: &'static str,
        /// Entries given.
        found: usize,
        /// Number of machines.
        machines: usize,
    },
    /// Latency or bandwidth out of range.
    #[error("{table} {value} from machine {from} to machine {to} cannot be")]
    BadLink {
        /// `latency` or `bandwidth`.
        table: &'static str,
        /// The sending machine.
        from: String,
        /// The receiving machine.
        to: String,
        /// Given value.
        value: f64,
    },
}
