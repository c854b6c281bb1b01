//! ONNX models: the protocol-buffer messages as far as memory depends on them, and the conversion to a graph of ATen operators.
//! Weights are skipped; shapes of results are inferred in `infer`, since most files do not have them.

mod infer;
mod message;

use super::{ReadError, Shapes, plausible};
use crate::calls::Calls;
use crate::graph::{Arg, DType, Format, Graph, Node, Role, Tensor, TensorId};
use infer::{Inferred, Operand, infer};
use message::{Dimension, ModelMessage, NodeMessage, TensorMessage, ValueMessage};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

fn damaged(problem: impl Into<String>) -> ReadError {
    ReadError::Damaged { format: Format::Onnx, problem: problem.into() }
}

/// Reads a model with its inputs' shapes filled in.
pub(super) fn read(file: &mut (impl Read + Seek), length: u64, shapes: &Shapes) -> Result<Graph, ReadError> {
    let model = message::read(file, length)?;
    if model.nodes.is_empty() {
        return Err(damaged("it has no operators"));
    }
    Builder::default().build(&model, shapes)
}

/// A value while shapes are inferred: the tensor, and its content where that is a short list of whole numbers.
#[derive(Debug, Clone)]
struct Value {
    id: TensorId,
    content: Option<Vec<i64>>,
}

#[derive(Default)]
struct Builder<'a> {
    tensors: Vec<Tensor>,
    nodes: Vec<Node>,
    values: HashMap<&'a str, Value>,
}

impl<'a> Builder<'a> {
    fn build(mut self, model: &'a ModelMessage, shapes: &Shapes) -> Result<Graph, ReadError> {
        // Running statistics are weights in the file but are not trained.
        let statistics: HashSet<&str> = model
            .nodes
            .iter()
            .filter(|node| node.op_type == "BatchNormalization")
            .flat_map(|node| node.inputs.iter().skip(3).map(String::as_str))
            .collect();
        for weight in &model.initializers {
            let role = if statistics.contains(weight.name.as_str()) { Role::Buffer } else { Role::Parameter };
            self.weight(&weight.name, weight, role)?;
        }
        let inputs = model
            .inputs
            .iter()
            .filter(|input| !self.values.contains_key(input.name.as_str()))
            .collect::<Vec<_>>();
        for (at, input) in inputs.into_iter().enumerate() {
            let shape = input_shape(input, shapes, at)?;
            let dtype = dtype(input.elem_type).unwrap_or(DType::F32);
            self.define(&input.name, dtype, shape, Role::Input, None)?;
        }
        let declared: HashMap<&str, &ValueMessage> = model
            .value_infos
            .iter()
            .chain(&model.outputs)
            .map(|value| (value.name.as_str(), value))
            .collect();
        for node in &model.nodes {
            self.node(node, &declared)?;
        }
        let outputs = model.outputs.iter().map(|output| self.lookup(&output.name).map(|value| value.id));
        let outputs = outputs.collect::<Result<_, _>>()?;
        Ok(Graph {
            format: Format::Onnx,
            tensors: self.tensors,
            nodes: self.nodes,
            outputs,
            calls: Calls::default(),
        })
    }

    fn weight(&mut self, name: &'a str, weight: &TensorMessage, role: Role) -> Result<(), ReadError> {
        let dtype = dtype(weight.data_type)
            .ok_or_else(|| damaged(format!("weight '{name:.80}' has an unknown element type")))?;
        let role = if dtype.is_differentiable() { role } else { Role::Buffer };
        self.define(name, dtype, weight.dims.clone(), role, weight.content.clone())
    }

    fn define(
        &mut self,
        name: &'a str,
        dtype: DType,
        shape: Vec<u64>,
        role: Role,
        content: Option<Vec<i64>>,
    ) -> Result<(), ReadError> {
        plausible(name, &shape)?;
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(Tensor::dense(name, dtype, shape, role));
        match self.values.insert(name, Value { id, content }) {
            None => Ok(()),
            Some(_) => Err(damaged(format!("tensor '{name:.80}' is computed twice"))),
        }
    }

    fn lookup(&self, name: &str) -> Result<&Value, ReadError> {
        // Nodes are sorted, so a cycle shows as a use before the definition.
        self.values
            .get(name)
            .ok_or_else(|| damaged(format!("tensor '{name:.80}' is used before it is computed")))
    }

