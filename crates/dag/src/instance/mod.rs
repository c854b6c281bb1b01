//! Planning problem: tasks with a cost on every machine, edges with data, links between machines, release times. An
//! [`Instance`] is validated once, when it is built; planners rely on it. Reading files is in [`crate::read`],
//! planning in [`crate::algorithm`].

mod error;
mod graph;
mod links;

pub use error::InstanceError;
pub use links::Links;

use std::borrow::Cow;
use std::sync::Arc;

use graph::{Adjacency, topological};
use links::{LinkRange, PairTable};

/// Dependency: `to` starts after `from` has finished and its data has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Producing task.
    pub from: u32,
    /// Consuming task.
    pub to: u32,
    /// With [`Links::Uniform`] the transfer time between different machines; with [`Links::Pairs`] the amount of data.
    pub data: f64,
}

/// Validated planning problem: tasks, machines, edges and links.
///
/// ```
/// use warpyard_dag::{Edge, Instance, Links};
/// let two = Instance::new(2, vec![3.0, 5.0, 4.0, 1.0], &[Edge { from: 0, to: 1, data: 2.0 }], Links::Uniform)?;
/// assert_eq!((two.tasks(), two.machines()), (2, 2));
/// assert_eq!(two.transfer(2.0, 0, 1), 2.0);
/// assert_eq!(two.transfer(2.0, 0, 0), 0.0);
/// # Ok::<(), warpyard_dag::InstanceError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    machines: usize,
    costs: Arc<Vec<f64>>,
    pub(crate) successors: Adjacency,
    pub(crate) predecessors: Adjacency,
    pub(crate) pairs: Option<PairTable>,
    release: Vec<f64>,
    order: Vec<u32>,
    position: Vec<u32>,
    integral: bool,
    task_names: Vec<String>,
    machine_names: Vec<String>,
}

impl Instance {
    /// Validates and builds an instance with unnamed tasks and machines, all released at 0. `costs` is row-major: one
    /// row per task, one column per machine.
    ///
    /// # Errors
    /// Names the invalid task, edge or machine.
    pub fn new(
        machines: usize,
        costs: Vec<f64>,
        edges: &[Edge],
        links: Links,
    ) -> Result<Self, InstanceError> {
        Self::named(machines, costs, edges, links, Vec::new(), Vec::new())
    }

    /// Validates and builds an instance as [`Instance::new`] does, with names for tasks and machines; an empty list
    /// leaves them numbered.
    ///
    /// # Errors
    /// Names the invalid task, edge or machine.
    pub fn named(
        machines: usize,
        costs: Vec<f64>,
        edges: &[Edge],
        links: Links,
        task_names: Vec<String>,
        machine_names: Vec<String>,
    ) -> Result<Self, InstanceError> {
        if machines == 0 {
            return Err(InstanceError::NoMachines);
        }
        let tasks = costs.len().div_ceil(machines);
        name_count("tasks", &task_names, tasks)?;
        name_count("machines", &machine_names, machines)?;
        let task = |i: usize| name(&task_names, i).into_owned();
        if u32::try_from(tasks).is_err()
            || u32::try_from(edges.len()).is_err()
            || u32::try_from(machines).is_err()
        {
            return Err(InstanceError::TooLarge { tasks, edges: edges.len(), machines });
        }
        if !costs.len().is_multiple_of(machines) {
            return Err(InstanceError::MissingCosts {
                task: task(tasks - 1),
                found: costs.len() % machines,
                machines,
            });
        }
        if let Some(at) = costs.iter().position(|c| !is_amount(*c)) {
            return Err(InstanceError::BadCost {
                task: task(at / machines),
                machine: name(&machine_names, at % machines).into_owned(),
                value: costs[at],
            });
        }
        check_edges(edges, tasks, &task)?;
        let pairs = PairTable::new(links, machines, &machine_names)?;
        let integral = pairs.is_none()
            && costs.iter().all(|c| is_integer(*c))
            && edges.iter().all(|e| is_integer(e.data));
        let successors = Adjacency::group(tasks, edges, |e| e.from, |e| e.to);
        let predecessors = Adjacency::group(tasks, edges, |e| e.to, |e| e.from);
        let (order, position) = topological(&successors, &predecessors, tasks)
            .map_err(|cycle| InstanceError::Cycle(cycle.into_iter().map(|t| task(t as usize)).collect()))?;
        Ok(Self {
            machines,
            costs: Arc::new(costs),
            successors,
            predecessors,
            pairs,
            release: Vec::new(),
            order,
            position,
            integral,
            task_names,
            machine_names,
        })
    }

