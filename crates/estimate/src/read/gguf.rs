//! GGUF files (llama.cpp): metadata and tensor descriptions at the beginning, weights after, which are not read. The metadata
//! describes the transformer, from which KV cache and activations follow.

use super::{ReadError, Weights, largest, plausible};
use crate::graph::Format;
use std::io::{BufReader, Read};

/// Most metadata entries and tensors; real files have hundreds.
const MAX_ENTRIES: u64 = 1 << 20;
/// Longest string; vocabularies are arrays of short ones.
const MAX_STRING: u64 = 16 << 20;
/// Longest array.
const MAX_ARRAY: u64 = 64 << 20;
/// Deepest nesting of arrays in arrays.
const MAX_NESTING: usize = 4;

/// Dimensions of a transformer, from a file's metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transformer {
    /// Architecture, such as `llama`.
    pub architecture: String,
    /// Number of layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub width: u64,
    /// Width of the feed-forward layer.
    pub feed_forward: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a key head, where it is not `width / heads`.
    pub key_width: Option<u64>,
    /// Width of a value head, where it is not `width / heads`.
    pub value_width: Option<u64>,
    /// Number of tokens it was trained for.
    pub context: u64,
    /// Size of the vocabulary.
    pub vocabulary: u64,
}

/// Tokens that llama.cpp processes at once (`--ubatch-size`), unless told otherwise.
const MICRO_BATCH: u64 = 512;

impl Transformer {
    /// Bytes of the KV cache for that many tokens, in half precision.
    pub fn kv_cache_bytes(&self, context: u64) -> u64 {
        let head = self.width.checked_div(self.heads).unwrap_or(0);
        let per_head = self.key_width.unwrap_or(head).saturating_add(self.value_width.unwrap_or(head));
        [self.layers, self.kv_heads, per_head, context, 2].into_iter().fold(1, u64::saturating_mul)
    }

    /// Bytes of activations in single precision while a micro-batch is processed: the residual stream, the widest layer's two
    /// operands and its result, attention scores without a fused kernel, and the logits.
    pub fn activation_bytes(&self, context: u64) -> u64 {
        let tokens = MICRO_BATCH.min(context.max(1));
        let scores = self.heads.saturating_mul(context);
        let layer =
            self.feed_forward.saturating_mul(3).max(self.width.saturating_mul(4).saturating_add(scores));
        let widest = layer.max(self.vocabulary).saturating_add(self.width.saturating_mul(2));
        widest.saturating_mul(tokens).saturating_mul(4)
    }

    /// Multiply-adds of attention for one token that sees `context` others; matrix products with weights are apart.
    pub fn attention_macs(&self, context: u64) -> u64 {
        [2, self.layers, self.width, context].into_iter().fold(1, u64::saturating_mul)
    }
}

fn damaged(problem: impl Into<String>) -> ReadError {
    ReadError::Damaged { format: Format::Gguf, problem: problem.into() }
}

/// Reads metadata and tensor descriptions.
pub(super) fn read(file: &mut impl Read, length: u64) -> Result<Weights, ReadError> {
    let mut cursor = Cursor { file: BufReader::new(file), left: length };
    cursor.bytes::<4>()?;
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        return Err(ReadError::Unsupported(format!("GGUF version {version} is not read here (2 and 3 are)")));
    }
    let (tensors, entries) = (cursor.u64()?, cursor.u64()?);
    if tensors > MAX_ENTRIES || entries > MAX_ENTRIES {
        return Err(ReadError::TooLarge {
            what: "the list of tensors or metadata".to_owned(),
            limit: "2^20".to_owned(),
        });
    }
    let mut transformer = Transformer::default();
    for _ in 0..entries {
        let key = cursor.string()?;
        let value = cursor.value(0)?;
        note(&mut transformer, &key, value);
    }
    let (mut parameters, mut bytes) = (0u64, 0u64);
    let mut sizes = Vec::new();
    for _ in 0..tensors {
        let name = cursor.string()?;
        let dimensions = cursor.u32()?;
        if dimensions > 8 {
            return Err(damaged(format!("tensor '{name:.80}' has {dimensions} dimensions")));
        }
        let shape = (0..dimensions).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
        plausible(&name, &shape)?;
        let (kind, _offset) = (cursor.u32()?, cursor.u64()?);
        let (block, block_bytes) = block_size(kind)
            .ok_or_else(|| damaged(format!("tensor '{name:.80}' has the unknown quantisation {kind}")))?;
        let elements: u64 = shape.iter().product();
        let size = elements.div_ceil(block).saturating_mul(block_bytes);
        if name == "token_embd.weight" {
            transformer.vocabulary = shape.get(1).copied().unwrap_or(0);
        }
        parameters = parameters.saturating_add(elements);
        bytes = bytes.saturating_add(size);
        sizes.push((name, size));
    }
    if bytes > length {
        return Err(damaged(format!(
            "its tensors have {bytes} bytes, and the file {length}; it may be cut short"
        )));
    }
    let known = transformer.layers > 0 && transformer.width > 0 && transformer.heads > 0;
    Ok(Weights {
        format: Format::Gguf,
        parameters,
        bytes,
        largest: largest(sizes),
        transformer: known.then_some(transformer),
    })
}

