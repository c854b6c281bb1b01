//! The course levels take through a tree of entities, each job up to the level it ended at: who was where at the moment
//! someone stopped. Written from what filling means; shares no code with the solver's own.

use std::collections::HashMap;

use crate::instance::{Entities, Instance, Sharing};

/// Entities with entities in them.
enum Node {
    Group { weight: f64, policy: Sharing, members: Vec<Node> },
    Leaf { weight: f64, place: usize },
}

/// An entity's jobs and how far they have come.
struct Leaf {
    policy: Sharing,
    /// Jobs, their weights and where they end: in order of arrival, or, where all rise together, of when they stop.
    jobs: Vec<(usize, f64, f64)>,
    /// How many have stopped.
    stopped: usize,
    /// The level per weight of those who rise together, or the level of the one that does.
    risen: f64,
    /// The weight of each job and those after it.
    weights: Vec<f64>,
}

/// Where everyone is at some moment.
pub(super) struct Course {
    root: Node,
    leaves: Vec<Leaf>,
}

impl Course {
    /// From nothing to the levels where jobs end.
    pub(super) fn new(instance: &Instance, entities: &Entities, ends: &[f64]) -> Self {
        let places = instance.jobs.iter().enumerate().map(|(m, job)| (job.id, (m, job.weight, ends[m])));
        let places: HashMap<u64, (usize, f64, f64)> = places.collect();
        let mut leaves = Vec::new();
        let members = nodes(entities, &places, &mut leaves);
        Self { root: Node::Group { weight: 1.0, policy: Sharing::Fair, members }, leaves }
    }

    /// Goes on until someone stops; says who, and nobody at the end.
    pub(super) fn next(&mut self) -> Vec<usize> {
        let mut rates = vec![0.0; self.leaves.len()];
        share(&self.root, 1.0, &self.leaves, &mut rates);
        let moving = self.leaves.iter().zip(&rates).filter(|(_, rate)| **rate > 0.0);
        let first = moving.map(|(leaf, rate)| leaf.left() / rate).fold(f64::INFINITY, f64::min);
        let each = self.leaves.iter_mut().zip(&rates).filter(|(_, rate)| **rate > 0.0);
        each.flat_map(|(leaf, rate)| leaf.advance(rate * first)).collect()
    }

    /// Every job's level now.
    pub(super) fn levels(&self, jobs: usize) -> Vec<f64> {
        let mut levels = vec![0.0; jobs];
        for leaf in &self.leaves {
            for (i, &(m, weight, end)) in leaf.jobs.iter().enumerate() {
                levels[m] = match leaf.policy {
                    _ if i < leaf.stopped => end,
                    Sharing::Fair => (leaf.risen * weight).min(end),
                    Sharing::Fifo if i == leaf.stopped => leaf.risen.min(end),
                    Sharing::Fifo => 0.0,
                };
            }
        }
        levels
    }
}

impl Leaf {
    fn new(policy: Sharing, mut jobs: Vec<(usize, f64, f64)>) -> Self {
        if policy == Sharing::Fair {
            jobs.sort_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)));
        }
        let mut weights: Vec<f64> = jobs.iter().map(|(_, weight, _)| *weight).collect();
        (1..weights.len()).rev().for_each(|i| weights[i - 1] += weights[i]);
        Self { policy, jobs, stopped: 0, risen: 0.0, weights }
    }

    /// What the entity rises by where `risen` grows by one.
    fn together(&self) -> f64 {
        match self.policy {
            Sharing::Fair => self.weights.get(self.stopped).copied().unwrap_or(1.0),
            Sharing::Fifo => 1.0,
        }
    }

    /// Where the next one stops, in the measure of `risen`.
    fn goal(&self) -> Option<f64> {
        let &(_, weight, end) = self.jobs.get(self.stopped)?;
        Some(if self.policy == Sharing::Fair { end / weight } else { end })
    }

    /// How much of the entity's own rise that is away.
    fn left(&self) -> f64 {
        self.goal().map_or(f64::INFINITY, |goal| (goal - self.risen).max(0.0) * self.together())
    }

    /// Rises by so much together, and says who stopped.
    fn advance(&mut self, by: f64) -> Vec<usize> {
        let stops = self.left() <= by * (1.0 + 1e-12);
        let Some(goal) = self.goal().filter(|_| stops) else {
            self.risen += by / self.together();
            return Vec::new();
        };
        let before = self.stopped;
        match self.policy {
            Sharing::Fair => {
                self.risen = goal;
                while self.goal().is_some_and(|next| next <= goal * (1.0 + 1e-12)) {
                    self.stopped += 1;
                }
            }
            Sharing::Fifo => (self.stopped, self.risen) = (before + 1, 0.0),
        }
        self.jobs[before..self.stopped].iter().map(|(m, ..)| *m).collect()
    }
}

fn nodes(entities: &Entities, places: &HashMap<u64, (usize, f64, f64)>, leaves: &mut Vec<Leaf>) -> Vec<Node> {
    let mut found = Vec::new();
    for (name, &weight) in &entities.weights {
        let policy = entities.policies.get(name).copied().unwrap_or(Sharing::Fair);
        found.push(match entities.entities.get(name) {
            Some(inner) => Node::Group { weight, policy, members: nodes(inner, places, leaves) },
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
            Node::Leaf { place, .. } => leaves[*place].goal().is_some(),
        }
    }

    fn weight(&self) -> f64 {
        let (Node::Group { weight, .. } | Node::Leaf { weight, .. }) = self;
        *weight
    }
}

/// Gives a rate to whoever still rises.
fn share(node: &Node, rate: f64, leaves: &[Leaf], rates: &mut [f64]) {
    match node {
        Node::Leaf { place, .. } => rates[*place] = rate,
        Node::Group { policy, members, .. } => {
            let mut rising: Vec<&Node> = members.iter().filter(|member| member.rises(leaves)).collect();
            if *policy == Sharing::Fifo {
                rising.truncate(1);
            }
            let total: f64 = rising.iter().map(|member| member.weight()).sum();
            rising.iter().for_each(|member| share(member, rate * member.weight() / total, leaves, rates));
        }
    }
}
