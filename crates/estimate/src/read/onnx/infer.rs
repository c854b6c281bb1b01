//! Shape inference for the ONNX operators that common models use: from operands' shapes, attributes and the content of shape
//! operands to the results' shapes, and the ATen operator that does the same.

use super::dtype;
use super::message::NodeMessage;
use crate::graph::{Arg, DType, Tensor};

/// An operand: its tensor, and its numbers where they are known.
pub(super) type Operand<'a> = Option<(&'a Tensor, Option<&'a [i64]>)>;

/// Results of a node and the ATen operator it corresponds to.
#[derive(Debug)]
pub(super) struct Inferred {
    pub(super) operator: &'static str,
    /// Names of the operands in the ATen signature.
    pub(super) names: &'static [&'static str],
    /// How many operands are read on the device, where the rest only say shapes.
    pub(super) operands: Option<usize>,
    pub(super) attributes: Vec<(&'static str, Arg)>,
    /// Results; the first stands for any that are not listed.
    pub(super) results: Vec<Outcome>,
}

#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    pub(super) content: Option<Vec<i64>>,
}

impl Inferred {
    fn new(operator: &'static str, dtype: DType, shape: Vec<u64>) -> Self {
        let results = vec![Outcome { dtype, shape, content: None }];
        Self { operator, names: &["input", "weight", "bias"], operands: None, attributes: vec![], results }
    }

    fn reading(self, operands: usize) -> Self {
        Self { operands: Some(operands), ..self }
    }

    fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    fn with(mut self, name: &'static str, arg: Arg) -> Self {
        self.attributes.push((name, arg));
        self
    }

    fn containing(mut self, content: Option<Vec<i64>>) -> Self {
        if let Some(first) = self.results.first_mut() {
            first.content = content;
        }
        self
    }
}

/// Infers a node. `Ok(None)` for an operator that is not known, or whose result depends on values that are not; an error where the
/// operands cannot be what the operator takes.
pub(super) fn infer(node: &NodeMessage, operands: &[Operand<'_>]) -> Result<Option<Inferred>, String> {
    let call = Call { node, operands };
    match call.infer() {
        Ok(inferred) => Ok(Some(inferred)),
        Err(Fault::Unknown) => Ok(None),
        Err(Fault::Wrong(problem)) => Err(problem),
    }
}

enum Fault {
    Unknown,
    Wrong(String),
}

/// Operators on each element: ONNX name and ATen name.
const ELEMENTWISE: &[(&str, &str)] = &[
    ("Relu", "relu"),
    ("LeakyRelu", "leaky_relu"),
    ("Sigmoid", "sigmoid"),
    ("Tanh", "tanh"),
    ("Gelu", "gelu"),
    ("HardSigmoid", "hardsigmoid"),
    ("HardSwish", "hardswish"),
    ("Elu", "elu"),
    ("Selu", "selu"),
    ("Softplus", "softplus"),
    ("Clip", "hardtanh"),
    ("Erf", "erf"),
    ("Exp", "exp"),
    ("Log", "log"),
    ("Sqrt", "sqrt"),
    ("Neg", "neg"),
    ("Abs", "abs"),
    ("Reciprocal", "reciprocal"),
    ("Softmax", "softmax"),
    ("LogSoftmax", "log_softmax"),
    ("Cos", "cos"),
    ("Sin", "sin"),
    ("Floor", "floor"),
    ("Ceil", "ceil"),
    ("Round", "round"),
    ("Sign", "sign"),
    ("Mish", "mish"),
    ("PRelu", "prelu"),
    ("CumSum", "cumsum"),
    ("Trilu", "tril"),
    ("LpNormalization", "norm"),
    ("ScatterND", "scatter"),
    ("ScatterElements", "scatter"),
    ("Silu", "silu"),
    ("Swish", "silu"),
    ("IsNaN", "isnan"),
    ("Not", "logical_not"),
];

/// Operators on two or more operands of broadcast shape.
const BROADCAST: &[(&str, &str)] = &[
    ("Add", "add"),
    ("Sub", "sub"),
    ("Mul", "mul"),
    ("Div", "div"),
    ("Pow", "pow"),
    ("Max", "maximum"),
    ("Min", "minimum"),
    ("Mod", "remainder"),
    ("Sum", "add"),
    ("Equal", "eq"),
    ("Less", "lt"),
    ("LessOrEqual", "le"),
    ("Greater", "gt"),
    ("GreaterOrEqual", "ge"),
    ("And", "logical_and"),
    ("Or", "logical_or"),
    ("Xor", "logical_xor"),
    ("Where", "where"),
];

const COMPARISONS: &[&str] =
    &["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN"];

struct Call<'a> {
    node: &'a NodeMessage,
    operands: &'a [Operand<'a>],
}

