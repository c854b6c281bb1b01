//! Notices of changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A notice that something changed, for clients to read it again: it says where, not what. The stream `/v1/events`
/// consists of notices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Sequence number of the last event it covers, which is also the id that a stream resumes after.
    pub seq: u64,
    /// Jobs that changed.
    pub jobs: Vec<String>,
    /// Devices that changed, such as `worker/0`.
    pub devices: Vec<String>,
    /// Whether more changed than is listed, such as the policy and with it every position in the queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}
