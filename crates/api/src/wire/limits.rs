//! What people may have, and have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One limit of someone's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// Whose: a user's login name, or the name of a group.
    pub of: String,
    /// Whether it is what all members of a group have together.
    pub together: bool,
    /// Which: `gpus`, `running`, `queued`, `timeout_s`, `gpu_hours`, `log_bytes`, `priority`, `submission_bytes`,
    /// `jobs_bytes`, `snapshots`, `snapshots_bytes` or `requests`.
    pub limit: String,
    /// The most there may be.
    pub most: f64,
    /// How much there is, of what is counted.
    pub has: Option<f64>,
    /// For GPU-hours, the length of the window they are counted in.
    pub window_s: Option<f64>,
}
