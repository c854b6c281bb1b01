//! How fast profiles run on types of GPU, and how far a task is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of speeds, and what types cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughputs {
    /// By profile, number of GPUs and type.
    pub throughputs: Vec<Throughput>,
    /// What an hour of one GPU of a type costs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cost_per_hour: BTreeMap<String, f64>,
}

/// How fast a profile is on so many GPUs of a type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// The profile's name.
    pub profile: String,
    /// GPUs it runs on at once.
    #[serde(default = "one")]
    pub gpus: u16,
    /// The type of GPU.
    pub gpu_type: String,
    /// Steps a second; 0 says that it cannot run there.
    pub steps_per_second: f64,
    /// Whether a run was measured; what people say is not taken for measured.
    #[serde(default)]
    pub measured: bool,
    /// The profile it shares those GPUs with; absent: it has them alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

fn one() -> u16 {
    1
}

/// What is wanted of a task that said how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReply {
    /// That it saves now and exits, to be run again later: others wait for its GPUs, and it said that it would yield.
    pub give_way: bool,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Its name.
    pub task: String,
    /// Its value in the array, where it is one of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The try that says so.
    pub attempt: u32,
    /// Steps done since it first began.
    pub steps: u64,
}
