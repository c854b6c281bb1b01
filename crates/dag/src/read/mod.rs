//! Parsers from text to instances: warpyard's native JSON, WfCommons, Standard Task Graphs and Graphviz DOT. The
//! caller reads the files; errors name the task or the line.

mod dot;
mod machines;
mod native;
mod stg;
mod wfformat;
mod workflow;

pub use machines::{Machine, Machines, PerLink};
pub use workflow::{Amount, Command, Task, Workflow};

use crate::instance::{Instance, InstanceError};

/// Parsed input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Complete instance: costs for every machine.
    Complete {
        /// Tasks on their machines.
        instance: Box<Instance>,
        /// Command of each task, where the text has one; empty where it names no task.
        commands: Vec<Option<Command>>,
    },
    /// Workflow that still needs machines.
    Workflow(Workflow),
}

impl Input {
    /// Command of each task, where the text has one.
    pub fn commands(&self) -> Vec<Option<Command>> {
        match self {
            Self::Complete { commands, .. } => commands.clone(),
            Self::Workflow(workflow) => workflow.tasks.iter().map(|task| task.command.clone()).collect(),
        }
    }

    /// Instantiates the tasks on machines: the given ones, otherwise those in the text.
    ///
    /// # Errors
    /// When there are no machines at all, they do not fit the costs, or the result is no instance.
    pub fn instantiate(self, machines: Option<&Machines>) -> Result<Instance, ReadError> {
        match (self, machines) {
            (Self::Complete { instance, .. }, None) => Ok(*instance),
            (Self::Complete { instance, .. }, Some(machines)) => workflow::with_machines(&instance, machines),
            (Self::Workflow(workflow), machines) => {
                let machines = machines.or(workflow.machines.as_ref()).ok_or(ReadError::NoMachines)?;
                workflow.instantiate(machines)
            }
        }
    }
}

/// Input format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// warpyard's native JSON: a cost matrix and edges, or tasks with work and machines with speeds.
    Native,
    /// WfCommons WfFormat 1.5.
    WfFormat,
    /// Standard Task Graph.
    Stg,
    /// Graphviz DOT.
    Dot,
}

impl Format {
    /// Detects the format from the beginning of a text.
    pub fn of(text: &str) -> Self {
        let start = text.trim_start();
        if start.starts_with('{') {
            let wf = text.contains("\"schemaVersion\"") || text.contains("\"specification\"");
            return if wf { Self::WfFormat } else { Self::Native };
        }
        let digit = |line: &str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if start.lines().find(|l| !l.trim_start().starts_with('#')).is_some_and(digit) {
            Self::Stg
        } else {
            Self::Dot
        }
    }
}

/// Parses a text in its detected format.
///
/// ```
/// let text = r#"{"costs": [[3, 5], [4, 1]], "edges": [[0, 1, 2]]}"#;
/// let instance = warpyard_dag::read::parse(text)?.instantiate(None)?;
/// assert_eq!(warpyard_dag::algorithm::heft(&instance).makespan(), 6.0);
/// # Ok::<(), warpyard_dag::read::ReadError>(())
/// ```
///
/// # Errors
/// Names the problem and the task or line.
pub fn parse(text: &str) -> Result<Input, ReadError> {
    parse_as(text, Format::of(text))
}

/// Parses a text in a given format.
///
/// # Errors
/// Names the problem and the task or line.
pub fn parse_as(text: &str, format: Format) -> Result<Input, ReadError> {
    match format {
        Format::Native => native::parse(text),
        Format::WfFormat => wfformat::parse(text).map(Input::Workflow),
        Format::Stg => stg::parse(text).map(Input::Workflow),
        Format::Dot => dot::parse(text).map(Input::Workflow),
    }
}

