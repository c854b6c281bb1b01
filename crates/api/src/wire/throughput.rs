//! Throughput of profiles by GPU type, and progress of tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Throughput of profiles, and the cost of GPU types.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughputs {
    /// Throughput by profile, number of GPUs and GPU type.
    pub throughputs: Vec<Throughput>,
    /// Cost of one GPU for an hour, by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cost_per_hour: BTreeMap<String, f64>,
}

/// Throughput of a profile on a number of GPUs of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Name of the profile.
    pub profile: String,
    /// Number of GPUs.
    #[serde(default = "one")]
    pub gpus: u16,
    /// GPU type.
    pub gpu_type: String,
    /// Steps per second; 0 if it cannot run there.
    pub steps_per_second: f64,
    /// Whether it was measured from a run; values set by users are not.
    #[serde(default)]
    pub measured: bool,
    /// Profile it shares the GPUs with; absent if it has them to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

fn one() -> u16 {
    1
}

/// The reply to a progress report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReply {
    /// Whether the task is to yield: save, exit, and be run again later, because others wait for its GPUs.
    pub give_way: bool,
}

/// Progress of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Name of the task.
    pub task: String,
    /// Array index, where it is part of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Attempt that reports it.
    pub attempt: u32,
    /// Steps done since its first start.
    pub steps: u64,
}
