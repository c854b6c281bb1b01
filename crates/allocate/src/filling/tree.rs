//! Who rises how fast: the tree of entities, and the course its levels take as long as only the jobs' own caps stop
//! them. Knows nothing of GPUs.

use std::collections::HashMap;

use crate::instance::{Entities, Instance, Sharing};

/// A group of jobs.
#[derive(Debug, Clone)]
struct Leaf {
    /// Jobs and their weights, in order of arrival.
    jobs: Vec<(usize, f64)>,
    state: State,
}

/// How far a group has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Everyone's level over weight.
    Fair(f64),
    /// Whose turn it is, and that job's level.
    Fifo { turn: usize, level: f64 },
}

#[derive(Debug, Clone)]
enum Node {
    Group { weight: f64, policy: Sharing, members: Vec<Node> },
    Leaf { weight: f64, leaf: usize },
}

/// Entities, their weights and how far each has come.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: Node,
    leaves: Vec<Leaf>,
}

/// The levels' course until every job is at its cap: pieces in which all rates stay as they are.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    starts: Vec<Vec<State>>,
    rates: Vec<Vec<f64>>,
    lengths: Vec<f64>,
}

/// A place on a course: how far into which piece. The piece after the last is the course's end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) piece: usize,
    pub(crate) offset: f64,
}

impl Tree {
    /// One fair group of everyone.
    pub(crate) fn flat(weights: &[f64]) -> Self {
        let jobs = weights.iter().copied().enumerate().collect();
        Self {
            root: Node::Leaf { weight: 1.0, leaf: 0 },
            leaves: vec![Leaf { jobs, state: State::Fair(0.0) }],
        }
    }

    /// The instance's entities.
    pub(crate) fn nested(instance: &Instance, entities: &Entities) -> Self {
        let places: HashMap<u64, usize> =
            instance.jobs.iter().enumerate().map(|(m, job)| (job.id, m)).collect();
        let mut leaves = Vec::new();
        let members = members(instance, entities, &places, &mut leaves);
        Self { root: Node::Group { weight: 1.0, policy: Sharing::Fair, members }, leaves }
    }

    /// For each job a number that it shares with those that always have its level.
    pub(crate) fn kin(&self, jobs: usize) -> Vec<usize> {
        let mut numbers: HashMap<(usize, u64), usize> = HashMap::new();
        let mut kin = vec![0; jobs];
        for (i, leaf) in self.leaves.iter().enumerate() {
            for (place, &(m, weight)) in leaf.jobs.iter().enumerate() {
                let alike = match leaf.state {
                    State::Fair(_) => weight.to_bits(),
                    State::Fifo { .. } => place as u64,
                };
                let next = numbers.len();
                kin[m] = *numbers.entry((i, alike)).or_insert(next);
            }
        }
        kin
    }

