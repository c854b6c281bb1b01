//! The messages of an ONNX file that matter here, by their field numbers in `onnx.proto3`.

use super::super::ReadError;
use super::super::wire::{Value, Wire};
use super::damaged;
use std::io::{Read, Seek};

/// Most operators, weights or other entries of one kind.
const MAX_ENTRIES: usize = 1 << 20;
/// Most whole numbers kept of a weight: shapes and axes have few.
const MAX_CONTENT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct ModelMessage {
    pub(super) nodes: Vec<NodeMessage>,
    pub(super) initializers: Vec<TensorMessage>,
    pub(super) inputs: Vec<ValueMessage>,
    pub(super) outputs: Vec<ValueMessage>,
    pub(super) value_infos: Vec<ValueMessage>,
}

#[derive(Debug, Default)]
pub(super) struct NodeMessage {
    pub(super) name: String,
    pub(super) op_type: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    attributes: Vec<AttributeMessage>,
}

#[derive(Debug, Default)]
struct AttributeMessage {
    name: String,
    int: Option<i64>,
    ints: Vec<i64>,
    text: Option<String>,
    tensor: Option<TensorMessage>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct TensorMessage {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) data_type: u64,
    /// The numbers of a short list of 64-bit integers, such as a shape.
    pub(super) content: Option<Vec<i64>>,
}

#[derive(Debug, Default)]
pub(super) struct ValueMessage {
    pub(super) name: String,
    pub(super) elem_type: u64,
    pub(super) shape: Option<Vec<Dimension>>,
}

#[derive(Debug, Clone)]
pub(super) enum Dimension {
    Fixed(u64),
    Open(String),
}

impl NodeMessage {
    fn attribute(&self, name: &str) -> Option<&AttributeMessage> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.int
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.attribute(name)?.text.as_deref()
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&TensorMessage> {
        self.attribute(name)?.tensor.as_ref()
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), ReadError> {
    if list.len() >= MAX_ENTRIES {
        return Err(ReadError::TooLarge {
            what: "a list in the model".to_owned(),
            limit: "2^20 entries".to_owned(),
        });
    }
    list.push(value);
    Ok(())
}

/// Reads a model; its weights stay in the file.
pub(super) fn read(file: &mut (impl Read + Seek), length: u64) -> Result<ModelMessage, ReadError> {
    let mut wire = Wire::new(file);
    let mut model = ModelMessage::default();
    let mut found = false;
    while let Some((number, value)) = wire.field(length)? {
        match (number, value) {
            (7, Value::Delimited(size)) => {
                found = true;
                let end = wire.at() + size;
                graph(&mut wire, end, &mut model)?;
            }
            (_, value) => wire.skip(value)?,
        }
    }
    if found { Ok(model) } else { Err(damaged("it has no graph")) }
}

fn graph<R: Read + Seek>(wire: &mut Wire<R>, end: u64, model: &mut ModelMessage) -> Result<(), ReadError> {
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, Value::Delimited(size)) => {
                let node = node(wire, size)?;
                push(&mut model.nodes, node)?;
            }
            (5, Value::Delimited(size)) => {
                let weight = tensor(wire, size)?;
                push(&mut model.initializers, weight)?;
            }
            (11..=13, Value::Delimited(size)) => {
                let info = value_info(wire, size)?;
                let list = match number {
                    11 => &mut model.inputs,
                    12 => &mut model.outputs,
                    _ => &mut model.value_infos,
                };
                push(list, info)?;
            }
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(())
}

fn node<R: Read + Seek>(wire: &mut Wire<R>, size: u64) -> Result<NodeMessage, ReadError> {
    let end = wire.at() + size;
    let mut node = NodeMessage::default();
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, Value::Delimited(size)) => node.inputs.push(wire.text(size)?),
            (2, Value::Delimited(size)) => node.outputs.push(wire.text(size)?),
            (3, Value::Delimited(size)) => node.name = wire.text(size)?,
            (4, Value::Delimited(size)) => node.op_type = wire.text(size)?,
            (5, Value::Delimited(size)) => node.attributes.push(attribute(wire, size)?),
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(node)
}

fn attribute<R: Read + Seek>(wire: &mut Wire<R>, size: u64) -> Result<AttributeMessage, ReadError> {
    let end = wire.at() + size;
    let mut attribute = AttributeMessage::default();
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, Value::Delimited(size)) => attribute.name = wire.text(size)?,
            (3, Value::Varint(int)) => attribute.int = Some(int as i64),
            (4, Value::Delimited(size)) if size < 256 => attribute.text = Some(wire.text(size)?),
            (5, Value::Delimited(size)) => attribute.tensor = Some(tensor(wire, size)?),
            (8, value) => numbers(wire, value, &mut attribute.ints)?,
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(attribute)
}

