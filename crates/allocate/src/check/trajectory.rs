//! Trajectory of levels through an entity tree, each job up to its final level: the levels at each moment a job stops.
//! Written from the definition of filling; independent of the solver.

use std::collections::HashMap;

use crate::instance::{Entities, EntityPolicy, Instance};

/// Entity tree.
enum Node {
    Group { weight: f64, policy: EntityPolicy, members: Vec<Node> },
    Leaf { weight: f64, place: usize },
}

/// Leaf entity and its progress.
struct Leaf {
    policy: EntityPolicy,
    /// Jobs, their weights and where they end: in order of arrival, or, where all rise together, of when they stop.
    jobs: Vec<(usize, f64, f64)>,
    /// Number of stopped jobs.
    stopped: usize,
    /// Common level per weight of the rising jobs, or the level of the one that rises.
    level: f64,
    /// Suffix sums of the weights.
    weights: Vec<f64>,
}

/// Levels at some moment.
pub(super) struct Trajectory {
    root: Node,
    leaves: Vec<Leaf>,
}

impl Trajectory {
    /// Trajectory from zero to the final levels.
    pub(super) fn new(instance: &Instance, entities: &Entities, ends: &[f64]) -> Self {
        let places = instance.jobs.iter().enumerate().map(|(m, job)| (job.id, (m, job.weight, ends[m])));
        let places: HashMap<u64, (usize, f64, f64)> = places.collect();
        let mut leaves = Vec::new();
        let members = build_nodes(entities, &places, &mut leaves);
        Self { root: Node::Group { weight: 1.0, policy: EntityPolicy::Fair, members }, leaves }
    }

    /// Advances until a job stops; returns the stopped jobs, none at the end.
    pub(super) fn next(&mut self) -> Vec<usize> {
        let mut rates = vec![0.0; self.leaves.len()];
        distribute_rate(&self.root, 1.0, &self.leaves, &mut rates);
        let moving = self.leaves.iter().zip(&rates).filter(|(_, rate)| **rate > 0.0);
        let first = moving.map(|(leaf, rate)| leaf.distance_to_stop() / rate).fold(f64::INFINITY, f64::min);
        let each = self.leaves.iter_mut().zip(&rates).filter(|(_, rate)| **rate > 0.0);
        each.flat_map(|(leaf, rate)| leaf.advance(rate * first)).collect()
    }

    /// Current level of every job.
    pub(super) fn levels(&self, jobs: usize) -> Vec<f64> {
        let mut levels = vec![0.0; jobs];
        for leaf in &self.leaves {
            for (i, &(m, weight, end)) in leaf.jobs.iter().enumerate() {
                levels[m] = match leaf.policy {
                    _ if i < leaf.stopped => end,
                    EntityPolicy::Fair => (leaf.level * weight).min(end),
                    EntityPolicy::Fifo if i == leaf.stopped => leaf.level.min(end),
                    EntityPolicy::Fifo => 0.0,
                };
            }
        }
        levels
    }
}

impl Leaf {
    /// Jobs, weights and final levels: in order of arrival, or of stopping where all rise together.
    fn new(policy: EntityPolicy, mut jobs: Vec<(usize, f64, f64)>) -> Self {
        if policy == EntityPolicy::Fair {
            jobs.sort_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)));
        }
        let mut weights: Vec<f64> = jobs.iter().map(|(_, weight, _)| *weight).collect();
        (1..weights.len()).rev().for_each(|i| weights[i - 1] += weights[i]);
        Self { policy, jobs, stopped: 0, level: 0.0, weights }
    }

    /// Rise of the entity per unit of `level`.
    fn rising_weight(&self) -> f64 {
        match self.policy {
            EntityPolicy::Fair => self.weights.get(self.stopped).copied().unwrap_or(1.0),
            EntityPolicy::Fifo => 1.0,
        }
    }

    /// Value of `level` at which the next job stops.
    fn next_stop(&self) -> Option<f64> {
        let &(_, weight, end) = self.jobs.get(self.stopped)?;
        Some(if self.policy == EntityPolicy::Fair { end / weight } else { end })
    }

    /// Remaining rise of the entity until then.
    fn distance_to_stop(&self) -> f64 {
        self.next_stop()
            .map_or(f64::INFINITY, |next_stop| (next_stop - self.level).max(0.0) * self.rising_weight())
    }

    /// Raises the entity; returns the stopped jobs.
    fn advance(&mut self, by: f64) -> Vec<usize> {
        let stops = self.distance_to_stop() <= by * (1.0 + 1e-12);
        let Some(next_stop) = self.next_stop().filter(|_| stops) else {
            self.level += by / self.rising_weight();
            return Vec::new();
        };
        let before = self.stopped;
        match self.policy {
            EntityPolicy::Fair => {
                self.level = next_stop;
                while self.next_stop().is_some_and(|next| next <= next_stop * (1.0 + 1e-12)) {
                    self.stopped += 1;
                }
            }
            EntityPolicy::Fifo => (self.stopped, self.level) = (before + 1, 0.0),
        }
        self.jobs[before..self.stopped].iter().map(|(m, ..)| *m).collect()
    }
}

fn build_nodes(
    entities: &Entities,
    places: &HashMap<u64, (usize, f64, f64)>,
    leaves: &mut Vec<Leaf>,
) -> Vec<Node> {
    let mut found = Vec::new();
    for (name, &weight) in &entities.weights {
        let policy = entities.policies.get(name).copied().unwrap_or(EntityPolicy::Fair);
        found.push(match entities.entities.get(name) {
            Some(inner) => Node::Group { weight, policy, members: build_nodes(inner, places, leaves) },
            None => {
                let ids = entities.jobs.get(name).into_iter().flatten();
                leaves.push(Leaf::new(policy, ids.filter_map(|id| places.get(id).copied()).collect()));
                Node::Leaf { weight, place: leaves.len() - 1 }
            }
        });
    }
    found
}

impl Node {
    fn rises(&self, leaves: &[Leaf]) -> bool {
        match self {
            Node::Group { members, .. } => members.iter().any(|member| member.rises(leaves)),
            Node::Leaf { place, .. } => leaves[*place].next_stop().is_some(),
        }
    }

    fn weight(&self) -> f64 {
        let (Node::Group { weight, .. } | Node::Leaf { weight, .. }) = self;
        *weight
    }
}

/// Distributes a rate among the nodes that still rise.
fn distribute_rate(node: &Node, rate: f64, leaves: &[Leaf], rates: &mut [f64]) {
    match node {
        Node::Leaf { place, .. } => rates[*place] = rate,
        Node::Group { policy, members, .. } => {
            let mut rising: Vec<&Node> = members.iter().filter(|member| member.rises(leaves)).collect();
            if *policy == EntityPolicy::Fifo {
                rising.truncate(1);
            }
            let total: f64 = rising.iter().map(|member| member.weight()).sum();
            rising
                .iter()
                .for_each(|member| distribute_rate(member, rate * member.weight() / total, leaves, rates));
        }
    }
}
