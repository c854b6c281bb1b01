//! Operators: what each allocates, what it keeps for its backward pass, what that allocates, and how many multiply-adds it takes.
//! These are facts about PyTorch's eager kernels, one line per operator; nothing depends on the model an operator is in. Where
//! kernels for the CPU keep something else than those for CUDA, [`Device`] decides.
//!
//! An operator that is not in the table is bounded: its results are fresh, it keeps every operand and result, and it needs scratch
//! memory of their size.

mod cost;
mod recurrent;
mod views;

pub(crate) use views::{permutation, view_strides};

use crate::graph::{Arg, Graph, Node, Tensor, TensorId};

/// What running a node does to memory and time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Semantics {
    /// Where results live.
    pub(crate) storage: Storage,
    /// Bytes held only while the kernel runs.
    pub(crate) scratch: Vec<u64>,
    /// Kept until the backward pass has used it, where a gradient is wanted.
    pub(crate) saved: Vec<Saved>,
    /// Bytes held only while the backward kernel runs.
    pub(crate) backward_scratch: Vec<u64>,
    /// How the gradient of each differentiable operand comes about.
    pub(crate) gradients: Vec<(TensorId, Gradient)>,
    /// Whether the backward kernel copies a gradient that is not contiguous.
    pub(crate) wants_dense_gradient: bool,
    /// Whether results are views to autograd: not operands passed on as they are.
    pub(crate) is_view: bool,
    /// Whether it multiplies matrices, which needs a cuBLAS workspace.
    pub(crate) uses_blas: bool,
    /// Multiply-adds of the forward pass.
    pub(crate) macs: u64,
    /// Whether the operator is in the table.
    pub(crate) known: bool,
}

/// Where an operator's results live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In memory of their own.
    Fresh,
    /// In the memory of an operand that they are a view of.
    View(TensorId),
    /// In the memory of an operand that they overwrite.
    InPlace(TensorId),
}

/// Something kept for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    /// An operand or result.
    Tensor(TensorId),
    /// Something made for the purpose: a mask, statistics, a copy.
    Extra(u64),
}

/// How a gradient comes about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gradient {
    /// In memory of its own.
    Fresh,
    /// It is the result's gradient, unchanged.
    Same,
    /// It is the result's gradient in another shape; copied where strides do not allow that.
    Reshaped,
    /// It is the result's gradient with dimensions reordered; gives where each dimension of the result came from.
    Permuted(Vec<usize>),
    /// A part of the result's gradient, seen where it lies (`cat`).
    Part,
    /// A product of the result's size, summed over broadcast dimensions afterwards.
    Reduced,
}

impl Semantics {
    fn fresh() -> Self {
        Self {
            storage: Storage::Fresh,
            scratch: vec![],
            saved: vec![],
            backward_scratch: vec![],
            gradients: vec![],
            wants_dense_gradient: false,
            is_view: false,
            uses_blas: false,
            macs: 0,
            known: true,
        }
    }

    fn view(of: TensorId, gradient: Gradient) -> Self {
        Self { storage: Storage::View(of), gradients: vec![(of, gradient)], ..Self::fresh() }
    }

    /// An operator on each element whose gradient takes memory of its own.
    fn elementwise(operand: TensorId, saved: Vec<Saved>) -> Self {
        Self { saved, gradients: vec![(operand, Gradient::Fresh)], ..Self::fresh() }
    }
}

/// Device whose kernels run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// A GPU through CUDA.
    #[default]
    Cuda,
    /// The processor: what real PyTorch can be compared with where there is no GPU.
    Cpu,
}

/// Which tensors a gradient is wanted for.
pub(crate) type Wanted = [bool];

/// The semantics of a node.
pub(crate) fn semantics(graph: &Graph, node: &Node, wanted: &Wanted, device: Device) -> Semantics {
    let call = Call { graph, node, wanted, device };
    let mut semantics = call.known().unwrap_or_else(|| call.unknown());
    semantics.macs = cost::macs(graph, node);
    semantics
}

/// Floating-point operations of a node with that many multiply-adds.
pub(crate) fn flops(graph: &Graph, node: &Node, macs: u64) -> u64 {
    cost::flops(graph, node, macs)
}

struct Call<'a> {
    graph: &'a Graph,
    node: &'a Node,
    wanted: &'a Wanted,
    device: Device,
}

