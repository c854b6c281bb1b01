//! Readers of the binary, which has no library to link to: their sources are included, with stand-ins for the modules they
//! name (`input`, `usage_error`, `workload`).

#[expect(dead_code, reason = "the binary uses more of it")]
#[path = "../../crates/warpyard/src/simulation/cluster.rs"]
mod cluster;

use crate::input::parse_json;
use serde::de::DeserializeOwned;
use warpyard_core::event::WorkerInfo;

/// The servers a line or a file describes.
pub fn cluster(given: &str) -> Result<Vec<WorkerInfo>, String> {
    cluster::cluster(given).map_err(|e| format!("{e:?}"))
}

/// JSON as the command line reads it.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    parse_json("input.json", text).map_err(|e| format!("{e:?}"))
}