    fn node(
        &mut self,
        node: &'a NodeMessage,
        declared: &HashMap<&str, &ValueMessage>,
    ) -> Result<(), ReadError> {
        if let (Some(constant), Some(output)) = (node.tensor("value"), node.outputs.first())
            && node.op_type == "Constant"
        {
            return self.weight(output, constant, Role::Buffer);
        }
        // Inputs may be left out in the middle; their names are empty.
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            inputs.push(if name.is_empty() { None } else { Some(self.lookup(name)?.clone()) });
        }
        let operands: Vec<Operand<'_>> = inputs
            .iter()
            .map(|input| {
                input.as_ref().map(|value| (&self.tensors[value.id.index()], value.content.as_deref()))
            })
            .collect();
        let inferred = infer(node, &operands)
            .map_err(|problem| damaged(format!("{} '{:.80}': {problem}", node.op_type, node.name)))?;
        let ids: Vec<Option<TensorId>> =
            inputs.iter().map(|input| input.as_ref().map(|value| value.id)).collect();
        let (operator, args) = match &inferred {
            Some(inferred) => (inferred.operator.to_owned(), named(inferred, &ids)),
            // An operator that is not known keeps its name, so that it is reported; its namespace keeps it out of the table.
            None => (
                format!("onnx.{}", node.op_type),
                vec![("inputs".to_owned(), Arg::Tensors(ids.into_iter().flatten().collect()))],
            ),
        };
        let bound = operands.iter().flatten().map(|(tensor, _)| *tensor).max_by_key(|tensor| tensor.bytes());
        let (bound_type, bound_shape) =
            bound.map_or((DType::F32, vec![]), |tensor| (tensor.dtype, tensor.shape.clone()));
        let mut outputs = Vec::new();
        for (at, name) in node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let result = inferred
                .as_ref()
                .and_then(|inferred| inferred.results.get(at).or(inferred.results.first()).cloned());
            // Where the shape cannot be inferred the file may say it, else the result is taken to be as large as any operand.
            let (dtype, shape, content) = match result {
                Some(result) => (result.dtype, result.shape, result.content),
                None => match declared.get(name.as_str()).and_then(|value| known_shape(value)) {
                    Some((dtype, shape)) => (dtype, shape, None),
                    None => (bound_type, bound_shape.clone(), None),
                },
            };
            self.define(name, dtype, shape, Role::Activation, content)?;
            outputs.push(TensorId(self.tensors.len() as u32 - 1));
        }
        self.nodes.push(Node { operator, args, outputs, detached: false });
        Ok(())
    }
}

/// Operands under the names of the ATen signature, and the attributes that matter.
fn named(inferred: &Inferred, ids: &[Option<TensorId>]) -> Vec<(String, Arg)> {
    let names =
        inferred.names.iter().map(|name| name.to_string()).chain((0..).map(|at| format!("operand{at}")));
    let operands = names.zip(ids).filter_map(|(name, id)| Some((name, Arg::Tensor((*id)?))));
    // Shapes and axes were operands in the file, but are not touched on the device.
    let operands = operands.take(inferred.operands.unwrap_or(usize::MAX));
    operands.chain(inferred.attributes.iter().map(|(name, arg)| (name.to_string(), arg.clone()))).collect()
}

fn dtype(number: u64) -> Option<DType> {
    Some(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 | 5 => DType::I16,
        6 | 12 => DType::I32,
        7 | 13 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        14 => DType::C64,
        15 => DType::C128,
        16 => DType::Bf16,
        17..=20 => DType::F8,
        _ => return None,
    })
}

fn known_shape(value: &ValueMessage) -> Option<(DType, Vec<u64>)> {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => Some(*size),
        Dimension::Open(_) => None,
    };
    Some((dtype(value.elem_type)?, value.shape.as_ref()?.iter().map(size).collect::<Option<_>>()?))
}

/// The shape of an input: as asked for, else as the file has it with the batch in its open first dimension.
fn input_shape(input: &ValueMessage, shapes: &Shapes, at: usize) -> Result<Vec<u64>, ReadError> {
    let name = &input.name;
    let Some(declared) = &input.shape else {
        let given = shapes.inputs.get(at).cloned();
        return given.ok_or_else(|| {
            ReadError::Shape(format!("input '{name:.80}' has no shape in the file; give one with --input"))
        });
    };
    if let Some(given) = shapes.inputs.get(at) {
        if given.len() != declared.len() {
            let (has, got) = (declared.len(), given.len());
            return Err(ReadError::Shape(format!(
                "input '{name:.80}' has {has} dimensions, and --input gives {got}"
            )));
        }
        return Ok(given.clone());
    }
    let mut shape = Vec::with_capacity(declared.len());
    for (axis, dimension) in declared.iter().enumerate() {
        shape.push(match (dimension, shapes.batch.filter(|_| axis == 0)) {
            (Dimension::Fixed(size), Some(batch)) if *size != batch => {
                return Err(ReadError::Shape(format!(
                    "input '{name:.80}' was exported for a batch of {size}, not {batch}; export it with a dynamic first dimension, or \
                     force a shape with --input"
                )));
            }
            (Dimension::Fixed(size), _) => *size,
            (Dimension::Open(_), Some(batch)) => batch,
            (Dimension::Open(symbol), None) => {
                let what = if symbol.is_empty() { format!("dimension {axis}") } else { format!("'{symbol:.80}'") };
                return Err(ReadError::Shape(format!(
                    "input '{name:.80}' leaves {what} open; say --batch N for the first dimension, or --input AxBxC for all"
                )));
            }
        });
    }
    Ok(shape)
}