    /// Sets the release time of every task.
    ///
    /// # Errors
    /// When there is not one per task, or one is negative or not finite.
    pub fn with_releases(mut self, release: Vec<f64>) -> Result<Self, InstanceError> {
        if release.len() != self.tasks() {
            return Err(InstanceError::ReleaseCount { found: release.len(), tasks: self.tasks() });
        }
        if let Some(at) = release.iter().position(|r| !is_amount(*r)) {
            return Err(InstanceError::BadRelease {
                task: self.task_name(at).into_owned(),
                value: release[at],
            });
        }
        self.integral &= release.iter().all(|r| is_integer(*r));
        self.release = release;
        Ok(self)
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.costs.len() / self.machines
    }

    /// Number of machines.
    pub fn machines(&self) -> usize {
        self.machines
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.successors.edges.len()
    }

    /// Costs of `task` on each machine.
    #[inline]
    pub fn costs(&self, task: usize) -> &[f64] {
        &self.costs[task * self.machines..(task + 1) * self.machines]
    }

    /// Cost matrix, row-major.
    pub fn cost_matrix(&self) -> &[f64] {
        &self.costs
    }

    /// Successors of `task`, each with the data it needs.
    #[inline]
    pub fn successors(&self, task: usize) -> &[(u32, f64)] {
        self.successors.of(task)
    }

    /// Predecessors of `task`, each with the data it sends.
    #[inline]
    pub fn predecessors(&self, task: usize) -> &[(u32, f64)] {
        self.predecessors.of(task)
    }

