//! Graph network: an input layer per task, two message-passing layers that mix in the mean state of successors and
//! predecessors, and three outputs. A few thousand weights.

use super::features::{Features, INSTANCE_FEATURES, TASK_FEATURES};
use super::tensors::Tensors;
use crate::instance::Instance;
use crate::multiversion::multiversioned;
use std::sync::LazyLock;

/// Width of the state of a task between layers.
pub(super) const HIDDEN: usize = 16;
/// Number of message-passing layers.
pub(super) const MESSAGE_LAYERS: usize = 2;
/// Outputs per task.
pub(super) const OUTPUTS: usize = 3;

/// Largest correction of a rank, in mean costs.
pub(super) const MAX_URGENCY: f32 = 4.0;
/// Upper bounds of foresight and thrift; the lower bounds are 0.
pub(super) const MAX_FORESIGHT: f32 = 1.2;
pub(super) const MAX_THRIFT: f32 = 5.0;

/// Network output for one task: correction of its rank and its bias weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskOutput {
    pub(super) urgency: f32,
    pub(super) foresight: f32,
    pub(super) thrift: f32,
}

/// Reason bytes are not a network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Truncated file.
    #[error("the file ends too soon")]
    TooShort,
    /// Header that is not JSON.
    #[error("the header cannot be read")]
    Header(#[from] serde_json::Error),
    /// Tensor missing or of another shape.
    #[error("tensor {0} is missing or has another shape")]
    Tensor(&'static str),
    /// Weight that is not finite.
    #[error("tensor {0} holds a number that is not finite")]
    NotFinite(&'static str),
}

/// Trained weights, in the order of `PARTS`.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub(super) weights: Vec<f32>,
}

/// Name, rows and columns of each tensor.
pub(super) const PARTS: [(&str, usize, usize); 13] = [
    ("in.weight", TASK_FEATURES, HIDDEN),
    ("in.whole", INSTANCE_FEATURES, HIDDEN),
    ("in.bias", 1, HIDDEN),
    ("sweep0.self", HIDDEN, HIDDEN),
    ("sweep0.after", HIDDEN, HIDDEN),
    ("sweep0.before", HIDDEN, HIDDEN),
    ("sweep0.bias", 1, HIDDEN),
    ("sweep1.self", HIDDEN, HIDDEN),
    ("sweep1.after", HIDDEN, HIDDEN),
    ("sweep1.before", HIDDEN, HIDDEN),
    ("sweep1.bias", 1, HIDDEN),
    ("out.weight", HIDDEN, OUTPUTS),
    ("out.bias", 1, OUTPUTS),
];
/// Index in `PARTS` of the first message-passing layer, and of the output layer.
pub(super) const FIRST_MESSAGE_PART: usize = 3;
pub(super) const OUTPUT_PART: usize = FIRST_MESSAGE_PART + 4 * MESSAGE_LAYERS;

impl Network {
    /// Network that ships with the program, parsed on first use.
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

    /// Parses a safetensors file.
    ///
    /// # Errors
    /// When a tensor is missing, has another shape or holds a number that is not finite.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, NetworkError> {
        Self::of_tensors(&Tensors::read(bytes)?)
    }

    pub(super) fn of_tensors(tensors: &Tensors) -> Result<Self, NetworkError> {
        let mut weights = Vec::new();
        for (name, rows, columns) in PARTS {
            weights.extend(tensors.tensor(name, rows, columns)?);
        }
        Ok(Self { weights })
    }

    /// Serialises to a safetensors file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        self.to_tensors().write()
    }

    pub(super) fn to_tensors(&self) -> Tensors {
        let named = PARTS.iter().zip(self.parts());
        let parts =
            named.map(|((name, rows, columns), part)| ((*name).to_owned(), *rows, *columns, part.to_vec()));
        Tensors { parts: parts.collect(), ..Tensors::default() }
    }

    /// Weights of each part, in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[f32]> {
        let mut rest = self.weights.as_slice();
        PARTS.iter().map(move |(_, rows, columns)| {
            let (part, after) = rest.split_at(rows * columns);
            rest = after;
            part
        })
    }

    /// Forward pass over all tasks of an instance.
    pub(super) fn forward(&self, instance: &Instance, features: &Features) -> Vec<TaskOutput> {
        let parts: Vec<&[f32]> = self.parts().collect();
        let mut base = bias(parts[2]);
        multiply_add(&features.global, parts[1], &mut base);
        let mut state = input_layer(&features.rows, parts[0], base);
        for layer in 0..MESSAGE_LAYERS {
            let first = FIRST_MESSAGE_PART + 4 * layer;
            state = message_layer(instance, &state, &parts[first..first + 4]);
        }
        state.iter().map(|task| output_layer(task, parts[OUTPUT_PART], parts[OUTPUT_PART + 1])).collect()
    }
}

type State = [f32; HIDDEN];

multiversioned! {
    fn input_layer(rows: &[[f32; TASK_FEATURES]], weights: &[f32], base: State) -> Vec<State> = input_layer_scalar
}

#[inline(always)]
fn input_layer_scalar(rows: &[[f32; TASK_FEATURES]], weights: &[f32], base: State) -> Vec<State> {
    let mut state = Vec::with_capacity(rows.len());
    for row in rows {
        let mut sum = base;
        multiply_add(row, weights, &mut sum);
        state.push(sum.map(relu));
    }
    state
}

multiversioned! {
    /// Message-passing layer: new state of each task from its own and the means of its successors and predecessors.
    fn message_layer(instance: &Instance, state: &[State], parts: &[&[f32]]) -> Vec<State> = message_layer_scalar
}

#[inline(always)]
fn message_layer_scalar(instance: &Instance, state: &[State], parts: &[&[f32]]) -> Vec<State> {
    let mut next = Vec::with_capacity(state.len());
    for (task, own) in state.iter().enumerate() {
        let mut sum = bias(parts[3]);
        multiply_add(own, parts[0], &mut sum);
        multiply_add(&mean(state, instance.successors(task)), parts[1], &mut sum);
        multiply_add(&mean(state, instance.predecessors(task)), parts[2], &mut sum);
        next.push(sum.map(relu));
    }
    next
}

fn output_layer(task: &State, weights: &[f32], bias: &[f32]) -> TaskOutput {
    let out = |column: usize| {
        let products = task.iter().zip(weights.chunks_exact(OUTPUTS)).map(|(x, w)| x * w[column]);
        softsign(bias[column] + products.sum::<f32>())
    };
    TaskOutput {
        urgency: MAX_URGENCY * out(0),
        foresight: MAX_FORESIGHT * 0.5 * (1.0 + out(1)),
        thrift: MAX_THRIFT * 0.5 * (1.0 + out(2)),
    }
}

/// Softsign activation, between -1 and 1.
fn softsign(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

#[inline(always)]
fn relu(x: f32) -> f32 {
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
