//! Readers: model files to graphs or weight lists, without running the model and in bounded memory. Which reader applies is
//! decided by what a file begins with, not by its name.

mod gguf;
mod onnx;
mod pt2;
mod safetensors;
mod wire;

pub use gguf::Transformer;

use crate::expr::ExprError;
use crate::graph::{DType, Format, Graph};
use std::io::{self, Read, Seek, SeekFrom};

/// What the person asking fills in where a file leaves it open.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    /// Size of the dynamic first dimension.
    pub batch: Option<u64>,
    /// Whole shapes of the inputs, in order.
    pub inputs: Vec<Vec<u64>>,
}

/// What a file contains.
#[derive(Debug)]
pub enum Model {
    /// Operators and shapes.
    Graph(Graph),
    /// Weights alone.
    Weights(Weights),
}

/// A weight file: tensors without the operators that use them.
#[derive(Debug)]
pub struct Weights {
    /// File format.
    pub format: Format,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weights as stored.
    pub bytes: u64,
    /// The largest tensors: name and bytes, largest first.
    pub largest: Vec<(String, u64)>,
    /// Dimensions of the transformer they belong to, where the file describes one.
    pub transformer: Option<Transformer>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read at all.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
    /// No known beginning.
    #[error("it is not a torch.export archive (.pt2), ONNX model, safetensors or GGUF file")]
    UnknownFormat,
    /// A format that looks similar.
    #[error("{0}")]
    Unsupported(String),
    /// The zip container is damaged.
    #[error("the archive is damaged")]
    Zip(#[source] zip::result::ZipError),
    /// The JSON inside is not what it should be.
    #[error("{part} is not what torch.export writes")]
    Json {
        /// Which part of the file.
        part: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The file contradicts itself or its format.
    #[error("the {format} is damaged: {problem}")]
    Damaged {
        /// Which format it is.
        format: Format,
        /// What is wrong.
        problem: String,
    },
    /// More than any real model has; reading on could exhaust memory.
    #[error("{what} is larger than any that is read here ({limit})")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: String,
    },
    /// A size that cannot be computed.
    #[error("{tensor}: {source}")]
    Size {
        /// The tensor.
        tensor: String,
        /// Why.
        source: ExprError,
    },
    /// Input shapes or a batch that the model does not take.
    #[error("{0}")]
    Shape(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Most elements a tensor may have: 2^50, a quadrillion. Products of sizes stay far from overflow.
const MAX_ELEMENTS: u64 = 1 << 50;

/// Checks that sizes are those of a tensor that could exist.
fn plausible(name: &str, shape: &[u64]) -> Result<(), ReadError> {
    let elements = shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    match elements.filter(|elements| *elements <= MAX_ELEMENTS && shape.len() <= 32) {
        Some(_) => Ok(()),
        None => Err(ReadError::TooLarge {
            what: format!("tensor '{}'", name.chars().take(80).collect::<String>()),
            limit: "2^50 elements in 32 dimensions".to_owned(),
        }),
    }
}

/// Reads a model from a file.
pub fn read(file: &mut (impl Read + Seek), shapes: &Shapes) -> Result<Model, ReadError> {
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut beginning = Vec::new();
    file.by_ref().take(16).read_to_end(&mut beginning)?;
    file.rewind()?;
    let begins = |magic: &[u8]| beginning.starts_with(magic);
    if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") {
        pt2::read(file, shapes).map(Model::Graph)
    } else if begins(b"GGUF") {
        gguf::read(file, length).map(Model::Weights)
    } else if beginning.get(8) == Some(&b'{') {
        safetensors::read(file, length).map(Model::Weights)
    } else if begins(b"\x80\x02") || begins(b"\x80\x03") || begins(b"\x80\x04") {
        let help = "it is a pickle, whose content cannot be known without running it; save with torch.export or as safetensors";
        Err(ReadError::Unsupported(help.to_owned()))
    } else if matches!(beginning.first(), Some(0x08)) {
        // Field 1 of an ONNX model, its version, is written first by every exporter.
        onnx::read(file, length, shapes).map(Model::Graph)
    } else {
        Err(ReadError::UnknownFormat)
    }
}

/// The largest of named sizes, largest first.
fn largest(mut all: Vec<(String, u64)>) -> Vec<(String, u64)> {
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(crate::LARGEST);
    all
}

/// Element types of safetensors by name.
fn dtype_by_name(name: &str) -> Option<DType> {
    Some(match name {
        "BOOL" => DType::Bool,
        "U8" => DType::U8,
        "I8" => DType::I8,
        "I16" | "U16" => DType::I16,
        "I32" | "U32" => DType::I32,
        "I64" | "U64" => DType::I64,
        "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => DType::F8,
        "F16" => DType::F16,
        "BF16" => DType::Bf16,
        "F32" => DType::F32,
        "F64" => DType::F64,
        "C64" => DType::C64,
        _ => return None,
    })
}