/// Keeps what describes the transformer: keys are `llama.block_count` and the like.
fn note(transformer: &mut Transformer, key: &str, value: Value) {
    match value {
        Value::Text(text) if key == "general.architecture" => transformer.architecture = text,
        Value::Number(number) => {
            let field = match key.split_once('.').map_or(key, |(_, rest)| rest) {
                "block_count" => &mut transformer.layers,
                "embedding_length" => &mut transformer.width,
                "feed_forward_length" => &mut transformer.feed_forward,
                "attention.head_count" => &mut transformer.heads,
                "attention.head_count_kv" => &mut transformer.kv_heads,
                "context_length" => &mut transformer.context,
                "attention.key_length" => transformer.key_width.insert(0),
                "attention.value_length" => transformer.value_width.insert(0),
                _ => return,
            };
            *field = number;
        }
        _ => {}
    }
    if transformer.kv_heads == 0 {
        transformer.kv_heads = transformer.heads;
    }
}

/// Weights and bytes of a block of each quantisation, by its number in ggml.
fn block_size(kind: u32) -> Option<(u64, u64)> {
    Some(match kind {
        0 | 26 => (1, 4),      // F32, I32
        1 | 25 | 30 => (1, 2), // F16, I16, BF16
        24 => (1, 1),          // I8
        27 | 28 => (1, 8),     // I64, F64
        2 => (32, 18),         // Q4_0
        3 => (32, 20),         // Q4_1
        6 => (32, 22),         // Q5_0
        7 => (32, 24),         // Q5_1
        8 => (32, 34),         // Q8_0
        9 => (32, 36),         // Q8_1
        10 => (256, 84),       // Q2_K
        11 => (256, 110),      // Q3_K
        12 => (256, 144),      // Q4_K
        13 => (256, 176),      // Q5_K
        14 => (256, 210),      // Q6_K
        15 => (256, 292),      // Q8_K
        16 => (256, 66),       // IQ2_XXS
        17 => (256, 74),       // IQ2_XS
        18 => (256, 98),       // IQ3_XXS
        19 => (256, 50),       // IQ1_S
        20 => (32, 18),        // IQ4_NL
        21 => (256, 110),      // IQ3_S
        22 => (256, 82),       // IQ2_S
        23 => (256, 136),      // IQ4_XS
        29 => (256, 56),       // IQ1_M
        34 => (256, 54),       // TQ1_0
        35 => (256, 66),       // TQ2_0
        39 => (32, 17),        // MXFP4
        _ => return None,
    })
}

enum Value {
    Number(u64),
    Text(String),
    Other,
}

/// Sequential reading that never believes a length beyond the end of the file.
struct Cursor<R> {
    file: R,
    left: u64,
}

impl<R: Read> Cursor<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.claim(N as u64)?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn claim(&mut self, bytes: u64) -> Result<(), ReadError> {
        self.left =
            self.left.checked_sub(bytes).ok_or_else(|| damaged("it ends in the middle of its header"))?;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn string(&mut self) -> Result<String, ReadError> {
        let length = self.u64()?;
        if length > MAX_STRING {
            return Err(ReadError::TooLarge { what: "a string".to_owned(), limit: "16 MiB".to_owned() });
        }
        self.claim(length)?;
        let mut text = Vec::new();
        self.file.by_ref().take(length).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn value(&mut self, depth: usize) -> Result<Value, ReadError> {
        let kind = self.u32()?;
        self.value_of(kind, depth)
    }

    fn value_of(&mut self, kind: u32, depth: usize) -> Result<Value, ReadError> {
        Ok(match kind {
            0 | 1 | 7 => Value::Number(u64::from(self.bytes::<1>()?[0])),
            2 | 3 => Value::Number(u64::from(u16::from_le_bytes(self.bytes()?))),
            4 | 5 => Value::Number(u64::from(self.u32()?)),
            10 | 11 => Value::Number(self.u64()?),
            6 => {
                self.u32()?;
                Value::Other
            }
            12 => {
                self.u64()?;
                Value::Other
            }
            8 => Value::Text(self.string()?),
            9 if depth < MAX_NESTING => {
                let (inner, length) = (self.u32()?, self.u64()?);
                if length > MAX_ARRAY {
                    return Err(ReadError::TooLarge {
                        what: "an array".to_owned(),
                        limit: "2^26 elements".to_owned(),
                    });
                }
                // Head counts per layer are an array in some files; the first layer's is as good as any.
                let mut first = Value::Other;
                for at in 0..length {
                    let value = self.value_of(inner, depth + 1)?;
                    if at == 0 {
                        first = value;
                    }
                }
                if matches!(first, Value::Number(_)) { first } else { Value::Other }
            }
            _ => return Err(damaged(format!("its metadata has the unknown type {kind}"))),
        })
    }
}
