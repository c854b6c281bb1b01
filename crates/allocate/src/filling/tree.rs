//! Entity tree and trajectory: the rates at which levels rise, and the piecewise linear path they take while only the
//! jobs' own caps stop them. Independent of GPUs.

use std::collections::HashMap;

use crate::instance::{Entities, EntityPolicy, Instance};

/// Leaf entity: a group of jobs.
#[derive(Debug, Clone)]
struct Leaf {
    /// Jobs and their weights, in order of arrival.
    jobs: Vec<(usize, f64)>,
    state: LeafState,
}

/// Progress of a leaf.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LeafState {
    /// Common level over weight.
    Fair(f64),
    /// Index of the job whose turn it is, and its level.
    Fifo { turn: usize, level: f64 },
}

#[derive(Debug, Clone)]
enum Node {
    Group { weight: f64, policy: EntityPolicy, members: Vec<Node> },
    Leaf { weight: f64, leaf: usize },
}

/// Entity tree with weights and the progress of each leaf.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: Node,
    leaves: Vec<Leaf>,
}

/// Trajectory of all levels until every job is at its cap: segments with constant rates.
#[derive(Debug, Clone)]
pub(crate) struct Trajectory {
    starts: Vec<Vec<LeafState>>,
    rates: Vec<Vec<f64>>,
    lengths: Vec<f64>,
}

/// Point on a trajectory: segment and offset. The segment after the last is the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TrajectoryPoint {
    pub(crate) segment: usize,
    pub(crate) offset: f64,
}

impl Tree {
    /// One fair group of all jobs.
    pub(crate) fn flat(weights: &[f64]) -> Self {
        let jobs = weights.iter().copied().enumerate().collect();
        Self {
            root: Node::Leaf { weight: 1.0, leaf: 0 },
            leaves: vec![Leaf { jobs, state: LeafState::Fair(0.0) }],
        }
    }

    /// Tree of the instance's entities.
    pub(crate) fn nested(instance: &Instance, entities: &Entities) -> Self {
        let index_of: HashMap<u64, usize> =
            instance.jobs.iter().enumerate().map(|(m, job)| (job.id, m)).collect();
        let mut leaves = Vec::new();
        let members = members(instance, entities, &index_of, &mut leaves);
        Self { root: Node::Group { weight: 1.0, policy: EntityPolicy::Fair, members }, leaves }
    }

    /// Class of each job: jobs of one class always have the same level.
    pub(crate) fn level_classes(&self, jobs: usize) -> Vec<usize> {
        let mut numbers: HashMap<(usize, u64), usize> = HashMap::new();
        let mut level_classes = vec![0; jobs];
        for (i, leaf) in self.leaves.iter().enumerate() {
            for (place, &(m, weight)) in leaf.jobs.iter().enumerate() {
                let alike = match leaf.state {
                    LeafState::Fair(_) => weight.to_bits(),
                    LeafState::Fifo { .. } => place as u64,
                };
                let next = numbers.len();
                level_classes[m] = *numbers.entry((i, alike)).or_insert(next);
            }
        }
        level_classes
    }

    /// Weight and jobs of each top-level entity.
    pub(crate) fn top_entities(&self) -> Vec<(f64, Vec<usize>)> {
        fn jobs(node: &Node, leaves: &[Leaf], found: &mut Vec<usize>) {
            match node {
                Node::Leaf { leaf, .. } => found.extend(leaves[*leaf].jobs.iter().map(|(m, _)| *m)),
                Node::Group { members, .. } => members.iter().for_each(|member| jobs(member, leaves, found)),
            }
        }
        let all = |node: &Node| {
            let mut found = Vec::new();
            jobs(node, &self.leaves, &mut found);
            (node.weight(), found)
        };
        match &self.root {
            Node::Leaf { .. } => vec![all(&self.root)],
            Node::Group { members, .. } => members.iter().map(all).collect(),
        }
    }

    /// Current level of every job.
    pub(crate) fn levels(&self, caps: &[f64]) -> Vec<f64> {
        let mut levels = vec![0.0; caps.len()];
        for leaf in &self.leaves {
            leaf.levels(leaf.state, caps, &mut levels);
        }
        levels
    }

    /// Advances to a point of the trajectory.
    pub(crate) fn advance(&mut self, trajectory: &Trajectory, at: TrajectoryPoint) {
        for (i, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.state = trajectory.state(i, at);
        }
    }

    /// Passes FIFO turns on from stopped jobs.
    pub(crate) fn pass_turns(&mut self, caps: &[f64]) {
        for leaf in &mut self.leaves {
            leaf.state = leaf.with_turn_passed(leaf.state, caps);
        }
    }

