//! warpyard's own JSON, in two forms: `{"costs": [[...]], "edges": [[from, to, cost]]}`, or `{"tasks": [{"name",
//! "work"}], "edges", "machines": [{"name", "speed"}], "bandwidth": [[...]], "latency": [[...]]}`.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::machines::{Machine, Machines, PerLink};
use super::workflow::{Amount, Command, Task, Workflow, index_of_names};
use super::{Input, ReadError};
use crate::instance::{Edge, Instance};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    #[serde(default)]
    costs: Option<Vec<Vec<Option<f64>>>>,
    #[serde(default)]
    tasks: Vec<OwnTask>,
    #[serde(default)]
    edges: Vec<OwnEdge>,
    #[serde(default)]
    machines: Option<Vec<OwnMachine>>,
    #[serde(default)]
    bandwidth: Option<PerLink>,
    #[serde(default)]
    latency: Option<PerLink>,
    #[serde(default)]
    release: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum OwnTask {
    Name(String),
    Full {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        work: Option<f64>,
        #[serde(default)]
        costs: BTreeMap<String, f64>,
        #[serde(default)]
        release: f64,
        #[serde(default)]
        command: Option<Command>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OwnMachine {
    Name(String),
    Full(Machine),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Place {
    Index(u32),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OwnEdge {
    Costly(Place, Place, f64),
    Free(Place, Place),
    Named {
        from: Place,
        to: Place,
        #[serde(default, alias = "cost")]
        data: f64,
    },
}

pub(super) fn parse(text: &str) -> Result<Input, ReadError> {
    let file: OwnFile = serde_json::from_str(text)?;
    let machines = file.machines.map(|machines| Machines {
        machines: machines.into_iter().map(machine).collect(),
        bandwidth: file.bandwidth.clone(),
        latency: file.latency.clone(),
    });
    let tasks: Vec<Task> = file.tasks.into_iter().enumerate().map(task).collect();
    let names = index_of_names(&tasks)?;
    let edges = file.edges.into_iter().map(|e| edge(e, &names)).collect::<Result<Vec<_>, _>>()?;
    match file.costs {
        Some(costs) => complete(costs, &tasks, &edges, file.release, machines, file.bandwidth, file.latency),
        None => Ok(Input::Workflow(Workflow { tasks, edges, amount: Amount::Time, machines })),
    }
}

fn complete(
    costs: Vec<Vec<Option<f64>>>,
    tasks: &[Task],
    edges: &[Edge],
    release: Vec<f64>,
    machines: Option<Machines>,
    bandwidth: Option<PerLink>,
    latency: Option<PerLink>,
) -> Result<Input, ReadError> {
    let width = costs.first().map_or(1, Vec::len).max(1);
    let name = |at: usize| tasks.get(at).map_or_else(|| at.to_string(), |t| t.name.clone());
    let mut flat = Vec::with_capacity(costs.len() * width);
    for (at, row) in costs.iter().enumerate() {
        if row.len() != width {
            return Err(ReadError::CostCount { task: name(at), found: row.len(), machines: width });
        }
        for (machine, cost) in row.iter().enumerate() {
            let missing = || ReadError::MissingCost { task: name(at), machine: machine.to_string() };
            flat.push(cost.ok_or_else(missing)?);
        }
    }
    let names = tasks.iter().map(|t| t.name.clone()).collect();
    let mut instance = Instance::named(width, flat, edges, crate::Links::Uniform, names, Vec::new())?;
    let release = if release.is_empty() { tasks.iter().map(|t| t.release).collect() } else { release };
    if release.iter().any(|r| *r != 0.0) {
        instance = instance.with_releases(release)?;
    }
    let linked = bandwidth.is_some() || latency.is_some();
    let unnamed = || Machines { bandwidth, latency, ..Machines::identical(width) };
    match machines.or_else(|| linked.then(unnamed)) {
        Some(machines) => Input::Complete(instance).on(Some(&machines)).map(Input::Complete),
        None => Ok(Input::Complete(instance)),
    }
}

fn machine(machine: OwnMachine) -> Machine {
    match machine {
        OwnMachine::Name(name) => Machine { name, speed: 1.0, kind: None, count: 1 },
        OwnMachine::Full(machine) => machine,
    }
}

fn task((at, task): (usize, OwnTask)) -> Task {
    match task {
        OwnTask::Name(name) => Task { name, ..Task::default() },
        OwnTask::Full { name, work, costs, release, command } => {
            let name = name.unwrap_or_else(|| at.to_string());
            Task { name, work, costs, each: Vec::new(), release, command }
        }
    }
}

fn edge(edge: OwnEdge, names: &HashMap<&str, u32>) -> Result<Edge, ReadError> {
    let (from, to, data) = match edge {
        OwnEdge::Costly(from, to, data) | OwnEdge::Named { from, to, data } => (from, to, data),
        OwnEdge::Free(from, to) => (from, to, 0.0),
    };
    let shown = |place: &Place| match place {
        Place::Index(index) => index.to_string(),
        Place::Name(name) => name.clone(),
    };
    let find = |place: &Place, other: &Place| match place {
        Place::Index(index) => Ok(*index),
        Place::Name(name) => names
            .get(name.as_str())
            .copied()
            .ok_or_else(|| ReadError::UnknownTask { task: shown(other), missing: name.clone() }),
    };
    Ok(Edge { from: find(&from, &to)?, to: find(&to, &from)?, data })
}