    /// The jobs under each entity at the top, and its weight.
    pub(crate) fn top(&self) -> Vec<(f64, Vec<usize>)> {
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

    /// Every job's level now.
    pub(crate) fn levels(&self, caps: &[f64]) -> Vec<f64> {
        let mut levels = vec![0.0; caps.len()];
        for leaf in &self.leaves {
            leaf.levels(leaf.state, caps, &mut levels);
        }
        levels
    }

    /// Moves on to a place of the course.
    pub(crate) fn advance(&mut self, course: &Course, at: Place) {
        for (i, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.state = course.state(i, at);
        }
    }

    /// Passes the turn on from jobs that have been stopped.
    pub(crate) fn settle(&mut self, caps: &[f64]) {
        for leaf in &mut self.leaves {
            leaf.state = leaf.settled(leaf.state, caps);
        }
    }

    /// The course from here until every job is at its cap.
    pub(crate) fn course(&self, caps: &[f64]) -> Course {
        let mut states: Vec<State> = self.leaves.iter().map(|leaf| leaf.settled(leaf.state, caps)).collect();
        let mut course = Course { starts: vec![states.clone()], rates: Vec::new(), lengths: Vec::new() };
        // Fair groups reach their jobs' caps in this order.
        let mut orders: Vec<Vec<(f64, f64)>> = self.leaves.iter().map(|leaf| leaf.by_cap(caps)).collect();
        let mut movers = self.movers(&states, caps);
        loop {
            let rates = self.leaf_rates(&movers);
            let mut length = f64::INFINITY;
            let mut next = Vec::with_capacity(states.len());
            for (i, leaf) in self.leaves.iter().enumerate() {
                let goal = match states[i] {
                    State::Fair(level) => orders[i].last().map(|(at, _)| (*at, (at - level).max(0.0))),
                    State::Fifo { turn, level } => {
                        leaf.jobs.get(turn).map(|(m, _)| (caps[*m], (caps[*m] - level).max(0.0)))
                    }
                };
                if let Some((at, left)) = goal.filter(|_| rates[i] > 0.0) {
                    length = length.min(left / rates[i]);
                    next.push((i, at, left / rates[i]));
                }
            }
            if length.is_infinite() {
                return course;
            }
            states.iter_mut().zip(&rates).for_each(|(state, rate)| *state = state.after(rate * length));
            for (i, at, _) in next.iter().filter(|(_, _, left)| *left <= length * (1.0 + 1e-12)) {
                match &mut states[*i] {
                    State::Fair(level) => {
                        *level = *at;
                        while orders[*i].last().is_some_and(|(cap, _)| *cap <= *at * (1.0 + 1e-12)) {
                            let (_, weight) = orders[*i].pop().unwrap_or_default();
                            movers[*i] = if orders[*i].is_empty() { 0.0 } else { movers[*i] - weight };
                        }
                    }
                    State::Fifo { level, .. } => {
                        *level = *at;
                        states[*i] = self.leaves[*i].settled(states[*i], caps);
                        movers[*i] = self.leaves[*i].mover(states[*i], caps);
                    }
                }
            }
            course.lengths.push(length);
            course.rates.push(rates);
            course.starts.push(states.clone());
        }
    }

    /// The weight of each leaf's jobs that can still rise.
    fn movers(&self, states: &[State], caps: &[f64]) -> Vec<f64> {
        self.leaves.iter().zip(states).map(|(leaf, state)| leaf.mover(*state, caps)).collect()
    }

    /// How fast each leaf's state moves, given the weight in it that can.
    fn leaf_rates(&self, movers: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; movers.len()];
        self.root.share_out(1.0, movers, &mut rates);
        rates.iter_mut().zip(movers).for_each(|(rate, weight)| {
            if *rate > 0.0 {
                *rate /= weight;
            }
        });
        rates
    }

    fn job_rates(&self, states: &[State], rates: &[f64], caps: &[f64]) -> Vec<f64> {
        let mut jobs = vec![0.0; caps.len()];
        for ((leaf, state), rate) in self.leaves.iter().zip(states).zip(rates) {
            match *state {
                State::Fair(level) => {
                    for &(m, weight) in leaf.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m])) {
                        jobs[m] = weight * rate;
                    }
                }
                State::Fifo { turn, .. } => {
                    if let Some((m, _)) = leaf.jobs.get(turn) {
                        jobs[*m] = *rate;
                    }
                }
            }
        }
        jobs
    }
}

/// A job this close to its cap is there.
fn rises(level: f64, cap: f64) -> bool {
    level < cap * (1.0 - 1e-12)
}

