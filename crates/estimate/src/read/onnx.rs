//! ONNX models.

use super::{ReadError, Shapes};
use crate::graph::Graph;
use std::io::{Read, Seek};

pub(super) fn read(_file: &mut (impl Read + Seek), _length: u64, _shapes: &Shapes) -> Result<Graph, ReadError> {
    Err(ReadError::UnknownFormat)
}
