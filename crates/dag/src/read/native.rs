//! warpyard's native JSON, in two forms: `{"costs": [[...]], "edges": [[from, to, cost]]}`, or `{"tasks": [{"name",
//! "work"}], "edges", "machines": [{"name", "speed"}], "bandwidth": [[...]], "latency": [[...]]}`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::machines::{Machine, Machines, PerLink};
use super::workflow::{Amount, Command, Task, Workflow, index_of_names, with_machines};
use super::{Input, ReadError};
use crate::instance::{Edge, Instance, InstanceError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeFile {
    #[serde(default)]
    costs: Option<Vec<Vec<Option<f64>>>>,
    #[serde(default)]
    tasks: Vec<NativeTask>,
    #[serde(default)]
    edges: Vec<NativeEdge>,
    #[serde(default)]
    machines: Option<Vec<NameOr<Machine>>>,
    #[serde(default)]
    bandwidth: Option<PerLink>,
    #[serde(default)]
    latency: Option<PerLink>,
    #[serde(default)]
    release: Vec<f64>,
}

/// Name or full description. Distinguished by form (string or object) and not by trial, so that errors are about the
/// description itself.
enum NameOr<T> {
    Name(String),
    Full(T),
}

type NativeTask = NameOr<FullTask>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FullTask {
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
}

impl NativeTask {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Full(task) => task.name.as_deref(),
        }
    }
}

/// Reference to a task, by index or name.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number or the name of a task")]
enum TaskRef {
    Index(u32),
    Name(String),
}

