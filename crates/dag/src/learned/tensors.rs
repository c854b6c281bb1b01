//! Safetensors format, as far as weights need it: named matrices of 32-bit floats and metadata.

use std::collections::BTreeMap;

use super::network::NetworkError;

/// Tensors by name, with rows and columns, and the metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tensors {
    pub(super) parts: Vec<(String, usize, usize, Vec<f32>)>,
    pub(super) metadata: BTreeMap<String, String>,
}

impl Tensors {
    /// Parses a file. Tensors of other types or ranks are skipped.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, NetworkError> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or(NetworkError::TooShort)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| NetworkError::TooShort)?;
        let header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(rest.get(..length).ok_or(NetworkError::TooShort)?)?;
        let data = &rest[length..];
        let mut read = Self::default();
        for (name, tensor) in header {
            if name == "__metadata__" {
                read.metadata = serde_json::from_value(tensor)?;
                continue;
            }
            let number = |value: &serde_json::Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
            let fields = ["shape", "data_offsets"]
                .map(|key| Some((number(&tensor[key][0])?, number(&tensor[key][1])?)));
            let [Some((rows, columns)), Some((start, end))] = fields else { continue };
            let size = rows.checked_mul(columns).and_then(|n| n.checked_mul(4));
            if tensor["dtype"] != "F32" || size.is_none() || end.checked_sub(start) != size {
                continue;
            }
            let bytes = data.get(start..end).ok_or(NetworkError::TooShort)?;
            let values = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            read.parts.push((name, rows, columns, values));
        }
        Ok(read)
    }

    /// Values of the tensor of that name and shape.
    pub(super) fn tensor(
        &self,
        name: &'static str,
        rows: usize,
        columns: usize,
    ) -> Result<&[f32], NetworkError> {
        let found = self.parts.iter().find(|p| p.0 == name && p.1 == rows && p.2 == columns);
        let values = &found.ok_or(NetworkError::Tensor(name))?.3;
        if values.iter().all(|v| v.is_finite()) { Ok(values) } else { Err(NetworkError::NotFinite(name)) }
    }

    /// Serialises to the bytes of a file.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        if !self.metadata.is_empty() {
            header.insert("__metadata__".to_owned(), serde_json::json!(self.metadata));
        }
        let mut at = 0;
        for (name, rows, columns, values) in &self.parts {
            let end = at + 4 * values.len();
            let tensor =
                serde_json::json!({"dtype": "F32", "shape": [rows, columns], "data_offsets": [at, end]});
            header.insert(name.clone(), tensor);
            at = end;
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(self.parts.iter().flat_map(|p| &p.3).flat_map(|w| w.to_le_bytes()));
        bytes
    }
}
