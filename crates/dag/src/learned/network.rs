//! The network: each task's features go through one layer, then twice a task hears the mean of those that follow it
//! and of those it follows, then three numbers come out. A few thousand weights, in the safetensors format.

use super::features::{COUNT, Features};
use crate::instance::Instance;

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
pub(super) struct Advice {
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
pub(super) const PARTS: [(&str, usize, usize); 12] = [
    ("in.weight", COUNT, HIDDEN),
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

impl Network {
    /// How many weights there are.
    pub(super) fn size() -> usize {
        PARTS.iter().map(|(_, rows, columns)| rows * columns).sum()
    }

    /// The network that ships with the program.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn shipped() -> Self {
        Self::from_safetensors(include_bytes!("weights.safetensors")).expect("the shipped weights are whole")
    }

    /// Reads a safetensors file.
    ///
    /// # Errors
    /// When a tensor is missing, has another shape or holds a number that is not finite.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, NetworkError> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or(NetworkError::TooShort)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| NetworkError::TooShort)?;
        let header: serde_json::Value =
            serde_json::from_slice(rest.get(..length).ok_or(NetworkError::TooShort)?)?;
        let data = &rest[length..];
        let mut weights = Vec::with_capacity(Self::size());
        for (name, rows, columns) in PARTS {
            let tensor = &header[name];
            let offset =
                |at: usize| tensor["data_offsets"][at].as_u64().and_then(|o| usize::try_from(o).ok());
            let (Some(start), Some(end)) = (offset(0), offset(1)) else {
                return Err(NetworkError::Tensor(name));
            };
            if tensor["dtype"] != "F32" || end.checked_sub(start) != Some(4 * rows * columns) {
                return Err(NetworkError::Tensor(name));
            }
            let tensor = data.get(start..end).ok_or(NetworkError::TooShort)?;
            weights.extend(tensor.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
            if weights.iter().any(|w| !w.is_finite()) {
                return Err(NetworkError::NotFinite(name));
            }
        }
        Ok(Self { weights })
    }

    /// Writes a safetensors file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut at = 0;
        for (name, rows, columns) in PARTS {
            let end = at + 4 * rows * columns;
            let tensor =
                serde_json::json!({"dtype": "F32", "shape": [rows, columns], "data_offsets": [at, end]});
            header.insert(name.to_owned(), tensor);
            at = end;
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(self.weights.iter().flat_map(|w| w.to_le_bytes()));
        bytes
    }

    /// The parts one after another.
    fn parts(&self) -> impl Iterator<Item = &[f32]> {
        let mut rest = self.weights.as_slice();
        PARTS.iter().map(move |(_, rows, columns)| {
            let (part, after) = rest.split_at(rows * columns);
            rest = after;
            part
        })
    }

    pub(super) fn advise(&self, instance: &Instance, features: &Features) -> Vec<Advice> {
        let parts: Vec<&[f32]> = self.parts().collect();
        let mut state: Vec<[f32; HIDDEN]> = Vec::with_capacity(features.rows.len());
        for row in &features.rows {
            let mut sum = bias(parts[1]);
            multiply_add(row, parts[0], &mut sum);
            state.push(sum.map(rectify));
        }
        for sweep in 0..SWEEPS {
            let part = |k: usize| parts[2 + 4 * sweep + k];
            state = (0..state.len())
                .map(|task| {
                    let mut sum = bias(part(3));
                    multiply_add(&state[task], part(0), &mut sum);
                    multiply_add(&mean(&state, instance.successors(task)), part(1), &mut sum);
                    multiply_add(&mean(&state, instance.predecessors(task)), part(2), &mut sum);
                    sum.map(rectify)
                })
                .collect();
        }
        let out = |task: &[f32; HIDDEN], column: usize| {
            let products = task.iter().zip(parts[10].chunks_exact(OUT)).map(|(x, w)| x * w[column]);
            parts[11][column] + products.sum::<f32>()
        };
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        let advice = |task: &[f32; HIDDEN]| Advice {
            urgency: MOST_URGENCY * out(task, 0).tanh(),
            foresight: MOST_FORESIGHT * sigmoid(out(task, 1)),
            thrift: MOST_THRIFT * sigmoid(out(task, 2)),
        };
        state.iter().map(advice).collect()
    }
}

fn rectify(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

fn bias(part: &[f32]) -> [f32; HIDDEN] {
    let mut sum = [0.0; HIDDEN];
    sum.copy_from_slice(part);
    sum
}

#[inline]
fn multiply_add<const N: usize>(x: &[f32; N], weights: &[f32], sum: &mut [f32; HIDDEN]) {
    for (x, row) in x.iter().zip(weights.as_chunks::<HIDDEN>().0) {
        for (sum, weight) in sum.iter_mut().zip(row) {
            *sum += x * weight;
        }
    }
}

#[inline]
fn mean(state: &[[f32; HIDDEN]], edges: &[(u32, f64)]) -> [f32; HIDDEN] {
    let mut sum = [0.0; HIDDEN];
    for &(other, _) in edges {
        for (sum, x) in sum.iter_mut().zip(&state[other as usize]) {
            *sum += x;
        }
    }
    let share = 1.0 / edges.len().max(1) as f32;
    sum.map(|x| x * share)
}