    /// All edges, by producing task.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        (0..self.tasks()).flat_map(|from| {
            self.successors(from).iter().map(move |&(to, data)| Edge { from: from as u32, to, data })
        })
    }

    /// Release time of `task`: its earliest start, dependencies aside.
    #[inline]
    pub fn release(&self, task: usize) -> f64 {
        if self.release.is_empty() { 0.0 } else { self.release[task] }
    }

    /// Transfer time of `data` from one machine to another; 0 within one machine.
    #[inline]
    pub fn transfer(&self, data: f64, from: usize, to: usize) -> f64 {
        match &self.pairs {
            _ if from == to => 0.0,
            None => data,
            Some(pairs) => {
                let at = from * self.machines + to;
                pairs.latency[at] + data / pairs.bandwidth[at]
            }
        }
    }

    /// Mean transfer time of `data` between different machines, as ranks use it: mean latency + data / mean bandwidth.
    #[inline]
    pub fn mean_transfer(&self, data: f64) -> f64 {
        match &self.pairs {
            None => data,
            Some(pairs) => pairs.mean_latency + data / pairs.mean_bandwidth,
        }
    }

    /// Power of two near `share` of a mean cost, so that multiples of it are exact.
    pub(crate) fn mean_cost_about(&self, share: f64) -> f64 {
        let sample = self.costs.iter().step_by((self.costs.len() / 4096).max(1));
        let (sum, count) = sample.fold((0.0, 0usize), |(sum, count), cost| (sum + cost, count + 1));
        let about = (share * sum / count.max(1) as f64).log2().floor().exp2();
        if about.is_normal() && (1.0 / about).is_normal() { about } else { 1.0 }
    }

    /// Lower bound on the transfer time between different machines: least latency and greatest bandwidth.
    pub(crate) fn least_transfer(&self) -> impl Fn(f64) -> f64 + '_ {
        let p = self.machines;
        let least = self.pairs.as_ref().filter(|_| p > 1).map(|pairs| {
            let apart = |at: &usize| at / p != at % p;
            let latency = (0..p * p).filter(apart).map(|at| pairs.latency[at]).fold(f64::INFINITY, f64::min);
            let bandwidth = (0..p * p).filter(apart).map(|at| pairs.bandwidth[at]).fold(0.0, f64::max);
            (latency, bandwidth)
        });
        move |data| match least {
            None => data,
            Some((latency, bandwidth)) => latency + data / bandwidth,
        }
    }

    /// Whether all pairs of machines have the same links.
    pub fn has_uniform_links(&self) -> bool {
        self.pairs.is_none()
    }

    /// Whether all costs, transfers and releases are integers, so that all planned times are exact integers too.
    pub fn is_integral(&self) -> bool {
        self.integral
    }

    /// Lexicographically least topological order.
    pub fn topological_order(&self) -> &[u32] {
        &self.order
    }

    /// Position of `task` in [`Instance::topological_order`].
    #[inline]
    pub fn topological_position(&self, task: usize) -> u32 {
        self.position[task]
    }

    /// Name of a task, or its number.
    pub fn task_name(&self, task: usize) -> Cow<'_, str> {
        name(&self.task_names, task)
    }

    /// Name of a machine, or its number.
    pub fn machine_name(&self, machine: usize) -> Cow<'_, str> {
        name(&self.machine_names, machine)
    }

    /// Instance with every edge and link reversed and no releases: a schedule of it, reversed in time, is one of this
    /// instance.
    pub(crate) fn reversed(&self) -> Self {
        let p = self.machines;
        let transpose = |m: &[f64]| (0..p * p).map(|at| m[(at % p) * p + at / p]).collect::<Vec<_>>();
        let (order, position) = topological(&self.predecessors, &self.successors, self.tasks())
            .unwrap_or_else(|_| unreachable!("an instance has no cycle, either way round"));
        Self {
            successors: self.predecessors.clone(),
            predecessors: self.successors.clone(),
            pairs: self.pairs.as_ref().map(|t| {
                let (latency, bandwidth) = (transpose(&t.latency), transpose(&t.bandwidth));
                PairTable { ranges: LinkRange::of_each(p, &latency, &bandwidth), latency, bandwidth, ..*t }
            }),
            release: Vec::new(),
            order,
            position,
            costs: Arc::clone(&self.costs),
            task_names: Vec::new(),
            machine_names: Vec::new(),
            ..*self
        }
    }
}

fn check_edges(edges: &[Edge], tasks: usize, task: &impl Fn(usize) -> String) -> Result<(), InstanceError> {
    for (at, e) in edges.iter().enumerate() {
        if let Some(missing) = [e.from, e.to].into_iter().find(|t| *t as usize >= tasks) {
            return Err(InstanceError::UnknownTask { edge: at, from: e.from, to: e.to, missing });
        }
        if !is_amount(e.data) {
            return Err(InstanceError::BadData {
                from: task(e.from as usize),
                to: task(e.to as usize),
                value: e.data,
            });
        }
    }
    Ok(())
}

fn name_count(what: &'static str, names: &[String], expected: usize) -> Result<(), InstanceError> {
    if names.is_empty() || names.len() == expected {
        return Ok(());
    }
    Err(InstanceError::NameCount { what, found: names.len(), expected })
}

fn name(names: &[String], at: usize) -> Cow<'_, str> {
    names.get(at).map_or_else(|| Cow::Owned(at.to_string()), |n| Cow::Borrowed(n.as_str()))
}

fn is_amount(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}

fn is_integer(value: f64) -> bool {
    value.fract() == 0.0 && value <= 9_007_199_254_740_992.0
}