impl Call<'_> {
    fn tensor(&self, id: TensorId) -> &Tensor {
        self.graph.tensor(id)
    }

    fn wants(&self, id: TensorId) -> bool {
        self.wanted[id.index()]
    }

    fn result(&self) -> Option<TensorId> {
        self.node.outputs.first().copied()
    }

    /// The table. None for an operator that is not in it, or is called in a way that makes no sense.
    fn known(&self) -> Option<Semantics> {
        let node = self.node;
        let (name, in_place) = match node.operator.strip_suffix('_') {
            Some(name) if !name.ends_with('_') => (name, true),
            _ => (node.operator.as_str(), false),
        };
        let Some(first) = node.first() else {
            return is_factory(name).then(Semantics::fresh);
        };
        let semantics = match name {
            _ if is_factory(name) => Semantics::fresh(),
            "conv1d" | "conv2d" | "conv3d" | "convolution" | "conv_transpose1d" | "conv_transpose2d"
            | "conv_transpose3d" => self.convolution(first)?,
            "linear" => self.linear(first)?,
            "matmul" | "mm" | "bmm" | "addmm" | "baddbmm" | "mv" | "dot" => self.matrix_product()?,
            "scaled_dot_product_attention" => self.attention()?,
            "lstm" | "gru" | "rnn_tanh" | "rnn_relu" => self.recurrent(name)?,
            "batch_norm" => self.normalisation(first, self.channels(first)),
            // A batch norm of every channel of every sample, seen in the input's shape again.
            "instance_norm" => {
                let samples = self.tensor(first).shape.first().copied().unwrap_or(1);
                let channels = self.channels(first).saturating_mul(samples);
                Semantics { is_view: true, ..self.normalisation(first, channels) }
            }
            "layer_norm" | "native_layer_norm" => self.normalisation(first, self.rows(first)),
            "group_norm" | "native_group_norm" => self.normalisation(first, self.groups(first)),
            "rms_norm" => self.normalisation(first, self.rows(first) / 2),
            "embedding" => Semantics {
                saved: vec![Saved::Tensor(node.tensor("indices")?)],
                gradients: vec![(first, Gradient::Fresh)],
                ..Semantics::fresh()
            },
            // Beside the sums it gives three lists of places, which backward needs.
            "embedding_bag" | "_embedding_bag" => Semantics {
                saved: node
                    .tensors()
                    .chain(node.outputs.iter().copied())
                    .skip(1)
                    .map(Saved::Tensor)
                    .collect(),
                gradients: vec![(first, Gradient::Fresh)],
                ..Semantics::fresh()
            },
            "broadcast_tensors" => Semantics {
                gradients: node.tensors().map(|id| (id, Gradient::Same)).collect(),
                ..Semantics::view(first, Gradient::Same)
            },
            "cross_entropy_loss" => self.cross_entropy(first),
            "nll_loss" | "nll_loss_nd" | "nll_loss2d" => {
                Semantics::elementwise(first, vec![Saved::Tensor(first)])
            }
            "max_pool1d" | "max_pool2d" | "max_pool3d" | "max_pool2d_with_indices" => {
                let indices = self.tensor(self.result()?).elements().saturating_mul(8);
                Semantics::elementwise(first, vec![Saved::Tensor(first), Saved::Extra(indices)])
            }
            "adaptive_avg_pool1d" | "adaptive_avg_pool2d" | "adaptive_avg_pool3d" => {
                // To one pixel it is a mean, which keeps nothing.
                let to_one =
                    self.tensor(self.result()?).last(0) == 1 && self.tensor(self.result()?).last(1) == 1;
                Semantics::elementwise(first, if to_one { vec![] } else { vec![Saved::Tensor(first)] })
            }
            "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => {
                Semantics::elementwise(first, vec![Saved::Tensor(first)])
            }
            "adaptive_max_pool2d" => {
                let indices = self.tensor(self.result()?).elements().saturating_mul(8);
                Semantics::elementwise(first, vec![Saved::Tensor(first), Saved::Extra(indices)])
            }
            "dropout" | "feature_dropout" | "alpha_dropout" | "native_dropout" => {
                self.dropout(first, in_place)?
            }
            "bernoulli" => Semantics::fresh(),
            "add" | "sub" | "rsub" => self.sum(name),
            "mul" | "div" => self.product(name),
            "addcmul" | "addcdiv" | "lerp" => Semantics {
                saved: node.tensors().map(Saved::Tensor).collect(),
                gradients: node.tensors().map(|id| (id, self.broadcast(id))).collect(),
                ..Semantics::fresh()
            },
            "pow" => self.power(first),
            "cat" | "concat" | "stack" | "hstack" | "vstack" => {
                let parts = node.tensors().map(|id| (id, Gradient::Part)).collect();
                Semantics { gradients: parts, ..Semantics::fresh() }
            }
            "where" | "maximum" | "minimum" => Semantics {
                saved: vec![Saved::Tensor(first)],
                gradients: node.tensors().map(|id| (id, self.broadcast(id))).collect(),
                ..Semantics::fresh()
            },
            "contiguous" | "clone" | "to" | "_to_copy" | "type_as" | "float" | "lift_fresh_copy"
            | "detach" | "alias" | "lift_fresh" | "detach_copy" => self.conversion(name, first)?,
            _ if KEEPS_INPUT.contains(&name) => self.on_elements(first, Saved::Tensor(first), in_place),
            _ if KEEPS_RESULT.contains(&name) => {
                self.on_elements(first, Saved::Tensor(self.result()?), false)
            }
            _ if KEEPS_NOTHING.contains(&name) => Semantics::elementwise(first, vec![]),
            _ if NOT_DIFFERENTIABLE.contains(&name) => Semantics::fresh(),
            _ => {
                let view = self.view(name, first)?;
                Semantics { is_view: matches!(view.storage, Storage::View(_)), ..view }
            }
        };
        Some(match in_place {
            true => Semantics { storage: Storage::InPlace(first), ..semantics },
            false => semantics,
        })
    }

    /// The bound for an operator that is not in the table.
    fn unknown(&self) -> Semantics {
        let all: Vec<TensorId> = self.node.tensors().chain(self.node.outputs.iter().copied()).collect();
        let bytes = all.iter().fold(0u64, |sum, id| sum.saturating_add(self.tensor(*id).bytes()));
        Semantics {
            scratch: vec![bytes],
            saved: all.into_iter().map(Saved::Tensor).collect(),
            backward_scratch: vec![bytes],
            gradients: self.node.tensors().map(|id| (id, Gradient::Fresh)).collect(),
            known: false,
            ..Semantics::fresh()
        }
    }

    fn convolution(&self, input: TensorId) -> Option<Semantics> {
        let weight = self.node.tensor("weight")?;
        let operands = [Some(input), Some(weight), self.node.tensor("bias")];
        Some(Semantics {
            saved: self.factors(input, weight),
            gradients: operands.into_iter().flatten().map(|id| (id, Gradient::Fresh)).collect(),
            wants_dense_gradient: true,
            ..Semantics::fresh()
        })
    }

    fn linear(&self, input: TensorId) -> Option<Semantics> {
        let weight = self.node.tensor("weight")?;
        let operands = [Some(input), Some(weight), self.node.tensor("bias")];
        let mut saved = self.factors(input, weight);
        let mut scratch = vec![];
        let of = self.tensor(input);
        // The product is of two matrices; an input that cannot be seen as one is copied, and the copy is what is kept.
        let rows = of.elements().checked_div(of.last(0)).unwrap_or(0);
        if view_strides(&of.shape, &of.strides, &[rows, of.last(0)]).is_none() {
            match saved.iter_mut().find(|saved| **saved == Saved::Tensor(input)) {
                Some(kept) => *kept = Saved::Extra(of.bytes()),
                None => scratch.push(of.bytes()),
            }
        }
        Some(Semantics {
            saved,
            scratch,
            gradients: operands.into_iter().flatten().map(|id| (id, Gradient::Fresh)).collect(),
            wants_dense_gradient: true,
            uses_blas: true,
            ..Semantics::fresh()
        })
    }

    /// Operands of a product: each is kept where the other's gradient is wanted.
    fn factors(&self, a: TensorId, b: TensorId) -> Vec<Saved> {
        let pairs = [(a, b), (b, a)];
        pairs
            .into_iter()
            .filter(|(_, other)| self.wants(*other))
            .map(|(kept, _)| Saved::Tensor(kept))
            .collect()
    }

    fn matrix_product(&self) -> Option<Semantics> {
        let mut operands: Vec<TensorId> = self.node.tensors().collect();
        // In `addmm` the matrices come after what is added.
        let added = (operands.len() == 3).then(|| operands.remove(0));
        let [a, b] = operands[..] else { return None };
        let mut saved = self.factors(a, b);
        let mut scratch = vec![];
        for id in [a, b] {
            let of = self.tensor(id);
            if of.shape.len() < 3 {
                continue;
            }
            // Batched products see each operand as a stack of matrices; where its strides forbid that it is copied.
            let (rows, columns) = (of.last(1), of.last(0));
            let batches = of.elements().checked_div(rows.saturating_mul(columns)).unwrap_or(0);
            if view_strides(&of.shape, &of.strides, &[batches, rows, columns]).is_none() {
                match saved.iter_mut().find(|saved| **saved == Saved::Tensor(id)) {
                    Some(kept) => *kept = Saved::Extra(of.bytes()),
                    None => scratch.push(of.bytes()),
                }
            }
        }
        let gradients = [a, b].into_iter().chain(added).map(|id| (id, Gradient::Fresh)).collect();
        Some(Semantics {
            saved,
            scratch,
            gradients,
            wants_dense_gradient: true,
            uses_blas: true,
            ..Semantics::fresh()
        })
    }

    /// Fused attention: keeps its operands, its result and the log-sum-exp of each row, on CUDA in rows padded to 32.
    fn attention(&self) -> Option<Semantics> {
        let node = self.node;
        let (query, key, value) = (node.tensor("query")?, node.tensor("key")?, node.tensor("value")?);
        let drops = !matches!(node.arg("dropout_p"), None | Some(Arg::Float(0.0) | Arg::Int(0)));
        if self.device == Device::Cpu && drops {
            return self.unfused_attention(query, key, value);
        }
        let of = self.tensor(query);
        let rows = of.elements().checked_div(of.last(0).saturating_mul(of.last(1))).unwrap_or(0);
        let columns = match self.device {
            Device::Cuda => of.last(1).next_multiple_of(32),
            Device::Cpu => of.last(1),
        };
        let log_sums = rows.saturating_mul(columns).saturating_mul(4);
        let mut saved: Vec<Saved> = [query, key, value, self.result()?].map(Saved::Tensor).to_vec();
        saved.push(Saved::Extra(log_sums));
        saved.extend(node.tensor("attn_mask").map(Saved::Tensor));
        Some(Semantics {
            saved,
            gradients: [query, key, value].map(|id| (id, Gradient::Fresh)).to_vec(),
            backward_scratch: vec![log_sums],
            ..Semantics::fresh()
        })
    }

    /// Attention in single operators, as the CPU computes it with dropout: keeps scaled queries and keys, and of the scores their
    /// softmax, the noise and their product.
    fn unfused_attention(&self, query: TensorId, key: TensorId, value: TensorId) -> Option<Semantics> {
        let (q, k) = (self.tensor(query), self.tensor(key));
        let scores = (q.elements().checked_div(q.last(0))?).saturating_mul(k.last(1)).saturating_mul(4);
        let saved = [q.bytes(), k.bytes(), scores, scores, scores].map(Saved::Extra);
        Some(Semantics {
            saved: saved.into_iter().chain([Saved::Tensor(value)]).collect(),
            gradients: [query, key, value].map(|id| (id, Gradient::Fresh)).to_vec(),
            scratch: vec![scores],
            backward_scratch: vec![scores, scores],
            uses_blas: true,
            ..Semantics::fresh()
        })
    }

    /// Normalisation over groups of values: keeps its input and two statistics of each group.
    fn normalisation(&self, input: TensorId, groups: u64) -> Semantics {
        let statistics = groups.saturating_mul(4);
        let trained = ["weight", "bias"].into_iter().filter_map(|name| self.node.tensor(name));
        let mut saved = vec![Saved::Tensor(input)];
        // In evaluation the running statistics are used, and nothing is computed that could be kept.
        if self.node.bool("training") != Some(false) {
            saved.extend([Saved::Extra(statistics), Saved::Extra(statistics)]);
        }
        Semantics {
            saved,
            gradients: std::iter::once(input).chain(trained).map(|id| (id, Gradient::Fresh)).collect(),
            wants_dense_gradient: true,
            ..Semantics::fresh()
        }
    }

    fn channels(&self, input: TensorId) -> u64 {
        self.tensor(input).shape.get(1).copied().unwrap_or(1)
    }

    fn rows(&self, input: TensorId) -> u64 {
        let normalised = match self.node.arg("normalized_shape") {
            Some(Arg::Ints(shape)) => {
                shape.iter().fold(1, |product: u64, &size| product.saturating_mul(size.max(1) as u64))
            }
            _ => self.tensor(input).last(0).max(1),
        };
        self.tensor(input).elements() / normalised.max(1)
    }

    fn groups(&self, input: TensorId) -> u64 {
        let groups = self.node.int("num_groups").unwrap_or(1).max(1) as u64;
        self.tensor(input).shape.first().copied().unwrap_or(1).saturating_mul(groups)
    }

    /// Log-softmax, which is kept, and the negative log-likelihood; backward each has a gradient of the logits' size.
    fn cross_entropy(&self, logits: TensorId) -> Semantics {
        let bytes = self.tensor(logits).bytes();
        Semantics {
            backward_scratch: vec![bytes],
            ..Semantics::elementwise(logits, vec![Saved::Extra(bytes)])
        }
    }

    fn dropout(&self, input: TensorId, in_place: bool) -> Option<Semantics> {
        let drops = self.node.bool("train").or(self.node.bool("training")).unwrap_or(true);
        let probability = self.node.args.iter().find(|(name, _)| name == "p").map(|(_, arg)| arg);
        let never =
            matches!(probability, Some(Arg::Float(p)) if *p == 0.0) || probability == Some(&Arg::Int(0));
        if !drops || never {
            return Some(Semantics::view(input, Gradient::Same));
        }
        // CUDA's fused kernel keeps a Boolean mask; in place and on the CPU noise of the input's type is multiplied in.
        let of = self.tensor(input);
        let fused = self.device == Device::Cuda && !in_place;
        let mask = if fused { of.elements() } else { of.bytes() };
        Some(Semantics::elementwise(input, vec![Saved::Extra(mask)]))
    }

    fn sum(&self, name: &str) -> Semantics {
        let scaled = |at: usize| at > 0 && (name == "sub" || self.node.arg("alpha").is_some());
        let form = |(at, id): (usize, TensorId)| match self.broadcast(id) {
            Gradient::Fresh if !scaled(at) && name != "rsub" => (id, Gradient::Same),
            Gradient::Reduced => (id, Gradient::Fresh),
            form => (id, form),
        };
        Semantics { gradients: self.node.tensors().enumerate().map(form).collect(), ..Semantics::fresh() }
    }

    /// Multiplication and division: each operand is kept where the other's gradient is wanted.
    fn product(&self, name: &str) -> Semantics {
        let operands: Vec<TensorId> = self.node.tensors().collect();
        let saved = match operands[..] {
            [a, b] if name == "mul" => self.factors(a, b),
            [a, b] => {
                let numerator = self.wants(b).then_some(Saved::Tensor(a));
                numerator.into_iter().chain([Saved::Tensor(b)]).collect()
            }
            _ => vec![],
        };
        Semantics {
            saved,
            gradients: operands.iter().map(|id| (*id, self.broadcast(*id))).collect(),
            ..Semantics::fresh()
        }
    }

    /// A fresh gradient, or one that is summed because the operand was broadcast.
    fn broadcast(&self, operand: TensorId) -> Gradient {
        let result = self.result().map(|id| self.tensor(id).elements());
        if result == Some(self.tensor(operand).elements()) { Gradient::Fresh } else { Gradient::Reduced }
    }

    fn power(&self, base: TensorId) -> Semantics {
        let bytes = self.result().map_or(0, |id| self.tensor(id).bytes());
        // The derivative is a product of three: two intermediate results beside the gradient.
        Semantics {
            backward_scratch: vec![bytes, bytes],
            ..Semantics::elementwise(base, vec![Saved::Tensor(base)])
        }
    }

    /// An operator on each element that keeps one tensor. In place an input that is needed later is cloned before it is overwritten.
    fn on_elements(&self, input: TensorId, saved: Saved, overwritten: bool) -> Semantics {
        let clone = Saved::Extra(self.tensor(input).bytes());
        Semantics::elementwise(input, vec![if overwritten { clone } else { saved }])
    }

    /// Copies that happen only where something changes.
    fn conversion(&self, name: &str, input: TensorId) -> Option<Semantics> {
        let (of, result) = (self.tensor(input), self.tensor(self.result()?));
        let same_type = of.dtype == result.dtype;
        Some(match name {
            "contiguous" if of.is_contiguous() => Semantics::view(input, Gradient::Same),
            "to" | "type_as" | "float" if same_type => Semantics::view(input, Gradient::Same),
            "detach" | "alias" | "lift_fresh" | "lift_fresh_copy" => {
                let gradient = if name == "alias" { vec![(input, Gradient::Same)] } else { vec![] };
                Semantics { storage: Storage::View(input), gradients: gradient, ..Semantics::fresh() }
            }
            _ if same_type => Semantics { gradients: vec![(input, Gradient::Same)], ..Semantics::fresh() },
            _ => Semantics::elementwise(input, vec![]),
        })
    }

    fn view(&self, name: &str, input: TensorId) -> Option<Semantics> {
        let of = self.tensor(input);
        Some(match name {
            "view" | "_unsafe_view" | "unsqueeze" | "squeeze" | "view_as" | "unflatten" | "reshape"
            | "flatten" | "_reshape_alias" => {
                let result = self.tensor(self.result()?);
                match view_strides(&of.shape, &of.strides, &result.shape) {
                    Some(_) => Semantics::view(input, Gradient::Reshaped),
                    None => Semantics { gradients: vec![(input, Gradient::Reshaped)], ..Semantics::fresh() },
                }
            }
            "permute" | "transpose" | "t" | "numpy_T" | "mT" => {
                let order = permutation(self.node, of.shape.len())?;
                Semantics::view(input, Gradient::Permuted(order))
            }
            // Their gradient is laid into zeros of the whole operand's size, or summed to it.
            "expand" | "expand_as" | "broadcast_to" | "slice" | "select" | "narrow" | "split"
            | "split_with_sizes" | "chunk" | "unbind" | "diagonal" | "unfold" | "tensor_split"
            | "movedim" | "as_strided" => Semantics::view(input, Gradient::Fresh),
            "_operator.getitem" => Semantics::view(input, Gradient::Same),
            _ => return None,
        })
    }
}

