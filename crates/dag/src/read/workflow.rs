//! Tasks that have not met their machines yet, and how they do.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::ReadError;
use super::machines::Machines;
use crate::instance::{Edge, Instance, Links};

/// What the data of edges is counted in, where machines have no bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Transfer times.
    Time,
    /// Bytes: without a bandwidth they take no time.
    Bytes,
}

/// What a task runs, where its file says so. Planning does not look at it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a command is a list of words, or a text for a shell")]
pub enum Command {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A text for a shell.
    Shell(String),
}

/// One task, before machines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Its time on a machine of speed 1.
    pub work: Option<f64>,
    /// Its time on machines, or types of machines, by name; counts more than `work`.
    pub costs: BTreeMap<String, f64>,
    /// Its time on each machine in order; counts most.
    pub each: Vec<f64>,
    /// The earliest it may start.
    pub release: f64,
    /// What it runs.
    pub command: Option<Command>,
}

/// Tasks and edges, before machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The edges, by position of the tasks.
    pub edges: Vec<Edge>,
    /// What the edges' data is.
    pub amount: Amount,
    /// The machines the text itself names.
    pub machines: Option<Machines>,
}

impl Workflow {
    /// Brings the tasks onto machines.
    ///
    /// # Errors
    /// When a task has no cost on a machine, names a machine that is not there, or the result is no instance.
    pub fn on(&self, machines: &Machines) -> Result<Instance, ReadError> {
        machines.check()?;
        let names = machines.names();
        let mut costs = Vec::with_capacity(self.tasks.len() * names.len());
        for task in &self.tasks {
            self.costs_of(task, machines, &names, &mut costs)?;
        }
        let (links, transfer) = machines.links(self.amount == Amount::Bytes)?;
        let mut edges = self.edges.clone();
        if links == Links::Uniform {
            // Bad data is left for the instance to refuse, by name.
            edges
                .iter_mut()
                .filter(|e| e.data >= 0.0 && e.data.is_finite())
                .for_each(|e| e.data = transfer(e.data));
        }
        let task_names = self.tasks.iter().map(|t| t.name.clone()).collect();
        let release: Vec<f64> = self.tasks.iter().map(|t| t.release).collect();
        let instance = Instance::named(names.len(), costs, &edges, links, task_names, names)?;
        if release.iter().all(|r| *r == 0.0) { Ok(instance) } else { Ok(instance.with_releases(release)?) }
    }

    fn costs_of(
        &self,
        task: &Task,
        machines: &Machines,
        names: &[String],
        costs: &mut Vec<f64>,
    ) -> Result<(), ReadError> {
        if !task.each.is_empty() {
            if task.each.len() != names.len() {
                let (task, found) = (task.name.clone(), task.each.len());
                return Err(ReadError::CostCount { task, found, machines: names.len() });
            }
            costs.extend(&task.each);
            return Ok(());
        }
        if let Some(work) = task.work
            && !(work >= 0.0 && work.is_finite())
        {
            return Err(ReadError::BadAmount { task: task.name.clone(), what: "work", value: work });
        }
        let mut used = 0;
        for (machine, name) in machines.each() {
            let by_name = [Some(&name), Some(&machine.name), machine.kind.as_ref()];
            let given = by_name.into_iter().flatten().find_map(|name| task.costs.get(name));
            used += usize::from(given.is_some());
            match given.copied().or(task.work.map(|work| work / machine.speed)) {
                Some(cost) => costs.push(cost),
                None => return Err(ReadError::MissingCost { task: task.name.clone(), machine: name }),
            }
        }
        let known = |named: &String| {
            machines
                .each()
                .any(|(m, name)| name == *named || m.name == *named || m.kind.as_ref() == Some(named))
        };
        match task.costs.keys().find(|named| !known(named)) {
            Some(machine) if used < task.costs.len() || task.costs.len() > names.len() => {
                Err(ReadError::UnknownMachine { task: task.name.clone(), machine: machine.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// Finds tasks by name.
pub(super) fn index_of_names(tasks: &[Task]) -> Result<HashMap<&str, u32>, ReadError> {
    let mut index = HashMap::with_capacity(tasks.len());
    for (at, task) in tasks.iter().enumerate() {
        if index.insert(task.name.as_str(), at as u32).is_some() {
            return Err(ReadError::TwiceNamed(task.name.clone()));
        }
    }
    Ok(index)
}

/// Gives a complete instance the names and links of `machines`.
pub(super) fn with_machines(instance: &Instance, machines: &Machines) -> Result<Instance, ReadError> {
    machines.check()?;
    let names = machines.names();
    if names.len() != instance.machines() {
        return Err(ReadError::MachineCount { costs: instance.machines(), machines: names.len() });
    }
    let (links, transfer) = machines.links(false)?;
    let mut edges: Vec<Edge> = instance.edges().collect();
    if links == Links::Uniform {
        edges.iter_mut().for_each(|e| e.data = transfer(e.data));
    }
    let task_names = (0..instance.tasks()).map(|t| instance.task_name(t).into_owned()).collect();
    let release = (0..instance.tasks()).map(|t| instance.release(t)).collect();
    let costs = instance.cost_matrix().to_vec();
    Ok(Instance::named(names.len(), costs, &edges, links, task_names, names)?.with_releases(release)?)
}
