//! WfCommons WfFormat 1.5: tasks with parents and children, files passed between them, and recorded run times. A
//! task's work is its recorded run time; an edge's data is the size of the files its parent writes and its child
//! reads.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::ReadError;
use super::machines::{Machine, Machines};
use super::workflow::{Amount, Command, Task, Workflow, index_of_names};
use crate::instance::Edge;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WfFile {
    schema_version: String,
    workflow: WfWorkflow,
}

#[derive(Deserialize)]
struct WfWorkflow {
    specification: Specification,
    #[serde(default)]
    execution: Execution,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<WfTask>,
    #[serde(default)]
    files: Vec<WfData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WfTask {
    id: String,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WfData {
    id: String,
    size_in_bytes: f64,
}

#[derive(Deserialize, Default)]
struct Execution {
    #[serde(default)]
    tasks: Vec<Executed>,
    #[serde(default)]
    machines: Vec<WfMachine>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Executed {
    id: String,
    runtime_in_seconds: f64,
    #[serde(default)]
    command: Option<WfCommand>,
}

#[derive(Deserialize)]
struct WfCommand {
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
}

impl WfCommand {
    fn words(&self) -> Option<Command> {
        let program = self.program.clone().filter(|program| !program.is_empty())?;
        Some(Command::Words(std::iter::once(program).chain(self.arguments.iter().cloned()).collect()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WfMachine {
    node_name: String,
}

pub(super) fn parse(text: &str) -> Result<Workflow, ReadError> {
    let file: WfFile = serde_json::from_str(text)?;
    if file.schema_version != "1.5" {
        return Err(ReadError::Version(file.schema_version));
    }
    let (spec, execution) = (file.workflow.specification, file.workflow.execution);
    let ran: HashMap<&str, &Executed> = execution.tasks.iter().map(|t| (t.id.as_str(), t)).collect();
    let task = |t: &WfTask| {
        let ran = ran.get(t.id.as_str());
        let (work, command) =
            (ran.map(|r| r.runtime_in_seconds), ran.and_then(|r| r.command.as_ref()?.words()));
        Task { name: t.id.clone(), work, command, ..Task::default() }
    };
    let tasks: Vec<Task> = spec.tasks.iter().map(task).collect();
    let edges = edges(&spec, &tasks)?;
    let named = |m: WfMachine| Machine { name: m.node_name, speed: 1.0, kind: None, count: 1 };
    let machines: Vec<Machine> = execution.machines.into_iter().map(named).collect();
    let machines = (!machines.is_empty()).then_some(Machines { machines, bandwidth: None, latency: None });
    Ok(Workflow { tasks, edges, amount: Amount::Bytes, machines })
}

/// Edges from parents and children, each once, whichever side names it.
fn edges(spec: &Specification, tasks: &[Task]) -> Result<Vec<Edge>, ReadError> {
    let index = index_of_names(tasks)?;
    let size: HashMap<&str, f64> = spec.files.iter().map(|f| (f.id.as_str(), f.size_in_bytes)).collect();
    let find = |task: &WfTask, named: &String| {
        let missing = || ReadError::UnknownTask { task: task.id.clone(), missing: named.clone() };
        index.get(named.as_str()).copied().ok_or_else(missing)
    };
    let mut pairs = BTreeSet::new();
    for (at, task) in spec.tasks.iter().enumerate() {
        for parent in &task.parents {
            pairs.insert((find(task, parent)?, at as u32));
        }
        for child in &task.children {
            pairs.insert((at as u32, find(task, child)?));
        }
    }
    let read: Vec<BTreeSet<&str>> =
        spec.tasks.iter().map(|t| t.input_files.iter().map(String::as_str).collect()).collect();
    let passed = |from: u32, to: u32| {
        let written: BTreeSet<&str> =
            spec.tasks[from as usize].output_files.iter().map(String::as_str).collect();
        written.intersection(&read[to as usize]).filter_map(|file| size.get(file)).sum()
    };
    Ok(pairs.into_iter().map(|(from, to)| Edge { from, to, data: passed(from, to) }).collect())
}
