//! Claims: devices held for work that the server did not start.

use super::{StartRange, Timestamp};
use crate::quantity::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Devices to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// What is needed, in the fields of a job document: `gpus`, `gpu_memory`, `gpu_preferred`, `wait_mode`, `priority`…
    #[serde(default)]
    pub needs: serde_json::Map<String, serde_json::Value>,
    /// Whose it is, from the login of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The process on the server's machine it is for, whose end ends it. Without one, heartbeats keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// How long its holder may be silent; a minute unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Micros>,
    /// How long it lasts once granted.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "for")]
    pub lasts: Option<Micros>,
}

/// A process that uses devices already, to be given a claim on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// Its number on the server's machine.
    pub pid: i32,
}

/// More time for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// How much.
    pub by: Micros,
}

/// How far a claim has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimState {
    /// It stands in line.
    Waiting,
    /// It has its devices.
    Held,
    /// It is being let go.
    Ending,
    /// It is over.
    Ended,
}

impl ClaimState {
    /// The word used in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Ending => "ending",
            Self::Ended => "ended",
        }
    }
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimView {
    /// Its id, which is that of a job: `why`, `show` and `cancel` take it too.
    pub claim: String,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// How far it has come.
    pub state: ClaimState,
    /// How many GPUs it is for.
    pub gpus: u32,
    /// The devices it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The variables that show a program just these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The process it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// When it was made.
    pub registered_at: Timestamp,
    /// When its holder was last heard of; while its process is watched, that is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard_at: Option<Timestamp>,
    /// Until when it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Its place in line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When it will likely be granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<StartRange>,
    /// Why no start can be named, or what a wide range hinges on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
