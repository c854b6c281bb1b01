//! The preview of a job that is not submitted.

use super::{FreeDevice, StartRange};
use crate::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The position and expected start of a job, were it submitted now; nothing was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// Whether its first task would start at once.
    pub starts_now: bool,
    /// Its place in line, counted from 1; nothing where it would start at once or waits for something else than room.
    pub position: Option<u64>,
    /// When its first task would likely start.
    pub expected_start: Option<StartRange>,
    /// Why no start can be named, or what a wide range hinges on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Why it would wait, as lines to print.
    pub why: Vec<String>,
    /// What is free now.
    pub free: Vec<FreeDevice>,
    /// What would change if it asked for less.
    pub alternatives: Vec<Alternative>,
    /// What is odd about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}

/// The same for a job that requests something else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// The task that would ask for something else.
    pub task: String,
    /// What it would ask for, as an option: `--timeout 30m`.
    pub change: String,
    /// Whether its first task would then start at once.
    pub starts_now: bool,
    /// Its place in line then.
    pub position: Option<u64>,
    /// When its first task would then likely start.
    pub expected_start: Option<StartRange>,
    /// Why no start can be named, or what a wide range hinges on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
}

/// A job document as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentText {
    /// TOML, or JSON.
    pub text: String,
}

/// A job document that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentView {
    /// The same in its long form: a job with its tasks.
    pub doc: serde_json::Value,
    /// What is odd about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
}
