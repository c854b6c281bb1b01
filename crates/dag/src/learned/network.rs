//! The network: each task's features go through one layer, then twice a task hears the mean of those that follow it
//! and of those it follows, then three numbers come out. A few thousand weights.

use super::features::{Features, OF_TASK, OF_WHOLE};
use super::tensors::Tensors;
use crate::instance::Instance;
use crate::wide::widened;
use std::sync::LazyLock;

/// Numbers a task carries between layers.
pub(super) const HIDDEN: usize = 16;
/// How often tasks hear their neighbours.
pub(super) const SWEEPS: usize = 2;
/// Numbers that come out.
pub(super) const OUT: usize = 3;

/// Ranks are corrected by at most this many mean costs.
pub(super) const MOST_URGENCY: f32 = 4.0;
/// Foresight and thrift lie between 0 and these.
pub(super) const MOST_FORESIGHT: f32 = 1.2;
pub(super) const MOST_THRIFT: f32 = 5.0;

/// What the network says of one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advice {
    pub(super) urgency: f32,
    pub(super) foresight: f32,
    pub(super) thrift: f32,
}

/// Why bytes hold no network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The bytes end too soon.
    #[error("the file ends too soon")]
    TooShort,
    /// The header is not JSON.
    #[error("the header cannot be read")]
    Header(#[from] serde_json::Error),
    /// A part of the network is missing or has another shape.
    #[error("tensor {0} is missing or has another shape")]
    Tensor(&'static str),
    /// A weight is not a finite number.
    #[error("tensor {0} holds a number that is not finite")]
    NotFinite(&'static str),
}

/// The trained weights, in the order of `PARTS`.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub(super) weights: Vec<f32>,
}

/// Name, rows and columns of each part.
pub(super) const PARTS: [(&str, usize, usize); 13] = [
    ("in.weight", OF_TASK, HIDDEN),
    ("in.whole", OF_WHOLE, HIDDEN),
    ("in.bias", 1, HIDDEN),
    ("sweep0.self", HIDDEN, HIDDEN),
    ("sweep0.after", HIDDEN, HIDDEN),
    ("sweep0.before", HIDDEN, HIDDEN),
    ("sweep0.bias", 1, HIDDEN),
    ("sweep1.self", HIDDEN, HIDDEN),
    ("sweep1.after", HIDDEN, HIDDEN),
    ("sweep1.before", HIDDEN, HIDDEN),
    ("sweep1.bias", 1, HIDDEN),
    ("out.weight", HIDDEN, OUT),
    ("out.bias", 1, OUT),
];
/// Where the first sweep's parts begin, and the output's.
pub(super) const FIRST_SWEEP: usize = 3;
pub(super) const OUTPUT: usize = FIRST_SWEEP + 4 * SWEEPS;

impl Network {
    /// The network that ships with the program, read when it is first asked for.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Network> = LazyLock::new(|| {
            let read = Network::from_safetensors(include_bytes!("weights.safetensors"));
            read.expect("the shipped weights are whole")
        });
        &SHIPPED
    }

    /// Reads a safetensors file.
    ///
    /// # Errors
    /// When a tensor is missing, has another shape or holds a number that is not finite.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, NetworkError> {
        Self::of_tensors(&Tensors::read(bytes)?)
    }

    pub(super) fn of_tensors(tensors: &Tensors) -> Result<Self, NetworkError> {
        let mut weights = Vec::new();
        for (name, rows, columns) in PARTS {
            weights.extend(tensors.part(name, rows, columns)?);
        }
        Ok(Self { weights })
    }

    /// Writes a safetensors file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        self.to_tensors().write()
    }

    pub(super) fn to_tensors(&self) -> Tensors {
        let named = PARTS.iter().zip(self.parts());
        let parts =
            named.map(|((name, rows, columns), part)| ((*name).to_owned(), *rows, *columns, part.to_vec()));
        Tensors { parts: parts.collect(), ..Tensors::default() }
    }

    /// The parts one after another.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[f32]> {
        let mut rest = self.weights.as_slice();
        PARTS.iter().map(move |(_, rows, columns)| {
            let (part, after) = rest.split_at(rows * columns);
            rest = after;
            part
        })
    }

    pub(super) fn advise(&self, instance: &Instance, features: &Features) -> Vec<Advice> {
        let parts: Vec<&[f32]> = self.parts().collect();
        let mut base = bias(parts[2]);
        multiply_add(&features.whole, parts[1], &mut base);
        let mut state = enter(&features.rows, parts[0], base);
        for sweep in 0..SWEEPS {
            let first = FIRST_SWEEP + 4 * sweep;
            state = hear(instance, &state, &parts[first..first + 4]);
        }
        state.iter().map(|task| speak(task, parts[OUTPUT], parts[OUTPUT + 1])).collect()
    }
}

type State = [f32; HIDDEN];

widened! {
    fn enter(rows: &[[f32; OF_TASK]], weights: &[f32], base: State) -> Vec<State> = enter_plainly
}

#[inline(always)]
fn enter_plainly(rows: &[[f32; OF_TASK]], weights: &[f32], base: State) -> Vec<State> {
    let mut state = Vec::with_capacity(rows.len());
    for row in rows {
        let mut sum = base;
        multiply_add(row, weights, &mut sum);
        state.push(sum.map(rectify));
    }
    state
}

widened! {
    /// What each task makes of itself, of what follows it and of what it follows.
    fn hear(instance: &Instance, state: &[State], parts: &[&[f32]]) -> Vec<State> = hear_plainly
}

#[inline(always)]
fn hear_plainly(instance: &Instance, state: &[State], parts: &[&[f32]]) -> Vec<State> {
    let mut heard = Vec::with_capacity(state.len());
    for (task, own) in state.iter().enumerate() {
        let mut sum = bias(parts[3]);
        multiply_add(own, parts[0], &mut sum);
        multiply_add(&mean(state, instance.successors(task)), parts[1], &mut sum);
        multiply_add(&mean(state, instance.predecessors(task)), parts[2], &mut sum);
        heard.push(sum.map(rectify));
    }
    heard
}

fn speak(task: &State, weights: &[f32], bias: &[f32]) -> Advice {
    let out = |column: usize| {
        let products = task.iter().zip(weights.chunks_exact(OUT)).map(|(x, w)| x * w[column]);
        squash(bias[column] + products.sum::<f32>())
    };
    Advice {
        urgency: MOST_URGENCY * out(0),
        foresight: MOST_FORESIGHT * 0.5 * (1.0 + out(1)),
        thrift: MOST_THRIFT * 0.5 * (1.0 + out(2)),
    }
}

/// Between -1 and 1.
fn squash(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

#[inline(always)]
fn rectify(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

#[inline(always)]
fn bias(part: &[f32]) -> State {
    let mut sum = [0.0; HIDDEN];
    sum.copy_from_slice(part);
    sum
}

#[inline(always)]
fn multiply_add<const N: usize>(x: &[f32; N], weights: &[f32], sum: &mut State) {
    for (x, row) in x.iter().zip(weights.as_chunks::<HIDDEN>().0) {
        for (sum, weight) in sum.iter_mut().zip(row) {
            *sum += x * weight;
        }
    }
}

#[inline(always)]
fn mean(state: &[State], edges: &[(u32, f64)]) -> State {
    let mut sum = [0.0; HIDDEN];
    for &(other, _) in edges {
        for (sum, x) in sum.iter_mut().zip(&state[other as usize]) {
            *sum += x;
        }
    }
    let share = 1.0 / edges.len().max(1) as f32;
    sum.map(|x| x * share)
}
