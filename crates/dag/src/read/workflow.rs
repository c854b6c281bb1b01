//! Workflows: tasks and edges before they are instantiated on machines.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::ReadError;
use super::machines::Machines;
use crate::instance::{Edge, Instance, Links};

/// Unit of edge data, where machines have no bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Transfer times.
    Time,
    /// Bytes; without a bandwidth their transfer takes no time.
    Bytes,
}

/// Command of a task, where its file has one. Planning ignores it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a command is a list of words, or a text for a shell")]
pub enum Command {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A text for a shell.
    Shell(String),
}

/// Task before it has machines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Time on a machine of speed 1.
    pub work: Option<f64>,
    /// Time by name of machine or machine type; overrides `work`.
    pub costs: BTreeMap<String, f64>,
    /// Time on each machine in order; overrides `costs`.
    pub machine_costs: Vec<f64>,
    /// Release time.
    pub release: f64,
    /// Command it runs.
    pub command: Option<Command>,
}

/// Tasks and edges before they have machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The edges, by position of the tasks.
    pub edges: Vec<Edge>,
    /// Unit of the edges' data.
    pub amount: Amount,
    /// Machines that the text itself describes.
    pub machines: Option<Machines>,
}

impl Workflow {
    /// Instantiates the workflow on machines.
    ///
    /// # Errors
    /// When a task has no cost on a machine, names a machine that is not there, or the result is no instance.
    pub fn instantiate(&self, machines: &Machines) -> Result<Instance, ReadError> {
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
        if !task.machine_costs.is_empty() {
            if task.machine_costs.len() != names.len() {
                let (task, found) = (task.name.clone(), task.machine_costs.len());
                return Err(ReadError::CostCount { task, found, machines: names.len() });
            }
            costs.extend(&task.machine_costs);
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

/// Index of tasks by name.
pub(super) fn index_of_names(tasks: &[Task]) -> Result<HashMap<&str, u32>, ReadError> {
    let mut index = HashMap::with_capacity(tasks.len());
    for (at, task) in tasks.iter().enumerate() {
        if index.insert(task.name.as_str(), at as u32).is_some() {
            return Err(ReadError::DuplicateTask(task.name.clone()));
        }
    }
    Ok(index)
}

/// Complete instance with the names and links of `machines`.
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
