//! Claims: devices held for work that the server did not start.

use super::{StartRange, Timestamp};
use crate::quantity::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request for devices to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Requirements, in the fields of a job document: `gpus`, `gpu_memory`, `gpu_preferred`, `wait_mode`, `priority`…
    #[serde(default)]
    pub needs: serde_json::Map<String, serde_json::Value>,
    /// User the claim belongs to. Taken from the login unless the caller may act for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Process on the server's machine that the claim is for; the claim ends with it. Without one, heartbeats keep
    /// the claim alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Longest silence of its holder before the claim ends; one minute by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Micros>,
    /// Duration of the claim once granted; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "for")]
    pub lasts: Option<Micros>,
}

/// A request for a claim on the devices that a process already uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// Process id on the server's machine.
    pub pid: i32,
}

/// A request to extend a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// Additional time.
    pub by: Micros,
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimState {
    /// Waiting in the queue.
    Waiting,
    /// Granted: it has its devices.
    Held,
    /// Being released.
    Ending,
    /// Ended.
    Ended,
}

impl ClaimState {
    /// The word in JSON and tables.
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
    /// Id, which is also that of a job: `why`, `show` and `cancel` accept it.
    pub claim: String,
    /// Name.
    pub name: String,
    /// User it belongs to.
    pub user: String,
    /// State.
    pub state: ClaimState,
    /// Number of GPUs requested.
    pub gpus: u32,
    /// Devices it has been granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Environment variables that restrict a program to these devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Process it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Time of the request.
    pub registered_at: Timestamp,
    /// Last heartbeat of its holder; the present while its process is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard_at: Option<Timestamp>,
    /// End of the claim, where its duration is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Position in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Expected time of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<StartRange>,
    /// Why no start can be predicted, or what a wide range depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Why it is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
