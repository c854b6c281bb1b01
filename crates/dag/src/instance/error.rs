//! Why something is no instance.

/// Why something is no instance. Tasks and machines are named where they have names, else numbered from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// There is nothing to run on.
    #[error("there are no machines")]
    NoMachines,
    /// More tasks, edges or machines than a 32-bit index reaches.
    #[error("too large: {tasks} tasks, {edges} edges, {machines} machines")]
    TooLarge {
        /// Number of tasks.
        tasks: usize,
        /// Number of edges.
        edges: usize,
        /// Number of machines.
        machines: usize,
    },
    /// The last task with costs has fewer costs than there are machines.
    #[error("task {task}: has {found} costs, but there are {machines} machines")]
    MissingCosts {
        /// The task.
        task: String,
        /// How many costs it has.
        found: usize,
        /// How many it needs.
        machines: usize,
    },
    /// A cost is negative, infinite or not a number.
    #[error("task {task}: cost {value} on machine {machine} is not a finite number of at least 0")]
    BadCost {
        /// The task.
        task: String,
        /// The machine.
        machine: String,
        /// What was given.
        value: f64,
    },
    /// A release time is negative, infinite or not a number.
    #[error("task {task}: release time {value} is not a finite number of at least 0")]
    BadRelease {
        /// The task.
        task: String,
        /// What was given.
        value: f64,
    },
    /// Not one release time per task.
    #[error("{found} release times for {tasks} tasks")]
    ReleaseCount {
        /// How many were given.
        found: usize,
        /// How many are needed.
        tasks: usize,
    },
    /// Not one name per task or machine.
    #[error("{found} names for {expected} {what}")]
    NameCount {
        /// What is named.
        what: &'static str,
        /// How many names were given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// An edge names a task that is not there.
    #[error("edge {edge} ({from} to {to}): there is no task {missing}")]
    UnknownTask {
        /// Position among the edges.
        edge: usize,
        /// Its start.
        from: u32,
        /// Its end.
        to: u32,
        /// Which of the two is missing.
        missing: u32,
    },
    /// An edge's data or cost is negative, infinite or not a number.
    #[error("edge {from} to {to}: {value} is not a finite number of at least 0")]
    BadData {
        /// Its start.
        from: String,
        /// Its end.
        to: String,
        /// What was given.
        value: f64,
    },
    /// The tasks wait for one another in a circle.
    #[error("tasks wait for one another in a circle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// A link table is not machines x machines.
    #[error("{table} has {found} entries, but {machines} machines need {}", machines * machines)]
    LinkShape {
        /// `latency` or `bandwidth`.
        table: &'static str,
        /// How many entries it has.
        found: usize,
        /// Number of machines.
        machines: usize,
    },
    /// A link's latency or bandwidth cannot be.
    #[error("{table} {value} from machine {from} to machine {to} cannot be")]
    BadLink {
        /// `latency` or `bandwidth`.
        table: &'static str,
        /// The sending machine.
        from: String,
        /// The receiving machine.
        to: String,
        /// What was given.
        value: f64,
    },
}
