//! safetensors files: eight bytes of header length, a JSON header with type, shape and position of every tensor, then the
//! weights, which are not read.

use super::{ReadError, Weights, dtype_by_name, largest, plausible};
use crate::graph::Format;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::Read;

/// Largest header; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Tensor { dtype: String, shape: Vec<u64>, data_offsets: (u64, u64) },
    Metadata(IgnoredAny),
}

fn damaged(problem: String) -> ReadError {
    ReadError::Damaged { format: Format::Safetensors, problem }
}

/// Reads the header.
pub(super) fn read(file: &mut impl Read, length: u64) -> Result<Weights, ReadError> {
    let mut size = [0; 8];
    file.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER {
        return Err(ReadError::TooLarge { what: "the header".to_owned(), limit: "100 MB".to_owned() });
    }
    if size.saturating_add(8) > length {
        return Err(damaged(format!("its header says {size} bytes, and the file has {length}")));
    }
    let mut header = Vec::new();
    file.take(size).read_to_end(&mut header)?;
    let entries: BTreeMap<String, Entry> = serde_json::from_slice(&header)
        .map_err(|error| damaged(format!("its header is no JSON object: {error}")))?;
    let data = length - 8 - size;
    let (mut parameters, mut bytes) = (0u64, 0u64);
    let mut sizes = Vec::new();
    for (name, entry) in entries {
        let (dtype, shape, (begin, end)) = match entry {
            Entry::Tensor { dtype, shape, data_offsets } => (dtype, shape, data_offsets),
            Entry::Metadata(_) if name == "__metadata__" => continue,
            Entry::Metadata(_) => return Err(damaged(format!("'{name:.80}' is no tensor"))),
        };
        plausible(&name, &shape)?;
        let elements: u64 = shape.iter().product();
        if begin > end || end > data {
            return Err(damaged(format!(
                "tensor '{name:.80}' lies beyond the end; the file may be cut short"
            )));
        }
        // Types narrower than a byte have no size here; what the file reserves for them is exact.
        if dtype_by_name(&dtype).is_some_and(|dtype| Some(end - begin) != elements.checked_mul(dtype.bytes()))
        {
            return Err(damaged(format!("tensor '{name:.80}' has another size than its shape")));
        }
        parameters = parameters.saturating_add(elements);
        bytes = bytes.saturating_add(end - begin);
        sizes.push((name, end - begin));
    }
    Ok(Weights { format: Format::Safetensors, parameters, bytes, largest: largest(sizes), transformer: None })
}
