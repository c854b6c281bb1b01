//! Word that something changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something changed: not what, only where, so that whoever shows it looks again. The stream `/v1/events` is made of
/// these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// The number of the last event it is about; the id from which a cut stream goes on.
    pub seq: u64,
    /// The jobs that changed.
    pub jobs: Vec<String>,
    /// The devices that changed, as `worker/0`.
    pub devices: Vec<String>,
    /// Whether more changed than is named, such as the policy and with it every place in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}
