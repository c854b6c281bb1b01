//! Stand-in for the binary's `input`: its JSON reader, with as much around it as the included sources name.

#[path = "../../crates/warpyard/src/input/json.rs"]
mod json;

pub(crate) use json::parse_json;

use crate::usage_error::UsageError;

pub(crate) fn read_file(file: &str) -> Result<String, UsageError> {
    std::fs::read_to_string(file).map_err(UsageError::UnreadableFile)
}

pub(crate) fn bad_file(_file: &str, source: impl std::error::Error + Send + Sync + 'static) -> UsageError {
    UsageError::BadFile(Box::new(source))
}
