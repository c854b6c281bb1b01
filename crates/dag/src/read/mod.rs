//! From text to instances: warpyard's own JSON, WfCommons, Standard Task Graphs and Graphviz DOT. Files are read by
//! the caller; here is only what their text means, and errors that name the task or the line.

mod dot;
mod machines;
mod own;
mod stg;
mod wfformat;
mod workflow;

pub use machines::{Machine, Machines, PerLink};
pub use workflow::{Amount, Command, Task, Workflow};

use crate::instance::{Instance, InstanceError};

/// What a text was found to hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Costs for every machine: ready to plan.
    Complete {
        /// The tasks on their machines.
        instance: Box<Instance>,
        /// What each task runs, where the text says so; empty where it names no task.
        commands: Vec<Option<Command>>,
    },
    /// Tasks that still need machines.
    Workflow(Workflow),
}

impl Input {
    /// What each task runs, where the text says so.
    pub fn commands(&self) -> Vec<Option<Command>> {
        match self {
            Self::Complete { commands, .. } => commands.clone(),
            Self::Workflow(workflow) => workflow.tasks.iter().map(|task| task.command.clone()).collect(),
        }
    }

    /// Brings the tasks onto machines: those given, else those the text names itself.
    ///
    /// # Errors
    /// When there are no machines at all, they do not fit the costs, or the result is no instance.
    pub fn on(self, machines: Option<&Machines>) -> Result<Instance, ReadError> {
        match (self, machines) {
            (Self::Complete { instance, .. }, None) => Ok(*instance),
            (Self::Complete { instance, .. }, Some(machines)) => workflow::with_machines(&instance, machines),
            (Self::Workflow(workflow), machines) => {
                let machines = machines.or(workflow.machines.as_ref()).ok_or(ReadError::NoMachines)?;
                workflow.on(machines)
            }
        }
    }
}

/// The formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// warpyard's own JSON: a cost matrix and edges, or tasks with work and machines with speeds.
    Own,
    /// WfCommons WfFormat 1.5.
    WfFormat,
    /// Standard Task Graph.
    Stg,
    /// Graphviz DOT.
    Dot,
}

impl Format {
    /// What a text looks like, by its first words.
    pub fn of(text: &str) -> Self {
        let start = text.trim_start();
        if start.starts_with('{') {
            let wf = text.contains("\"schemaVersion\"") || text.contains("\"specification\"");
            return if wf { Self::WfFormat } else { Self::Own };
        }
        let digit = |line: &str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if start.lines().find(|l| !l.trim_start().starts_with('#')).is_some_and(digit) {
            Self::Stg
        } else {
            Self::Dot
        }
    }
}

/// Reads a text in the format it looks like.
///
/// ```
/// let text = r#"{"costs": [[3, 5], [4, 1]], "edges": [[0, 1, 2]]}"#;
/// let instance = warpyard_dag::read::parse(text)?.on(None)?;
/// assert_eq!(warpyard_dag::algorithm::heft(&instance).makespan(), 6.0);
/// # Ok::<(), warpyard_dag::read::ReadError>(())
/// ```
///
/// # Errors
/// What is wrong, and with which task or on which line.
pub fn parse(text: &str) -> Result<Input, ReadError> {
    parse_as(text, Format::of(text))
}

/// Reads a text in a given format.
///
/// # Errors
/// What is wrong, and with which task or on which line.
pub fn parse_as(text: &str, format: Format) -> Result<Input, ReadError> {
    match format {
        Format::Own => own::parse(text),
        Format::WfFormat => wfformat::parse(text).map(Input::Workflow),
        Format::Stg => stg::parse(text).map(Input::Workflow),
        Format::Dot => dot::parse(text).map(Input::Workflow),
    }
}

