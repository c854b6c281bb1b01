//! Previews of jobs, and parsed job documents.

use super::{FreeDevice, StartRange};
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The position and expected start of a job, were it submitted now. Nothing was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// Whether its first task would start immediately.
    pub starts_now: bool,
    /// Position in the queue, counted from 1; null if it would start immediately or be blocked.
    pub position: Option<u64>,
    /// Expected start of its first task.
    pub expected_start: Option<StartRange>,
    /// Why no start can be predicted, or what a wide range depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Why it would wait, as lines to print.
    pub why: Vec<String>,
    /// Devices with free memory.
    pub free: Vec<FreeDevice>,
    /// Previews with smaller requests.
    pub alternatives: Vec<Alternative>,
    /// Warnings about the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}

/// The preview of a job with a smaller request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// Task whose request is smaller.
    pub task: String,
    /// Change, as an option: `--timeout 30m`.
    pub change: String,
    /// Whether its first task would then start immediately.
    pub starts_now: bool,
    /// Position in the queue.
    pub position: Option<u64>,
    /// Expected start of its first task.
    pub expected_start: Option<StartRange>,
    /// Why no start can be predicted, or what a wide range depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
}

/// The text of a job document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentText {
    /// TOML or JSON.
    pub text: String,
}

/// A parsed job document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentView {
    /// The document in its long form: a job with its tasks.
    pub doc: serde_json::Value,
    /// Warnings about the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}
