//! The simulation in the pages.

use super::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Progress of the simulation in the pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulationView {
    /// Simulated time.
    pub now: Timestamp,
    /// Simulated time of its beginning.
    pub began: Timestamp,
    /// Simulated seconds that pass in one second.
    pub speed: f64,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether every job of its workload has ended.
    pub over: bool,
}

/// A change of the simulation's progress; omitted fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationUpdate {
    /// Simulated seconds that pass in one second, from 0.001 to 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}