fn members(
    instance: &Instance,
    entities: &Entities,
    places: &HashMap<u64, usize>,
    leaves: &mut Vec<Leaf>,
) -> Vec<Node> {
    let node = |(name, &weight): (&String, &f64)| {
        let policy = entities.policies[name];
        if let Some(inner) = entities.entities.get(name) {
            let members = members(instance, inner, places, leaves);
            return Node::Group { weight, policy, members };
        }
        let ids = entities.jobs.get(name).map_or(&[][..], Vec::as_slice);
        let jobs = ids.iter().map(|id| places[id]).map(|m| (m, instance.jobs[m].weight)).collect();
        let state = match policy {
            Sharing::Fair => State::Fair(0.0),
            Sharing::Fifo => State::Fifo { turn: 0, level: 0.0 },
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

    fn rises(&self, movers: &[f64]) -> bool {
        match self {
            Self::Leaf { leaf, .. } => movers[*leaf] > 0.0,
            Self::Group { members, .. } => members.iter().any(|member| member.rises(movers)),
        }
    }

    fn share_out(&self, rate: f64, movers: &[f64], rates: &mut [f64]) {
        match self {
            Self::Leaf { leaf, .. } => rates[*leaf] = if movers[*leaf] > 0.0 { rate } else { 0.0 },
            Self::Group { policy, members, .. } => {
                let rising: Vec<&Self> = members.iter().filter(|member| member.rises(movers)).collect();
                let total: f64 = rising.iter().map(|member| member.weight()).sum();
                for (i, member) in rising.iter().enumerate() {
                    let part = match policy {
                        Sharing::Fair => member.weight() / total,
                        Sharing::Fifo => f64::from(u8::from(i == 0)),
                    };
                    if part > 0.0 {
                        member.share_out(rate * part, movers, rates);
                    }
                }
            }
        }
    }
}

impl State {
    fn after(self, progress: f64) -> Self {
        match self {
            Self::Fair(level) => Self::Fair(level + progress),
            Self::Fifo { turn, level } => Self::Fifo { turn, level: level + progress },
        }
    }
}

impl Leaf {
    fn levels(&self, state: State, caps: &[f64], levels: &mut [f64]) {
        for (i, &(m, weight)) in self.jobs.iter().enumerate() {
            levels[m] = match state {
                State::Fair(level) => (weight * level).min(caps[m]),
                State::Fifo { turn, .. } if i < turn => caps[m],
                State::Fifo { turn, level } if i == turn => level.min(caps[m]),
                State::Fifo { .. } => 0.0,
            };
        }
    }

    /// Passes the turn on from jobs at their cap.
    fn settled(&self, state: State, caps: &[f64]) -> State {
        let State::Fifo { mut turn, mut level } = state else { return state };
        while self.jobs.get(turn).is_some_and(|(m, _)| !rises(level, caps[*m])) {
            (turn, level) = (turn + 1, 0.0);
        }
        State::Fifo { turn, level }
    }

    /// The weight of the jobs that can still rise; a turn weighs 1.
    fn mover(&self, state: State, caps: &[f64]) -> f64 {
        match state {
            State::Fair(level) => {
                self.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m])).map(|(_, w)| w).sum()
            }
            State::Fifo { turn, .. } => f64::from(u8::from(turn < self.jobs.len())),
        }
    }

    /// The jobs that can still rise, by the level over weight at which they reach their cap, the first one last.
    fn by_cap(&self, caps: &[f64]) -> Vec<(f64, f64)> {
        let State::Fair(level) = self.state else { return Vec::new() };
        let rising = self.jobs.iter().filter(|(m, w)| rises(w * level, caps[*m]));
        let mut order: Vec<(f64, f64)> = rising.map(|&(m, w)| (caps[m] / w, w)).collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        order
    }
}

impl Course {
    /// How many pieces there are.
    pub(crate) fn pieces(&self) -> usize {
        self.lengths.len()
    }

    pub(crate) fn length(&self, piece: usize) -> f64 {
        self.lengths[piece]
    }

    fn state(&self, leaf: usize, at: Place) -> State {
        let rate = self.rates.get(at.piece).map_or(0.0, |rates| rates[leaf]);
        self.starts[at.piece][leaf].after(rate * at.offset)
    }

    /// Every job's level at a place.
    pub(crate) fn levels_at(&self, at: Place, tree: &Tree, caps: &[f64]) -> Vec<f64> {
        let mut levels = vec![0.0; caps.len()];
        for (i, leaf) in tree.leaves.iter().enumerate() {
            leaf.levels(self.state(i, at), caps, &mut levels);
        }
        levels
    }

    /// Every job's rate within a piece.
    pub(crate) fn rates_at(&self, piece: usize, tree: &Tree, caps: &[f64]) -> Vec<f64> {
        self.rates
            .get(piece)
            .map_or_else(|| vec![0.0; caps.len()], |r| tree.job_rates(&self.starts[piece], r, caps))
    }
}