    /// Trajectory from the current levels until every job is at its cap.
    pub(crate) fn trajectory(&self, caps: &[f64]) -> Trajectory {
        let mut states: Vec<LeafState> =
            self.leaves.iter().map(|leaf| leaf.with_turn_passed(leaf.state, caps)).collect();
        let mut trajectory =
            Trajectory { starts: vec![states.clone()], rates: Vec::new(), lengths: Vec::new() };
        // Jobs of fair leaves by the level at which they reach their cap, the next one last.
        let mut orders: Vec<Vec<(f64, f64)>> = self.leaves.iter().map(|leaf| leaf.by_cap(caps)).collect();
        let mut rising_weights = self.rising_weights(&states, caps);
        loop {
            let rates = self.leaf_rates(&rising_weights);
            // The segment ends when the first leaf reaches its next cap.
            let mut length = f64::INFINITY;
            let mut next = Vec::with_capacity(states.len());
            for (i, leaf) in self.leaves.iter().enumerate() {
                let next_cap = match states[i] {
                    LeafState::Fair(level) => orders[i].last().map(|(at, _)| (*at, (at - level).max(0.0))),
                    LeafState::Fifo { turn, level } => {
                        leaf.jobs.get(turn).map(|(m, _)| (caps[*m], (caps[*m] - level).max(0.0)))
                    }
                };
                if let Some((at, left)) = next_cap.filter(|_| rates[i] > 0.0) {
                    length = length.min(left / rates[i]);
                    next.push((i, at, left / rates[i]));
                }
            }
            if length.is_infinite() {
                return trajectory;
            }
            states.iter_mut().zip(&rates).for_each(|(state, rate)| *state = state.after(rate * length));
            // All leaves that reach a cap within rounding of that moment change rates together, or a segment of zero
            // length would follow.
            for (i, at, _) in next.iter().filter(|(_, _, left)| *left <= length * (1.0 + 1e-12)) {
                match &mut states[*i] {
                    LeafState::Fair(level) => {
                        *level = *at;
                        while orders[*i].last().is_some_and(|(cap, _)| *cap <= *at * (1.0 + 1e-12)) {
                            let (_, weight) = orders[*i].pop().unwrap_or_default();
                            rising_weights[*i] =
                                if orders[*i].is_empty() { 0.0 } else { rising_weights[*i] - weight };
                        }
                    }
                    LeafState::Fifo { level, .. } => {
                        *level = *at;
                        states[*i] = self.leaves[*i].with_turn_passed(states[*i], caps);
                        rising_weights[*i] = self.leaves[*i].rising_weight(states[*i], caps);
                    }
                }
            }
            trajectory.lengths.push(length);
            trajectory.rates.push(rates);
            trajectory.starts.push(states.clone());
        }
    }

    /// Weight of each leaf's jobs that can still rise.
    fn rising_weights(&self, states: &[LeafState], caps: &[f64]) -> Vec<f64> {
        self.leaves.iter().zip(states).map(|(leaf, state)| leaf.rising_weight(*state, caps)).collect()
    }

    /// Rate of each leaf's state, given its rising weight.
    fn leaf_rates(&self, rising_weights: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; rising_weights.len()];
        self.root.distribute_rate(1.0, rising_weights, &mut rates);
        rates.iter_mut().zip(rising_weights).for_each(|(rate, weight)| {
            if *rate > 0.0 {
                *rate /= weight;
            }
        });
        rates
    }

    fn job_rates(&self, states: &[LeafState], rates: &[f64], caps: &[f64]) -> Vec<f64> {
        let mut jobs = vec![0.0; caps.len()];
        for ((leaf, state), rate) in self.leaves.iter().zip(states).zip(rates) {
            match *state {
                LeafState::Fair(level) => {
                    for &(m, weight) in leaf.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m])) {
                        jobs[m] = weight * rate;
                    }
                }
                LeafState::Fifo { turn, .. } => {
                    if let Some((m, _)) = leaf.jobs.get(turn) {
                        jobs[*m] = *rate;
                    }
                }
            }
        }
        jobs
    }
}

/// Whether a level is below its cap by more than rounding.
fn rises(level: f64, cap: f64) -> bool {
    level < cap * (1.0 - 1e-12)
}

fn members(
    instance: &Instance,
    entities: &Entities,
    index_of: &HashMap<u64, usize>,
    leaves: &mut Vec<Leaf>,
) -> Vec<Node> {
    let node = |(name, &weight): (&String, &f64)| {
        let policy = entities.policies[name];
        if let Some(inner) = entities.entities.get(name) {
            let members = members(instance, inner, index_of, leaves);
            return Node::Group { weight, policy, members };
        }
        let ids = entities.jobs.get(name).map_or(&[][..], Vec::as_slice);
        let jobs = ids.iter().map(|id| index_of[id]).map(|m| (m, instance.jobs[m].weight)).collect();
        let state = match policy {
            EntityPolicy::Fair => LeafState::Fair(0.0),
            EntityPolicy::Fifo => LeafState::Fifo { turn: 0, level: 0.0 },
        };
        leaves.push(Leaf { jobs, state });
        Node::Leaf { weight, leaf: leaves.len() - 1 }
    };
    entities.weights.iter().map(node).collect()
}

