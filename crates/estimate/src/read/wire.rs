//! The protocol-buffer wire format, read sequentially from a file: varints, lengths and fields. Written by hand because ONNX
//! models have gigabytes of weights in the middle, which a generated decoder would copy into memory and this one seeks past.

use super::ReadError;
use crate::graph::Format;
use std::io::{BufReader, Read, Seek, SeekFrom};

/// Longest piece that is read into memory at once.
pub(super) const MAX_PIECE: u64 = 16 << 20;

/// A field's value as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A string, bytes, packed numbers or a message: this many bytes follow.
    Delimited(u64),
}

/// Position in a file with the end of the message that is being read.
pub(super) struct Wire<R> {
    file: BufReader<R>,
    at: u64,
}

fn damaged(problem: &str) -> ReadError {
    ReadError::Damaged { format: Format::Onnx, problem: problem.to_owned() }
}

impl<R: Read + Seek> Wire<R> {
    pub(super) fn new(file: R) -> Self {
        Self { file: BufReader::new(file), at: 0 }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn byte(&mut self, end: u64) -> Result<u8, ReadError> {
        if self.at >= end {
            return Err(damaged("a message ends in the middle of a field"));
        }
        let mut byte = [0];
        self.file.read_exact(&mut byte)?;
        self.at += 1;
        Ok(byte[0])
    }

    pub(super) fn varint(&mut self, end: u64) -> Result<u64, ReadError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte(end)?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number has too many bytes"))
    }

    /// The next field of a message that ends at `end`: its number and value. Delimited values are the caller's to read or skip.
    pub(super) fn field(&mut self, end: u64) -> Result<Option<(u64, Value)>, ReadError> {
        if self.at == end {
            return Ok(None);
        }
        let key = self.varint(end)?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint(end)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed(end)?)),
            2 => {
                let length = self.varint(end)?;
                if length > end - self.at {
                    return Err(damaged(
                        "a field lies beyond the end of its message; the file may be cut short",
                    ));
                }
                Value::Delimited(length)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed(end)?)),
            _ => return Err(damaged("a field has an unknown wire type")),
        };
        Ok(Some((key >> 3, value)))
    }

    fn fixed<const N: usize>(&mut self, end: u64) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte(end)?;
        }
        Ok(bytes)
    }

    pub(super) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, ReadError> {
        if length > MAX_PIECE {
            return Err(ReadError::TooLarge {
                what: "a name or list in the model".to_owned(),
                limit: "16 MiB".to_owned(),
            });
        }
        let mut bytes = Vec::new();
        self.file.by_ref().take(length).read_to_end(&mut bytes)?;
        self.at += length;
        if bytes.len() as u64 != length {
            return Err(damaged("the file is cut short"));
        }
        Ok(bytes)
    }

    pub(super) fn text(&mut self, length: u64) -> Result<String, ReadError> {
        Ok(String::from_utf8_lossy(&self.bytes(length)?).into_owned())
    }

    /// Skips a value that says nothing about memory.
    pub(super) fn skip(&mut self, value: Value) -> Result<(), ReadError> {
        if let Value::Delimited(length) = value {
            match i64::try_from(length) {
                Ok(offset) if length < 4096 => self.file.seek_relative(offset)?,
                Ok(offset) => {
                    self.file.seek(SeekFrom::Current(offset))?;
                }
                Err(_) => return Err(damaged("a field is longer than any file")),
            }
            self.at += length;
        }
        Ok(())
    }
}