/// Error of reading a workflow or its machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Invalid JSON for the format; the source has the position.
    #[error("not valid JSON for this format")]
    Json(#[from] serde_json::Error),
    /// Invalid TOML for a list of machines; the source has the position.
    #[error("not a valid list of machines")]
    Toml(#[from] toml::de::Error),
    /// Line that cannot be parsed.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Problem with it.
        problem: LineProblem,
    },
    /// Text that ends too early.
    #[error("the text ends before {0}")]
    TooShort(&'static str),
    /// Unsupported version of the format.
    #[error("schema version {0} is not read; 1.5 is")]
    Version(String),
    /// Release times given both in the tasks and as a list.
    #[error("release times are given twice: in the tasks and as a list; leave one of the two out")]
    TwoReleases,
    /// Links described in a text without machines.
    #[error("{0} is given without machines; give it where the machines are")]
    WithoutMachines(&'static str),
    /// No machines in the text or from the caller.
    #[error("no machines are given")]
    NoMachines,
    /// Task given twice.
    #[error("two tasks are called {0}")]
    DuplicateTask(String),
    /// Two machines of one name.
    #[error("two machines are called {0}")]
    DuplicateMachine(String),
    /// Predecessor that does not exist.
    #[error("task {task}: there is no task {missing}")]
    UnknownTask {
        /// Task that refers to it.
        task: String,
        /// Missing task.
        missing: String,
    },
    /// Cost for a machine that does not exist.
    #[error("task {task}: there is no machine, or type of machine, called {machine}")]
    UnknownMachine {
        /// The task.
        task: String,
        /// Missing machine or type.
        machine: String,
    },
    /// No cost on a machine, and no work to compute it from.
    #[error("task {task}: no cost on machine {machine}")]
    MissingCost {
        /// The task.
        task: String,
        /// The machine.
        machine: String,
    },
    /// Non-finite literal in place of a number.
    #[error("task {task}: {what} is {word}, which is not a finite number of at least 0")]
    NotFinite {
        /// The task.
        task: String,
        /// Quantity it stands for.
        what: String,
        /// Literal found.
        word: &'static str,
    },
    /// Number that is negative, infinite or not a number.
    #[error("task {task}: {what} {value} is not a finite number of at least 0")]
    BadAmount {
        /// The task.
        task: String,
        /// Quantity it stands for.
        what: &'static str,
        /// Given value.
        value: f64,
    },
    /// Number of costs differs from the number of machines.
    #[error("task {task}: has {found} costs, but there are {machines} machines")]
    CostCount {
        /// The task.
        task: String,
        /// Costs given.
        found: usize,
        /// Number needed.
        machines: usize,
    },
    /// Number of machines differs from the width of the cost matrix.
    #[error("the costs are for {costs} machines, but {machines} are given")]
    MachineCount {
        /// Columns of the cost matrix.
        costs: usize,
        /// Machines given.
        machines: usize,
    },
    /// Speed that is not above 0.
    #[error("machine {machine}: speed {speed} is not a finite number above 0")]
    BadSpeed {
        /// The machine.
        machine: String,
        /// Given value.
        speed: f64,
    },
    /// Link table with a row of the wrong length.
    #[error("{table}: row {row} has {found} entries, but there are {machines} machines")]
    LinkRow {
        /// `bandwidth` or `latency`.
        table: &'static str,
        /// Which row, from 0.
        row: usize,
        /// Entries given.
        found: usize,
        /// Number needed.
        machines: usize,
    },
    /// Readable parts that form no valid instance.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

/// Problem with one line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// Word where a number was expected.
    #[error("{0:?} is not a number that fits here")]
    NotANumber(String),
    /// A number must not be negative or endless.
    #[error("{what} {value} of task {task} is not a finite number of at least 0")]
    BadAmount {
        /// The task.
        task: String,
        /// Quantity it stands for.
        what: &'static str,
        /// Given value.
        value: f64,
    },
    /// Unexpected token.
    #[error("expected {expected}, found {found:?}")]
    Unexpected {
        /// Expected token.
        expected: &'static str,
        /// Token found.
        found: String,
    },
    /// A task waits for one that is not there.
    #[error("task {task} waits for task {missing}, which is not there")]
    UnknownTask {
        /// The waiting task.
        task: String,
        /// Missing predecessor.
        missing: String,
    },
    /// A task is given twice.
    #[error("task {0} is given twice")]
    DuplicateTask(String),
    /// Task without a cost.
    #[error("task {0} has no work or cost; give it one, such as {0} [work=3]")]
    NoCost(String),
    /// Number of tasks differs from the one in the first line.
    #[error("{found} tasks, but the first line says {declared}")]
    TaskCount {
        /// Tasks found.
        found: usize,
        /// Tasks declared.
        declared: usize,
    },
    /// Undirected edge.
    #[error("an edge without direction; use -> in a digraph")]
    Undirected,
}

fn at_line<T>(line: usize, problem: LineProblem) -> Result<T, ReadError> {
    Err(ReadError::Line { line, problem })
}
