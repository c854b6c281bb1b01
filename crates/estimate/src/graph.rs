//! The graph of a model: tensors with shape and element type, and operators in execution order under their ATen names.
//! Every reader produces this form; nothing here knows about files or about memory.

use crate::calls::Calls;
use std::fmt;

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DType {
    /// Boolean, one byte.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// 16-bit integer.
    I16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 8-bit floating point.
    F8,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Complex of two single-precision numbers.
    C64,
    /// Complex of two double-precision numbers.
    C128,
}

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8 => 1,
            Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// Whether gradients can flow through tensors of this type.
    pub fn is_differentiable(self) -> bool {
        matches!(self, Self::F8 | Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::C64 | Self::C128)
    }
}

/// Index of a tensor in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    /// Position in [`Graph::tensors`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a tensor is to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A weight that training changes.
    Parameter,
    /// State kept with the model but not trained, such as running statistics. Also constants.
    Buffer,
    /// Given by the caller for each batch.
    Input,
    /// Computed by an operator.
    Activation,
}

/// A tensor: its shape is known, its values are not.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Name in the file.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    /// Distance between neighbours along each dimension, in elements.
    pub strides: Vec<u64>,
    /// What it is to the model.
    pub role: Role,
}

impl Tensor {
    /// A dense row-major tensor.
    pub fn dense(name: impl Into<String>, dtype: DType, shape: Vec<u64>, role: Role) -> Self {
        let strides = row_major(&shape);
        Self { name: name.into(), dtype, shape, strides, role }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product: u64, &size| product.saturating_mul(size))
    }

    /// Bytes of a dense copy.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes())
    }

    /// Size of a dimension counted from the end: 0 is the last.
    pub fn last(&self, from_end: usize) -> u64 {
        self.shape.len().checked_sub(from_end + 1).map_or(1, |at| self.shape[at])
    }

    /// Whether elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let dense = row_major(&self.shape);
        let pairs = self.shape.iter().zip(self.strides.iter().zip(&dense));
        pairs.into_iter().all(|(&size, (stride, dense))| size == 1 || stride == dense)
    }
}

/// Strides of a dense row-major tensor.
pub fn row_major(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
    }
    strides
}

/// An argument of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A tensor.
    Tensor(TensorId),
    /// A list of tensors.
    Tensors(Vec<TensorId>),
    /// A whole number.
    Int(i64),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string, or the name of an enumerated value such as an element type.
    Text(String),
    /// Explicitly absent.
    None,
}

/// One operator call.
#[derive(Debug, Clone)]
pub struct Node {
    /// ATen name without namespace and overload, such as `conv2d` or `add_`.
    pub operator: String,
    /// Arguments by their name in the ATen signature.
    pub args: Vec<(String, Arg)>,
    /// Results.
    pub outputs: Vec<TensorId>,
    /// Whether the node runs under `no_grad`: nothing is kept for backward.
    pub detached: bool,
}

impl Node {
    /// The argument of that name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.args.iter().find(|(known, _)| known == name).map(|(_, arg)| arg)
    }

    /// A tensor argument by name.
    pub fn tensor(&self, name: &str) -> Option<TensorId> {
        match self.arg(name) {
            Some(Arg::Tensor(id)) => Some(*id),
            _ => None,
        }
    }

    /// An integer argument by name.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.arg(name) {
            Some(Arg::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// A Boolean argument by name.
    pub fn bool(&self, name: &str) -> Option<bool> {
        match self.arg(name) {
            Some(Arg::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// Every tensor among the arguments, in order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.args
            .iter()
            .flat_map(|(_, arg)| match arg {
                Arg::Tensor(id) => std::slice::from_ref(id),
                Arg::Tensors(ids) => ids.as_slice(),
                _ => &[],
            })
            .copied()
    }

    /// The first tensor among the arguments: `self` or `input` in most signatures.
    pub fn first(&self) -> Option<TensorId> {
        self.tensors().next()
    }
}

/// File format a graph was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `torch.export` archive.
    Pt2,
    /// ONNX model.
    Onnx,
    /// safetensors weights.
    Safetensors,
    /// GGUF weights.
    Gguf,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pt2 => "torch.export archive",
            Self::Onnx => "ONNX model",
            Self::Safetensors => "safetensors file",
            Self::Gguf => "GGUF file",
        })
    }
}

/// A model whose every shape is known.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Where it was read from.
    pub format: Format,
    /// Every tensor.
    pub tensors: Vec<Tensor>,
    /// Operators in execution order.
    pub nodes: Vec<Node>,
    /// What the caller receives.
    pub outputs: Vec<TensorId>,
    /// Calls of modules, where the file tells them.
    pub calls: Calls,
}

impl Graph {
    /// The tensor with that index.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// Tensors of a role, in order.
    pub fn of_role(&self, role: Role) -> impl Iterator<Item = TensorId> + '_ {
        let ids = (0..self.tensors.len() as u32).map(TensorId);
        ids.filter(move |id| self.tensor(*id).role == role)
    }

    /// Number of trained weights.
    pub fn parameters(&self) -> u64 {
        self.of_role(Role::Parameter).fold(0, |sum: u64, id| sum.saturating_add(self.tensor(id).elements()))
    }

    /// Bytes of parameters and buffers.
    pub fn weights_bytes(&self) -> u64 {
        let all = self.of_role(Role::Parameter).chain(self.of_role(Role::Buffer));
        all.fold(0, |sum: u64, id| sum.saturating_add(self.tensor(id).bytes()))
    }
}