fn is_factory(name: &str) -> bool {
    const FACTORIES: &[&str] = &[
        "arange",
        "full",
        "full_like",
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "empty",
        "empty_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "scalar_tensor",
        "tril_indices",
        "triu_indices",
        "eye",
        "rand",
        "randn",
        "rand_like",
        "randn_like",
        "linspace",
        "tensor",
        "fill",
        "zero",
        "copy",
    ];
    FACTORIES.contains(&name)
}

/// Keep their input for backward.
const KEEPS_INPUT: &[&str] = &[
    "gelu",
    "silu",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "relu6",
    "leaky_relu",
    "mish",
    "softplus",
    "log_sigmoid",
    "abs",
    "cos",
    "sin",
    "log",
    "clamp",
    "clamp_min",
    "clamp_max",
    "logsumexp",
    "var",
    "std",
    "prelu",
    "upsample_bilinear2d",
    "square",
    "cumsum",
    "index",
    "gather",
    "index_select",
    "masked_select",
    "prod",
    "norm",
    "linalg_vector_norm",
    "max",
    "min",
    "amax",
    "amin",
    "glu",
    "elu",
    "selu",
    "erf",
    "log1p",
    "log2",
    "atan",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
];

/// Keep their result for backward.
const KEEPS_RESULT: &[&str] = &[
    "relu",
    "sigmoid",
    "tanh",
    "exp",
    "sqrt",
    "rsqrt",
    "softmax",
    "_softmax",
    "log_softmax",
    "_log_softmax",
    "reciprocal",
    "expm1",
];