impl<'a> Call<'a> {
    fn operand(&self, at: usize) -> Result<&'a Tensor, Fault> {
        let operand = self.operands.get(at).copied().flatten();
        operand.map(|(tensor, _)| tensor).ok_or_else(|| Fault::Wrong(format!("operand {at} is missing")))
    }

    /// Numbers that an operand or, in older versions of an operator, an attribute has.
    fn numbers(&self, at: usize, attribute: &str) -> Result<Option<Vec<i64>>, Fault> {
        if let Some(ints) = self.node.ints(attribute).filter(|ints| !ints.is_empty()) {
            return Ok(Some(ints.to_vec()));
        }
        match self.operands.get(at).copied().flatten() {
            None => Ok(None),
            Some((_, Some(content))) => Ok(Some(content.to_vec())),
            Some((_, None)) => Err(Fault::Unknown),
        }
    }

    fn content(&self, at: usize) -> Option<&'a [i64]> {
        self.operands.get(at).copied().flatten().and_then(|(_, content)| content)
    }

    fn axis(&self, axis: i64, rank: usize) -> Result<usize, Fault> {
        let wrapped = if axis < 0 { axis + rank as i64 } else { axis };
        let inside = usize::try_from(wrapped).ok().filter(|axis| *axis < rank.max(1));
        inside.ok_or_else(|| Fault::Wrong(format!("axis {axis} does not exist in {rank} dimensions")))
    }

    fn infer(&self) -> Result<Inferred, Fault> {
        let op = self.node.op_type.as_str();
        let named = |table: &[(&str, &'static str)]| {
            table.iter().find(|(name, _)| *name == op).map(|(_, aten)| *aten)
        };
        if let Some(aten) = named(ELEMENTWISE) {
            let of = self.operand(0)?;
            let dtype = if COMPARISONS.contains(&op) { DType::Bool } else { of.dtype };
            // Bounds, axes and slopes beside the operand are of no size.
            return Ok(Inferred::new(aten, dtype, of.shape.clone()).reading(1));
        }
        if let Some(aten) = named(BROADCAST) {
            return self.broadcast(aten);
        }
        match op {
            "Conv" => self.convolution(false),
            "ConvTranspose" => self.convolution(true),
            "MatMul" => self.matrix_product(),
            "Gemm" => self.gemm(),
            "LSTM" => self.recurrent("lstm", 4),
            "GRU" => self.recurrent("gru", 3),
            "RNN" => self.recurrent("rnn_tanh", 1),
            "BatchNormalization" => Ok(self.like_first("batch_norm")?.with("training", Arg::Bool(false))),
            "LayerNormalization" | "SimplifiedLayerNormalization" | "RMSNormalization" => {
                self.like_first("layer_norm")
            }
            "InstanceNormalization" => self.like_first("instance_norm"),
            "GroupNormalization" => {
                let groups = self.node.int("num_groups").unwrap_or(1);
                Ok(self.like_first("group_norm")?.with("num_groups", Arg::Int(groups)))
            }
            "MaxPool" => self.pool("max_pool2d"),
            "AveragePool" => self.pool("avg_pool2d"),
            "GlobalAveragePool" => self.global_pool("adaptive_avg_pool2d"),
            "GlobalMaxPool" => self.global_pool("adaptive_max_pool2d"),
            "ReduceMean" => self.reduce("mean"),
            "ReduceSum" => self.reduce("sum"),
            "ReduceMax" => self.reduce("amax"),
            "ReduceMin" => self.reduce("amin"),
            "ReduceProd" => self.reduce("prod"),
            "ReduceL2" => self.reduce("norm"),
            "ArgMax" | "ArgMin" => {
                let mut inferred = self.reduce("argmax")?;
                inferred.results[0].dtype = DType::I64;
                Ok(inferred)
            }
            "Concat" => self.concatenation(),
            "Split" => self.split(),
            "Slice" => self.slice(),
            "Gather" => self.gather(),
            "Transpose" => self.transposition(),
            "Reshape" => self.reshape(),
            "Flatten" => self.flatten(),
            "Squeeze" | "Unsqueeze" => self.squeeze(),
            "Expand" => self.expand(),
            "Tile" => self.tile(),
            "Pad" => self.pad(),
            "Resize" | "Upsample" => self.resize(),
            "Identity" => Ok(self.like_first("alias")?.containing(self.content(0).map(<[i64]>::to_vec))),
            "Dropout" => Ok(self.like_first("dropout")?.reading(1).with("train", Arg::Bool(false))),
            "Cast" => {
                let to = self.node.int("to").and_then(|to| dtype(to as u64)).ok_or(Fault::Unknown)?;
                let content = self.content(0).map(<[i64]>::to_vec);
                Ok(Inferred::new("to", to, self.operand(0)?.shape.clone()).containing(content))
            }
            "Shape" => {
                let sizes: Vec<i64> = self.operand(0)?.shape.iter().map(|size| *size as i64).collect();
                let sizes = self.shape_range(sizes);
                let shape = vec![sizes.len() as u64];
                Ok(Inferred::new("arange", DType::I64, shape).reading(0).containing(Some(sizes)))
            }
            "ConstantOfShape" => {
                let shape = sizes(&self.numbers(0, "")?.ok_or(Fault::Unknown)?)?;
                let dtype =
                    self.node.tensor("value").and_then(|value| dtype(value.data_type)).unwrap_or(DType::F32);
                Ok(Inferred::new("full", dtype, shape).reading(0))
            }
            _ => Err(Fault::Unknown),
        }
    }

    /// The sizes that `Shape` gives, from its attributes `start` to `end`, either of which may count from the end.
    fn shape_range(&self, sizes: Vec<i64>) -> Vec<i64> {
        let rank = sizes.len() as i64;
        let clamp = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
        let start = clamp(self.node.int("start").unwrap_or(0));
        let end = clamp(self.node.int("end").unwrap_or(rank));
        sizes[start.min(end)..end].to_vec()
    }

    /// A recurrent layer: steps come first unless `layout` is 1, and its result has an axis for directions.
    fn recurrent(&self, operator: &'static str, gates: u64) -> Result<Inferred, Fault> {
        let (input, weight) = (self.operand(0)?, self.operand(1)?);
        let ([a, b, _], [directions, rows, _]) = (&input.shape[..], &weight.shape[..]) else {
            return Err(Fault::Wrong("its operands have other than three dimensions".to_owned()));
        };
        let hidden = rows / gates;
        let (whole, last) = match self.node.int("layout") {
            Some(1) => (vec![*a, *b, *directions, hidden], vec![*a, *directions, hidden]),
            _ => (vec![*a, *directions, *b, hidden], vec![*directions, *b, hidden]),
        };
        let outcome = |shape| Outcome { dtype: input.dtype, shape, content: None };
        let results = vec![outcome(whole), outcome(last.clone()), outcome(last)];
        let inferred = Inferred { results, ..Inferred::new(operator, input.dtype, vec![]) };
        Ok(inferred.named(&["input", "weight_ih", "weight_hh", "bias"]).reading(4))
    }

    fn like_first(&self, operator: &'static str) -> Result<Inferred, Fault> {
        let of = self.operand(0)?;
        Ok(Inferred::new(operator, of.dtype, of.shape.clone()))
    }

    fn broadcast(&self, operator: &'static str) -> Result<Inferred, Fault> {
        let op = self.node.op_type.as_str();
        let mut shape: Vec<u64> = vec![];
        for at in 0..self.operands.len() {
            shape = joined(&shape, &self.operand(at)?.shape)?;
        }
        let typed = if op == "Where" { 1 } else { 0 };
        let dtype = if COMPARISONS.contains(&op) { DType::Bool } else { self.operand(typed)?.dtype };
        let content = match (self.content(0), self.content(1)) {
            (Some(a), Some(b)) if a.len() == b.len() || a.len() == 1 || b.len() == 1 => computed(op, a, b),
            _ => None,
        };
        Ok(Inferred::new(operator, dtype, shape).named(&["self", "other"]).containing(content))
    }

    /// Sizes after sliding a window over each spatial dimension.
    fn slide(&self, spatial: &[u64], kernel: &[u64]) -> Result<Vec<u64>, Fault> {
        let list = |name: &str, default: i64| {
            let given = self.node.ints(name).unwrap_or_default().to_vec();
            if given.is_empty() { vec![default; kernel.len()] } else { given }
        };
        let (strides, dilations) = (list("strides", 1), list("dilations", 1));
        let mut pads = self.node.ints("pads").unwrap_or_default().to_vec();
        pads.resize(2 * kernel.len(), 0);
        let automatic = self.node.text("auto_pad").unwrap_or("NOTSET");
        let round_up = self.node.int("ceil_mode") == Some(1);
        let mut result = Vec::with_capacity(kernel.len());
        for (at, (size, window)) in spatial.iter().zip(kernel).enumerate() {
            let wrong = || Fault::Wrong("strides, pads and kernel do not fit its operand".to_owned());
            let (stride, dilation) =
                (*strides.get(at).ok_or_else(wrong)?, *dilations.get(at).ok_or_else(wrong)?);
            if stride < 1 || dilation < 1 || *window < 1 {
                return Err(wrong());
            }
            if automatic.starts_with("SAME") {
                result.push(size.div_ceil(stride as u64));
                continue;
            }
            let reach = (*window as i64 - 1)
                .checked_mul(dilation)
                .and_then(|reach| reach.checked_add(1))
                .ok_or_else(wrong)?;
            let room = i64::try_from(*size)
                .ok()
                .and_then(|size| size.checked_add(pads[at])?.checked_add(pads[at + kernel.len()]));
            let room =
                room.and_then(|room| room.checked_sub(reach)).filter(|room| *room >= 0).ok_or_else(wrong)?;
            let steps =
                if round_up { (room as u64).div_ceil(stride as u64) } else { room as u64 / stride as u64 };
            result.push(steps + 1);
        }
        Ok(result)
    }

    fn convolution(&self, transposed: bool) -> Result<Inferred, Fault> {
        let (input, weight) = (self.operand(0)?, self.operand(1)?);
        let rank = input.shape.len();
        if rank < 3 || weight.shape.len() != rank {
            return Err(Fault::Wrong(format!(
                "its operands have {rank} and {} dimensions",
                weight.shape.len()
            )));
        }
        let kernel = &weight.shape[2..];
        let mut shape = vec![input.shape[0]];
        if transposed {
            let groups = self.node.int("group").unwrap_or(1).max(1) as u64;
            shape.push(weight.shape[1].saturating_mul(groups));
            let at_least = |name: &str, at: usize, default: i64| {
                self.node.ints(name).and_then(|all| all.get(at)).copied().unwrap_or(default)
            };
            for (at, (size, window)) in input.shape[2..].iter().zip(kernel).enumerate() {
                let stride = at_least("strides", at, 1).max(1) as u64;
                let pads = at_least("pads", at, 0)
                    .saturating_add(at_least("pads", at + kernel.len(), 0))
                    .max(0) as u64;
                let extra = at_least("output_padding", at, 0).max(0) as u64;
                let grown = size
                    .saturating_sub(1)
                    .saturating_mul(stride)
                    .saturating_add(*window)
                    .saturating_add(extra);
                shape.push(grown.saturating_sub(pads));
            }
        } else {
            shape.push(weight.shape[0]);
            shape.extend(self.slide(&input.shape[2..], kernel)?);
        }
        Ok(Inferred::new(if transposed { "conv_transpose2d" } else { "conv2d" }, input.dtype, shape))
    }

    fn matrix_product(&self) -> Result<Inferred, Fault> {
        let (a, b) = (self.operand(0)?, self.operand(1)?);
        let split = |shape: &[u64]| shape.len().saturating_sub(2);
        let inner = if b.shape.len() > 1 { b.last(1) } else { b.last(0) };
        if a.shape.is_empty() || b.shape.is_empty() || a.last(0) != inner {
            return Err(Fault::Wrong(format!("it multiplies {:?} with {:?}", a.shape, b.shape)));
        }
        let mut shape = joined(&a.shape[..split(&a.shape)], &b.shape[..split(&b.shape)])?;
        if a.shape.len() > 1 {
            shape.push(a.last(1));
        }
        if b.shape.len() > 1 {
            shape.push(b.last(0));
        }
        Ok(Inferred::new("matmul", a.dtype, shape).named(&["self", "other"]))
    }

    fn gemm(&self) -> Result<Inferred, Fault> {
        let (a, b) = (self.operand(0)?, self.operand(1)?);
        let flipped = |name: &str| self.node.int(name).unwrap_or(0) != 0;
        let (rows, inner) = if flipped("transA") { (a.last(0), a.last(1)) } else { (a.last(1), a.last(0)) };
        let (columns, inner_b) =
            if flipped("transB") { (b.last(1), b.last(0)) } else { (b.last(0), b.last(1)) };
        if a.shape.len() != 2 || b.shape.len() != 2 || inner != inner_b {
            return Err(Fault::Wrong(format!("it multiplies {:?} with {:?}", a.shape, b.shape)));
        }
        // With the weight transposed it is what a linear layer does.
        Ok(match flipped("transB") && !flipped("transA") {
            true => Inferred::new("linear", a.dtype, vec![rows, columns]),
            false => {
                Inferred::new("matmul", a.dtype, vec![rows, columns]).named(&["self", "other"]).reading(2)
            }
        })
    }

    fn pool(&self, operator: &'static str) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let kernel = self.node.ints("kernel_shape").unwrap_or_default();
        let kernel: Vec<u64> = sizes(kernel)?;
        if input.shape.len() != kernel.len() + 2 {
            return Err(Fault::Wrong("its kernel does not fit its operand".to_owned()));
        }
        let mut shape = input.shape[..2].to_vec();
        shape.extend(self.slide(&input.shape[2..], &kernel)?);
        Ok(Inferred::new(operator, input.dtype, shape))
    }

    fn global_pool(&self, operator: &'static str) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let shape = input.shape.iter().enumerate().map(|(at, size)| if at < 2 { *size } else { 1 }).collect();
        Ok(Inferred::new(operator, input.dtype, shape))
    }

    fn reduce(&self, operator: &'static str) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let rank = input.shape.len();
        let axes = match self.node.int("axis") {
            Some(axis) => Some(vec![axis]),
            None => self.numbers(1, "axes")?,
        };
        let all = (0..rank as i64).collect();
        let axes: Vec<usize> =
            axes.unwrap_or(all).into_iter().map(|axis| self.axis(axis, rank)).collect::<Result<_, _>>()?;
        let keep = self.node.int("keepdims").unwrap_or(1) != 0;
        let sizes = input.shape.iter().enumerate().filter_map(|(at, size)| match axes.contains(&at) {
            true => keep.then_some(1),
            false => Some(*size),
        });
        Ok(Inferred::new(operator, input.dtype, sizes.collect()).reading(1))
    }

    fn concatenation(&self) -> Result<Inferred, Fault> {
        let first = self.operand(0)?;
        let axis = self.axis(self.node.int("axis").unwrap_or(0), first.shape.len())?;
        let mut shape = first.shape.clone();
        let mut content = self.content(0).map(<[i64]>::to_vec);
        for at in 1..self.operands.len() {
            let next = self.operand(at)?;
            let (Some(sum), Some(size)) = (shape.get_mut(axis), next.shape.get(axis)) else {
                return Err(Fault::Wrong("its operands have unlike dimensions".to_owned()));
            };
            *sum = sum.saturating_add(*size);
            content = content.zip(self.content(at)).map(|(mut all, more)| {
                all.extend(more);
                all
            });
        }
        Ok(Inferred::new("cat", first.dtype, shape).named(&[]).containing(content))
    }

    fn split(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let axis = self.axis(self.node.int("axis").unwrap_or(0), input.shape.len())?;
        let parts = self.node.outputs.len().max(1) as u64;
        let whole = *input.shape.get(axis).ok_or(Fault::Unknown)?;
        let equal = whole.div_ceil(parts);
        let widths = match self.numbers(1, "split")? {
            Some(widths) => sizes(&widths)?,
            None => (0..parts).map(|at| equal.min(whole.saturating_sub(at * equal))).collect(),
        };
        let result = |width: u64| {
            let mut shape = input.shape.clone();
            shape[axis] = width;
            Outcome { dtype: input.dtype, shape, content: None }
        };
        let results = widths.into_iter().map(result).collect();
        Ok(Inferred { results, ..Inferred::new("split", input.dtype, vec![]) }.reading(1))
    }

    fn slice(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let rank = input.shape.len();
        let (starts, ends) = (self.numbers(1, "starts")?, self.numbers(2, "ends")?);
        let (Some(starts), Some(ends)) = (starts, ends) else { return Err(Fault::Unknown) };
        let axes = self.numbers(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.numbers(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        let mut shape = input.shape.clone();
        let mut range = None;
        for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
            let axis = self.axis(*axis, rank)?;
            let size = *shape.get(axis).ok_or(Fault::Unknown)? as i64;
            if *step == 0 {
                return Err(Fault::Wrong("its step is zero".to_owned()));
            }
            let clamp = |at: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(0, size);
            let (from, to) =
                if *step > 0 { (clamp(*start), clamp(*end)) } else { (clamp(*end), clamp(*start)) };
            shape[axis] = (to - from).max(0) as u64;
            shape[axis] = shape[axis].div_ceil(step.unsigned_abs());
            range = (*step == 1).then_some((from as usize, to.max(from) as usize));
        }
        let content =
            self.content(0).zip(range).and_then(|(all, (from, to))| all.get(from..to)).map(<[i64]>::to_vec);
        Ok(Inferred::new("slice", input.dtype, shape).reading(1).containing(content))
    }

    fn gather(&self) -> Result<Inferred, Fault> {
        let (data, indices) = (self.operand(0)?, self.operand(1)?);
        let axis = self.axis(self.node.int("axis").unwrap_or(0), data.shape.len())?;
        let rest = data.shape.get(axis + 1..).ok_or(Fault::Unknown)?;
        let shape = [&data.shape[..axis], &indices.shape, rest].concat();
        let content = self.content(0).zip(self.content(1)).and_then(|(all, at)| {
            let pick = |at: &i64| {
                let wrapped = if *at < 0 { at + all.len() as i64 } else { *at };
                all.get(usize::try_from(wrapped).ok()?).copied()
            };
            at.iter().map(pick).collect()
        });
        Ok(Inferred::new("embedding", data.dtype, shape).named(&["weight", "indices"]).containing(content))
    }

    fn transposition(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let rank = input.shape.len();
        let order: Vec<i64> = match self.node.ints("perm") {
            Some(order) if order.len() == rank => order.to_vec(),
            Some(_) => {
                return Err(Fault::Wrong("its permutation has another number of dimensions".to_owned()));
            }
            None => (0..rank as i64).rev().collect(),
        };
        let sizes = order.iter().map(|axis| Ok(input.shape[self.axis(*axis, rank)?]));
        let shape = sizes.collect::<Result<Vec<_>, Fault>>()?;
        // Engines for ONNX lay the result out anew.
        Ok(Inferred::new("roll", input.dtype, shape))
    }

    fn reshape(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let wanted = self.numbers(1, "shape")?.ok_or(Fault::Unknown)?;
        let mut shape = Vec::with_capacity(wanted.len());
        for (at, size) in wanted.iter().enumerate() {
            shape.push(match size {
                0 => input.shape.get(at).copied().unwrap_or(0),
                -1 => 1,
                size => u64::try_from(*size).map_err(|_| Fault::Wrong(format!("its shape is {wanted:?}")))?,
            });
        }
        if let Some(at) = wanted.iter().position(|size| *size == -1) {
            let known = shape.iter().fold(1u64, |product, size| product.saturating_mul(*size));
            shape[at] = input.elements().checked_div(known).unwrap_or(0);
        }
        let elements = shape.iter().fold(1u64, |product, size| product.saturating_mul(*size));
        if elements != input.elements() {
            return Err(Fault::Wrong(format!("it makes {shape:?} of {:?}", input.shape)));
        }
        Ok(Inferred::new("reshape", input.dtype, shape)
            .reading(1)
            .containing(self.content(0).map(<[i64]>::to_vec)))
    }

    fn flatten(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let axis = self.node.int("axis").unwrap_or(1);
        let axis = if axis < 0 { axis + input.shape.len() as i64 } else { axis };
        let axis = usize::try_from(axis).unwrap_or(0).min(input.shape.len());
        let product = |sizes: &[u64]| sizes.iter().fold(1u64, |product, size| product.saturating_mul(*size));
        let (before, after) = input.shape.split_at(axis);
        Ok(Inferred::new("flatten", input.dtype, vec![product(before), product(after)]))
    }

    fn squeeze(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let axes = self.numbers(1, "axes")?;
        let content = self.content(0).map(<[i64]>::to_vec);
        let shape = if self.node.op_type == "Squeeze" {
            let rank = input.shape.len();
            let axes = axes.map(|axes| {
                axes.into_iter().map(|axis| self.axis(axis, rank)).collect::<Result<Vec<_>, _>>()
            });
            let axes = axes.transpose()?;
            let goes = |at: usize, size: u64| axes.as_ref().map_or(size == 1, |axes| axes.contains(&at));
            input
                .shape
                .iter()
                .enumerate()
                .filter(|(at, size)| !goes(*at, **size))
                .map(|(_, size)| *size)
                .collect()
        } else {
            let axes = axes.ok_or(Fault::Unknown)?;
            let rank = input.shape.len() + axes.len();
            let mut axes =
                axes.into_iter().map(|axis| self.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
            axes.sort_unstable();
            let mut shape = input.shape.clone();
            for axis in axes {
                shape.insert(axis.min(shape.len()), 1);
            }
            shape
        };
        let operator = if self.node.op_type == "Squeeze" { "squeeze" } else { "unsqueeze" };
        Ok(Inferred::new(operator, input.dtype, shape).reading(1).containing(content))
    }

    fn expand(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let wanted = sizes(&self.numbers(1, "shape")?.ok_or(Fault::Unknown)?)?;
        // Engines for ONNX write the result out.
        Ok(Inferred::new("repeat", input.dtype, joined(&input.shape, &wanted)?).reading(1))
    }

    fn tile(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let repeats = sizes(&self.numbers(1, "repeats")?.ok_or(Fault::Unknown)?)?;
        let shape = input.shape.iter().zip(repeats).map(|(size, times)| size.saturating_mul(times)).collect();
        Ok(Inferred::new("repeat", input.dtype, shape).reading(1))
    }

    fn pad(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        let pads = self.numbers(1, "pads")?.ok_or(Fault::Unknown)?;
        let rank = input.shape.len();
        if pads.len() != 2 * rank {
            return Err(Fault::Unknown);
        }
        let grown = |at: usize| {
            (input.shape[at] as i64).saturating_add(pads[at]).saturating_add(pads[at + rank]).max(0) as u64
        };
        Ok(Inferred::new("pad", input.dtype, (0..rank).map(grown).collect()).reading(1))
    }

    fn resize(&self) -> Result<Inferred, Fault> {
        let input = self.operand(0)?;
        // Sizes are the fourth operand; factors are floating-point numbers, which are not read.
        let wanted = sizes(self.content(3).ok_or(Fault::Unknown)?)?;
        if wanted.len() != input.shape.len() {
            return Err(Fault::Unknown);
        }
        let operator = if self.node.text("mode") == Some("linear") {
            "upsample_bilinear2d"
        } else {
            "upsample_nearest2d"
        };
        Ok(Inferred::new(operator, input.dtype, wanted).reading(1))
    }
}

fn sizes(numbers: &[i64]) -> Result<Vec<u64>, Fault> {
    let size = |number: &i64| u64::try_from(*number).map_err(|_| Fault::Wrong(format!("a size is {number}")));
    numbers.iter().map(size).collect()
}

/// The shape two operands are broadcast to.
fn joined(a: &[u64], b: &[u64]) -> Result<Vec<u64>, Fault> {
    let rank = a.len().max(b.len());
    let at = |shape: &[u64], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let size = |axis| match (at(a, axis), at(b, axis)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(Fault::Wrong(format!("{a:?} and {b:?} cannot be broadcast"))),
    };
    (0..rank).map(size).collect()
}

/// Arithmetic on sizes, which exporters leave in the graph.
fn computed(op: &str, a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let at = |list: &[i64], at: usize| if list.len() == 1 { list[0] } else { list[at] };
    let value = |index: usize| {
        let (a, b) = (at(a, index), at(b, index));
        match op {
            "Add" => a.checked_add(b),
            "Sub" => a.checked_sub(b),
            "Mul" => a.checked_mul(b),
            "Div" => a.checked_div(b),
            "Mod" => a.checked_rem(b),
            _ => None,
        }
    };
    (0..a.len().max(b.len())).map(value).collect()
}