impl Node {
    fn weight(&self) -> f64 {
        match self {
            Self::Group { weight, .. } | Self::Leaf { weight, .. } => *weight,
        }
    }

    fn rises(&self, rising_weights: &[f64]) -> bool {
        match self {
            Self::Leaf { leaf, .. } => rising_weights[*leaf] > 0.0,
            Self::Group { members, .. } => members.iter().any(|member| member.rises(rising_weights)),
        }
    }

    fn distribute_rate(&self, rate: f64, rising_weights: &[f64], rates: &mut [f64]) {
        match self {
            Self::Leaf { leaf, .. } => rates[*leaf] = if rising_weights[*leaf] > 0.0 { rate } else { 0.0 },
            Self::Group { policy, members, .. } => {
                let rising: Vec<&Self> =
                    members.iter().filter(|member| member.rises(rising_weights)).collect();
                let total: f64 = rising.iter().map(|member| member.weight()).sum();
                for (i, member) in rising.iter().enumerate() {
                    let part = match policy {
                        EntityPolicy::Fair => member.weight() / total,
                        EntityPolicy::Fifo => f64::from(u8::from(i == 0)),
                    };
                    if part > 0.0 {
                        member.distribute_rate(rate * part, rising_weights, rates);
                    }
                }
            }
        }
    }
}

impl LeafState {
    fn after(self, progress: f64) -> Self {
        match self {
            Self::Fair(level) => Self::Fair(level + progress),
            Self::Fifo { turn, level } => Self::Fifo { turn, level: level + progress },
        }
    }
}

impl Leaf {
    fn levels(&self, state: LeafState, caps: &[f64], levels: &mut [f64]) {
        for (i, &(m, weight)) in self.jobs.iter().enumerate() {
            levels[m] = match state {
                LeafState::Fair(level) => (weight * level).min(caps[m]),
                LeafState::Fifo { turn, .. } if i < turn => caps[m],
                LeafState::Fifo { turn, level } if i == turn => level.min(caps[m]),
                LeafState::Fifo { .. } => 0.0,
            };
        }
    }

    /// State with the FIFO turn passed on from jobs at their cap.
    fn with_turn_passed(&self, state: LeafState, caps: &[f64]) -> LeafState {
        let LeafState::Fifo { mut turn, mut level } = state else { return state };
        while self.jobs.get(turn).is_some_and(|(m, _)| !rises(level, caps[*m])) {
            (turn, level) = (turn + 1, 0.0);
        }
        LeafState::Fifo { turn, level }
    }

    /// Weight of the jobs that can still rise; a FIFO turn weighs 1.
    fn rising_weight(&self, state: LeafState, caps: &[f64]) -> f64 {
        match state {
            LeafState::Fair(level) => {
                self.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m])).map(|(_, w)| w).sum()
            }
            LeafState::Fifo { turn, .. } => f64::from(u8::from(turn < self.jobs.len())),
        }
    }

    /// Rising jobs as (level over weight at the cap, weight), the next to reach its cap last.
    fn by_cap(&self, caps: &[f64]) -> Vec<(f64, f64)> {
        let LeafState::Fair(level) = self.state else { return Vec::new() };
        let rising = self.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m]));
        let mut order: Vec<(f64, f64)> = rising.map(|&(m, w)| (caps[m] / w, w)).collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        order
    }
}

impl Trajectory {
    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.lengths.len()
    }

    pub(crate) fn length(&self, segment: usize) -> f64 {
        self.lengths[segment]
    }

    fn state(&self, leaf: usize, at: TrajectoryPoint) -> LeafState {
        let rate = self.rates.get(at.segment).map_or(0.0, |rates| rates[leaf]);
        self.starts[at.segment][leaf].after(rate * at.offset)
    }

    /// Level of every job at a point.
    pub(crate) fn levels_at(&self, at: TrajectoryPoint, tree: &Tree, caps: &[f64]) -> Vec<f64> {
        let mut levels = vec![0.0; caps.len()];
        for (i, leaf) in tree.leaves.iter().enumerate() {
            leaf.levels(self.state(i, at), caps, &mut levels);
        }
        levels
    }

    /// Rate of every job within a segment.
    pub(crate) fn rates_at(&self, segment: usize, tree: &Tree, caps: &[f64]) -> Vec<f64> {
        self.rates
            .get(segment)
            .map_or_else(|| vec![0.0; caps.len()], |r| tree.job_rates(&self.starts[segment], r, caps))
    }
}
