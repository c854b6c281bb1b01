//! Snapshots: copies of working directories, taken at submission.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A snapshot of a working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotView {
    /// Id: the hash of its content.
    pub snapshot: String,
    /// Directory it was taken of.
    pub from: String,
    /// Number of files.
    pub files: u64,
    /// Size of all files in bytes.
    pub bytes: u64,
}

/// State of a snapshot's upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotUpload {
    /// Id of the snapshot.
    pub snapshot: String,
    /// Hashes of contents that must still be sent.
    pub missing: Vec<String>,
    /// Limit of a snapshot's size in bytes.
    pub most_bytes: u64,
}