/// Keep nothing of any size.
const KEEPS_NOTHING: &[&str] = &[
    "mean",
    "sum",
    "neg",
    "pad",
    "constant_pad_nd",
    "reflection_pad2d",
    "replication_pad2d",
    "roll",
    "flip",
    "masked_fill",
    "tril",
    "triu",
    "repeat",
    "repeat_interleave",
    "pixel_shuffle",
    "pixel_unshuffle",
    "channel_shuffle",
    "native_channel_shuffle",
    "upsample_nearest2d",
    "upsample_nearest",
    "interpolate",
    "scatter",
    "scatter_add",
    "index_add",
    "index_put",
    "new_tensor",
    "nan_to_num",
    "tile",
    "_shape_as_tensor",
];

/// Have no gradient: comparisons, logic, whole numbers.
const NOT_DIFFERENTIABLE: &[&str] = &[
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_not",
    "bitwise_xor",
    "__and__",
    "__or__",
    "argmax",
    "argmin",
    "floor",
    "ceil",
    "round",
    "sign",
    "isnan",
    "isinf",
    "isin",
    "any",
    "all",
    "one_hot",
    "nonzero",
    "topk",
    "sort",
    "argsort",
    "bucketize",
    "searchsorted",
    "floor_divide",
    "remainder",
    "fmod",
    "multinomial",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "count_nonzero",
    "bincount",
    "diff",
];

#[cfg(test)]
mod tests;