/// Why a text gives no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not the JSON that is meant; the source says where.
    #[error("not valid JSON for this format")]
    Json(#[from] serde_json::Error),
    /// Not the TOML that is meant; the source says where.
    #[error("not a valid list of machines")]
    Toml(#[from] toml::de::Error),
    /// A line that cannot be read.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// The text ends too soon.
    #[error("the text ends before {0}")]
    TooShort(&'static str),
    /// A version of the format that is not read.
    #[error("schema version {0} is not read; 1.5 is")]
    Version(String),
    /// Tasks and a list both give release times.
    #[error("release times are given twice: in the tasks and as a list; leave one of the two out")]
    TwoReleases,
    /// Links are described in a text that names no machines.
    #[error("{0} is given without machines; give it where the machines are")]
    WithoutMachines(&'static str),
    /// Neither the text nor the caller names machines.
    #[error("no machines are given")]
    NoMachines,
    /// Two tasks have one name.
    #[error("two tasks are called {0}")]
    TwiceNamed(String),
    /// Two machines have one name.
    #[error("two machines are called {0}")]
    TwiceNamedMachine(String),
    /// A task waits for, or is followed by, one that is not there.
    #[error("task {task}: there is no task {missing}")]
    UnknownTask {
        /// Who names it.
        task: String,
        /// What is named.
        missing: String,
    },
    /// A cost is given for a machine that is not there.
    #[error("task {task}: there is no machine, or type of machine, called {machine}")]
    UnknownMachine {
        /// The task.
        task: String,
        /// What it names.
        machine: String,
    },
    /// No cost is given, and no work to compute it from.
    #[error("task {task}: no cost on machine {machine}")]
    MissingCost {
        /// The task.
        task: String,
        /// The machine.
        machine: String,
    },
    /// A word in the place of a number.
    #[error("task {task}: {what} is {word}, which is not a finite number of at least 0")]
    NoNumber {
        /// The task.
        task: String,
        /// Which of its numbers.
        what: String,
        /// The word.
        word: &'static str,
    },
    /// A number that is negative, infinite or not one.
    #[error("task {task}: {what} {value} is not a finite number of at least 0")]
    BadAmount {
        /// The task.
        task: String,
        /// Which of its numbers.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// More costs than machines, or fewer.
    #[error("task {task}: has {found} costs, but there are {machines} machines")]
    CostCount {
        /// The task.
        task: String,
        /// How many costs it has.
        found: usize,
        /// How many it needs.
        machines: usize,
    },
    /// The machines given are not as many as the costs are for.
    #[error("the costs are for {costs} machines, but {machines} are given")]
    MachineCount {
        /// Columns of the cost matrix.
        costs: usize,
        /// Machines given.
        machines: usize,
    },
    /// A speed that is not above 0.
    #[error("machine {machine}: speed {speed} is not a finite number above 0")]
    BadSpeed {
        /// The machine.
        machine: String,
        /// What was given.
        speed: f64,
    },
    /// A link table with rows of the wrong length.
    #[error("{table}: row {row} has {found} entries, but there are {machines} machines")]
    LinkRow {
        /// `bandwidth` or `latency`.
        table: &'static str,
        /// Which row, from 0.
        row: usize,
        /// How many entries it has.
        found: usize,
        /// How many it needs.
        machines: usize,
    },
    /// The parts are readable but make no instance.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// A number was expected.
    #[error("{0:?} is not a number that fits here")]
    NotANumber(String),
    /// A number must not be negative or endless.
    #[error("{what} {value} of task {task} is not a finite number of at least 0")]
    BadAmount {
        /// The task.
        task: String,
        /// Which of its numbers.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// Something else was expected.
    #[error("expected {expected}, found {found:?}")]
    Unexpected {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A task waits for one that is not there.
    #[error("task {task} waits for task {missing}, which is not there")]
    UnknownTask {
        /// The waiting task.
        task: String,
        /// What it waits for.
        missing: String,
    },
    /// A task is given twice.
    #[error("task {0} is given twice")]
    Twice(String),
    /// A task has no cost.
    #[error("task {0} has no work or cost; give it one, such as {0} [work=3]")]
    NoCost(String),
    /// The number of tasks is not what the first line says.
    #[error("{found} tasks, but the first line says {said}")]
    TaskCount {
        /// How many there are.
        found: usize,
        /// How many there should be.
        said: usize,
    },
    /// Edges without direction mean nothing here.
    #[error("an edge without direction; use -> in a digraph")]
    Undirected,
}

fn at_line<T>(line: usize, problem: LineProblem) -> Result<T, ReadError> {
    Err(ReadError::Line { line, problem })
}
