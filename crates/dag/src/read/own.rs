//! warpyard's own JSON, in two forms: `{"costs": [[...]], "edges": [[from, to, cost]]}`, or `{"tasks": [{"name",
//! "work"}], "edges", "machines": [{"name", "speed"}], "bandwidth": [[...]], "latency": [[...]]}`.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::machines::{Machine, Machines, PerLink};
use super::workflow::{Amount, Command, Task, Workflow, index_of_names, with_machines};
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

impl OwnTask {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Full { name, .. } => name.as_deref(),
        }
    }
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
    let file: OwnFile =
        serde_json::from_str(text).map_err(|error| not_a_number(text).unwrap_or(ReadError::Json(error)))?;
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
    let commands = tasks.iter().map(|task| task.command.clone()).collect();
    let linked = bandwidth.is_some() || latency.is_some();
    let unnamed = || Machines { bandwidth, latency, ..Machines::identical(width) };
    if let Some(machines) = machines.or_else(|| linked.then(unnamed)) {
        instance = with_machines(&instance, &machines)?;
    }
    Ok(Input::Complete { instance: Box::new(instance), commands })
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

/// Words that programs write for what is no finite number, though JSON has none.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Whose number is such a word, if that is all that is wrong: matrices are often written as a single line, of which
/// the number says little.
fn not_a_number(text: &str) -> Option<ReadError> {
    /// Nobody's number.
    const INSTEAD: f64 = -8.987_654_321e307;
    let (at, word) = first_no_number(text)?;
    let mended = format!("{}{INSTEAD:e}{}", &text[..at], &text[at + word.len()..]);
    let file: OwnFile = serde_json::from_str(&mended).ok()?;
    let is = |number: &f64| *number == INSTEAD;
    let names: Vec<String> = file.tasks.iter().map(OwnTask::name).zip(0..).map(numbered).collect();
    let name = |at: usize| names.get(at).cloned().unwrap_or_else(|| at.to_string());
    let bad = |task: String, what| Some(ReadError::NoNumber { task, what, word });
    for (task, row) in file.costs.iter().flatten().enumerate() {
        if let Some(machine) = row.iter().flatten().position(is) {
            return bad(name(task), format!("cost on machine {machine}"));
        }
    }
    for (at, task) in file.tasks.iter().enumerate() {
        let OwnTask::Full { work, costs, release, .. } = task else { continue };
        let on = costs.iter().find(|(_, cost)| is(cost));
        let what = match (work.filter(is), on) {
            (Some(_), _) => "work".to_owned(),
            (None, Some((machine, _))) => format!("cost on machine {machine}"),
            (None, None) if is(release) => "release".to_owned(),
            (None, None) => continue,
        };
        return bad(name(at), what);
    }
    if let Some(task) = file.release.iter().position(is) {
        return bad(name(task), "release".to_owned());
    }
    let (from, to) = file.edges.iter().find_map(|edge| match edge {
        OwnEdge::Costly(from, to, data) | OwnEdge::Named { from, to, data } if is(data) => Some((from, to)),
        _ => None,
    })?;
    let shown = |place: &Place| match place {
        Place::Index(at) => name(*at as usize),
        Place::Name(name) => name.clone(),
    };
    bad(shown(from), format!("edge to task {}", shown(to)))
}

fn numbered((name, at): (Option<&str>, usize)) -> String {
    name.map_or_else(|| at.to_string(), str::to_owned)
}

/// The first such word that is not part of a text, and where it begins.
fn first_no_number(text: &str) -> Option<(usize, &'static str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'N' | b'I' | b'-' if !quoted => {
                let word = NO_NUMBERS.into_iter().find(|word| text[at..].starts_with(word));
                if let Some(word) = word {
                    return Some((at, word));
                }
            }
            _ => {}
        }
    }
    None
}
