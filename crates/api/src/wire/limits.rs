//! Limits of users and groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A limit and how much of it is in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// User or group it applies to.
    pub of: String,
    /// Whether it applies to all members of a group together.
    pub together: bool,
    /// Kind of limit: `gpus`, `running`, `queued`, `timeout_s`, `gpu_hours`, `log_bytes`, `priority`,
    /// `submission_bytes`, `jobs_bytes`, `snapshots`, `snapshots_bytes` or `requests`.
    pub limit: String,
    /// Limit.
    pub most: f64,
    /// Amount in use, where it is counted.
    pub has: Option<f64>,
    /// Length in seconds of the window that GPU-hours are counted in.
    pub window_s: Option<f64>,
}