/// Edge, written `[from, to, cost]`, `[from, to]` or as an object.
struct NativeEdge {
    from: TaskRef,
    to: TaskRef,
    data: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedEdge {
    from: TaskRef,
    to: TaskRef,
    #[serde(default, alias = "cost")]
    data: f64,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NameOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for FormVisitor<T> {
            type Value = NameOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a description in braces")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(NameOr::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(NameOr::Full)
            }
        }
        deserializer.deserialize_any(FormVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for NativeEdge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormVisitor;
        impl<'de> Visitor<'de> for FormVisitor {
            type Value = NativeEdge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an edge, [from, to, cost]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<NativeEdge, A::Error> {
                let from = parts.next_element()?.ok_or_else(|| Error::invalid_length(0, &self))?;
                let to = parts.next_element()?.ok_or_else(|| Error::invalid_length(1, &self))?;
                let data = parts.next_element()?.unwrap_or_default();
                match parts.next_element::<IgnoredAny>()? {
                    Some(_) => Err(Error::invalid_length(4, &self)),
                    None => Ok(NativeEdge { from, to, data }),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NativeEdge, A::Error> {
                let NamedEdge { from, to, data } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(NativeEdge { from, to, data })
            }
        }
        deserializer.deserialize_any(FormVisitor)
    }
}

pub(super) fn parse(text: &str) -> Result<Input, ReadError> {
    let file: NativeFile = serde_json::from_str(text)
        .map_err(|error| locate_non_number(text).unwrap_or(ReadError::Json(error)))?;
    let machines = file.machines.map(|machines| Machines {
        machines: machines.into_iter().map(machine).collect(),
        bandwidth: file.bandwidth.clone(),
        latency: file.latency.clone(),
    });
    let tasks: Vec<Task> = file.tasks.into_iter().enumerate().map(task).collect();
    let names = index_of_names(&tasks)?;
    let edges = file.edges.into_iter().map(|e| edge(e, &names)).collect::<Result<Vec<_>, _>>()?;
    if !file.release.is_empty() && tasks.iter().any(|task| task.release != 0.0) {
        return Err(ReadError::TwoReleases);
    }
    if let Some(costs) = file.costs {
        return complete(costs, &tasks, &edges, file.release, machines, file.bandwidth, file.latency);
    }
    // Links belong to the machines; without machines here they would be ignored.
    for (given, what) in [(&file.bandwidth, "bandwidth"), (&file.latency, "latency")] {
        if given.is_some() && machines.is_none() {
            return Err(ReadError::WithoutMachines(what));
        }
    }
    let tasks = with_release_list(tasks, &file.release)?;
    Ok(Input::Workflow(Workflow { tasks, edges, amount: Amount::Time, machines }))
}

/// Tasks with release times from a list in task order.
fn with_release_list(mut tasks: Vec<Task>, release: &[f64]) -> Result<Vec<Task>, ReadError> {
    if release.is_empty() {
        return Ok(tasks);
    }
    if release.len() != tasks.len() {
        return Err(InstanceError::ReleaseCount { found: release.len(), tasks: tasks.len() }.into());
    }
    for (task, release) in tasks.iter_mut().zip(release) {
        task.release = *release;
    }
    Ok(tasks)
}

/// Builds a complete instance from a cost matrix.
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

fn machine(machine: NameOr<Machine>) -> Machine {
    match machine {
        NameOr::Name(name) => Machine { name, speed: 1.0, kind: None, count: 1 },
        NameOr::Full(machine) => machine,
    }
}

fn task((at, task): (usize, NativeTask)) -> Task {
    match task {
        NameOr::Name(name) => Task { name, ..Task::default() },
        NameOr::Full(FullTask { name, work, costs, release, command }) => {
            let name = name.unwrap_or_else(|| at.to_string());
            Task { name, work, costs, machine_costs: Vec::new(), release, command }
        }
    }
}

fn edge(edge: NativeEdge, names: &HashMap<&str, u32>) -> Result<Edge, ReadError> {
    let NativeEdge { from, to, data } = edge;
    let shown = |task_ref: &TaskRef| match task_ref {
        TaskRef::Index(index) => index.to_string(),
        TaskRef::Name(name) => name.clone(),
    };
    let find = |task_ref: &TaskRef, other: &TaskRef| match task_ref {
        TaskRef::Index(index) => Ok(*index),
        TaskRef::Name(name) => names
            .get(name.as_str())
            .copied()
            .ok_or_else(|| ReadError::UnknownTask { task: shown(other), missing: name.clone() }),
    };
    Ok(Edge { from: find(&from, &to)?, to: find(&to, &from)?, data })
}

/// Literals that programs write for non-finite numbers, which JSON does not have.
const NON_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Names the task that has a non-finite literal, if that is all that is wrong: a matrix is often a single line, where
/// a column number helps little. Parses again with a sentinel in place of the literal and looks for it.
fn locate_non_number(text: &str) -> Option<ReadError> {
    /// Number that occurs in no real input.
    const SENTINEL: f64 = -8.987_654_321e307;
    let (at, word) = first_non_number(text)?;
    let mended = format!("{}{SENTINEL:e}{}", &text[..at], &text[at + word.len()..]);
    let file: NativeFile = serde_json::from_str(&mended).ok()?;
    let is = |number: &f64| *number == SENTINEL;
    let names: Vec<String> = file.tasks.iter().map(NativeTask::name).zip(0..).map(numbered).collect();
    let name = |at: usize| names.get(at).cloned().unwrap_or_else(|| at.to_string());
    let bad = |task: String, what| Some(ReadError::NotFinite { task, what, word });
    for (task, row) in file.costs.iter().flatten().enumerate() {
        if let Some(machine) = row.iter().flatten().position(is) {
            return bad(name(task), format!("cost on machine {machine}"));
        }
    }
    for (at, task) in file.tasks.iter().enumerate() {
        let NameOr::Full(FullTask { work, costs, release, .. }) = task else { continue };
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
    let NativeEdge { from, to, .. } = file.edges.iter().find(|edge| is(&edge.data))?;
    let shown = |task_ref: &TaskRef| match task_ref {
        TaskRef::Index(at) => name(*at as usize),
        TaskRef::Name(name) => name.clone(),
    };
    bad(shown(from), format!("edge to task {}", shown(to)))
}

fn numbered((name, at): (Option<&str>, usize)) -> String {
    name.map_or_else(|| at.to_string(), str::to_owned)
}

/// First such literal outside a string, and its offset.
fn first_non_number(text: &str) -> Option<(usize, &'static str)> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'N' | b'I' | b'-' if !quoted => {
                let word = NON_NUMBERS.into_iter().find(|word| text[at..].starts_with(word));
                if let Some(word) = word {
                    return Some((at, word));
                }
            }
            _ => {}
        }
    }
    None
}
