//! A simulation that is shown, and how fast it goes.

use super::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a simulation that is shown goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulationView {
    /// The moment it has come to, by its own clock.
    pub now: Timestamp,
    /// The moment it began at, by its own clock.
    pub began: Timestamp,
    /// How many of its seconds pass in one while it goes on.
    pub speed: f64,
    /// Whether it stands still.
    pub paused: bool,
    /// Whether every job of its workload has come and ended.
    pub over: bool,
}

/// How a simulation is to go on; what is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationUpdate {
    /// How many of its seconds pass in one, from a thousandth to a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Whether it stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}
