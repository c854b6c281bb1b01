//! Directories kept as they were at submission.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a job runs in a copy of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotView {
    /// Its name: the hash of all that is in it.
    pub snapshot: String,
    /// The directory it was made of.
    pub from: String,
    /// How many files it has.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// The answer to a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotUpload {
    /// What the snapshot is called.
    pub snapshot: String,
    /// Hashes of contents that are not there yet.
    pub missing: Vec<String>,
    /// The most bytes a snapshot may hold.
    pub most_bytes: u64,
}