/// Repeated whole numbers, packed or one by one. Beyond [`MAX_CONTENT`] they are skipped: no shape or list of axes is as long.
fn numbers<R: Read + Seek>(wire: &mut Wire<R>, value: Value, list: &mut Vec<i64>) -> Result<(), ReadError> {
    match value {
        Value::Varint(int) => {
            if list.len() < MAX_CONTENT {
                list.push(int as i64);
            }
        }
        Value::Delimited(size) if size <= 10 * MAX_CONTENT as u64 => {
            let end = wire.at() + size;
            while wire.at() < end {
                list.push(wire.varint(end)? as i64);
            }
        }
        value => wire.skip(value)?,
    }
    Ok(())
}

fn tensor<R: Read + Seek>(wire: &mut Wire<R>, size: u64) -> Result<TensorMessage, ReadError> {
    let end = wire.at() + size;
    let mut tensor = TensorMessage::default();
    let (mut dims, mut ints) = (Vec::new(), Vec::new());
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, value) => numbers(wire, value, &mut dims)?,
            (2, Value::Varint(kind)) => tensor.data_type = kind,
            (7, value) => numbers(wire, value, &mut ints)?,
            (8, Value::Delimited(size)) => tensor.name = wire.text(size)?,
            (9, Value::Delimited(size)) if size <= 8 * MAX_CONTENT as u64 => {
                let raw = wire.bytes(size)?;
                ints.extend(
                    raw.chunks_exact(8)
                        .map(|eight| i64::from_le_bytes(eight.try_into().expect("eight bytes"))),
                );
            }
            (_, value) => wire.skip(value)?,
        }
    }
    let size = |dim: i64| {
        u64::try_from(dim).map_err(|_| damaged(format!("weight '{:.80}' has a negative size", tensor.name)))
    };
    tensor.dims = dims.into_iter().map(size).collect::<Result<_, _>>()?;
    let elements = tensor.dims.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    // Type 7 is a 64-bit integer: those are shapes and axes.
    tensor.content = (tensor.data_type == 7 && elements == Some(ints.len() as u64)).then_some(ints);
    Ok(tensor)
}

fn value_info<R: Read + Seek>(wire: &mut Wire<R>, size: u64) -> Result<ValueMessage, ReadError> {
    let end = wire.at() + size;
    let mut info = ValueMessage::default();
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, Value::Delimited(size)) => info.name = wire.text(size)?,
            (2, Value::Delimited(size)) => {
                let end = wire.at() + size;
                while let Some((number, value)) = wire.field(end)? {
                    match (number, value) {
                        (1, Value::Delimited(size)) => tensor_type(wire, size, &mut info)?,
                        (_, value) => wire.skip(value)?,
                    }
                }
            }
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(info)
}

fn tensor_type<R: Read + Seek>(
    wire: &mut Wire<R>,
    size: u64,
    info: &mut ValueMessage,
) -> Result<(), ReadError> {
    let end = wire.at() + size;
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            (1, Value::Varint(kind)) => info.elem_type = kind,
            (2, Value::Delimited(size)) => {
                let end = wire.at() + size;
                let mut shape = Vec::new();
                while let Some((number, value)) = wire.field(end)? {
                    match (number, value) {
                        (1, Value::Delimited(size)) if shape.len() < MAX_CONTENT => {
                            shape.push(dimension(wire, size)?)
                        }
                        (_, value) => wire.skip(value)?,
                    }
                }
                info.shape = Some(shape);
            }
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(())
}

fn dimension<R: Read + Seek>(wire: &mut Wire<R>, size: u64) -> Result<Dimension, ReadError> {
    let end = wire.at() + size;
    let mut dimension = Dimension::Open(String::new());
    while let Some((number, value)) = wire.field(end)? {
        match (number, value) {
            // Some exporters write −1 or 0 for a dimension that is open.
            (1, Value::Varint(size)) if (size as i64) > 0 => dimension = Dimension::Fixed(size),
            (2, Value::Delimited(size)) => dimension = Dimension::Open(wire.text(size)?),
            (_, value) => wire.skip(value)?,
        }
    }
    Ok(dimension)
}
