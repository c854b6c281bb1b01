//! Replays of the history under other policies.

use super::Timestamp;
use crate::quantity::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to replay the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// Policies, each as `name:key=value,key=value`. The policies that ran are replayed beside them.
    pub policies: Vec<String>,
    /// Range to replay, counted back from now; all of the history by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Micros>,
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayView {
    /// Id.
    pub id: u64,
    /// State.
    pub state: ReplayState,
    /// Requested policies.
    pub policies: Vec<String>,
    /// Progress, from 0 to 1.
    pub progress: f64,
    /// Present step.
    pub doing: String,
    /// Why it failed.
    pub why: Option<String>,
    /// Recording that is replayed.
    pub told: Option<ReplayInput>,
    /// Results so far: the recording, the policies that ran as simulated, then each requested policy.
    pub results: Vec<ReplayResult>,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayState {
    /// In progress.
    Running,
    /// Finished.
    Done,
    /// Failed.
    Failed,
}

/// The recording that is replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayInput {
    /// Beginning.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// Jobs submitted in this range.
    pub jobs: u64,
    /// Jobs submitted before: simulated, but not counted.
    pub there_before: u64,
    /// Jobs that had not ended: simulated, but counted only in the waits.
    pub unfinished: u64,
    /// Attempts of jobs the log no longer describes, which are left out.
    pub unknown: u64,
    /// Policies that were switched to in this range.
    pub policy_changes: Vec<String>,
}

/// The result of one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// Kind of result.
    pub kind: ResultKind,
    /// Policy, or a description of the result.
    pub policy: String,
    /// Jobs counted.
    pub jobs: u64,
    /// Jobs the policy rejected.
    pub rejected: u64,
    /// Jobs that had not started when the recording ended. Their waits until then count in `wait_seconds`, as lower
    /// bounds.
    #[serde(default)]
    pub still_waiting: u64,
    /// Time from ready to first start, in seconds.
    pub wait_seconds: Distribution,
    /// Turnaround, from submission to end, in seconds.
    pub completion_seconds: Distribution,
    /// Makespan, from the first submission to the last end, in seconds.
    pub makespan_seconds: f64,
    /// Share of the GPUs' time that was used, from 0 to 1.
    pub utilisation: f64,
    /// Agreement of simulated with recorded starts.
    pub agreement: Option<Agreement>,
}

/// Kind of a replay's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// The recording.
    Recorded,
    /// The policies that ran, simulated: how closely this agrees with the recording shows how far to trust the rest.
    AsItRan,
    /// Another policy, simulated.
    Policy,
}

/// Distribution of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Mean.
    pub average: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

/// Agreement of simulated with recorded starts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Tasks that started in both.
    pub starts: u64,
    /// Tasks that started only in the recording.
    pub missing: u64,
    /// Tasks with the same position in the order of starts.
    pub same_place: u64,
    /// Mean difference between the two starts of a task, in seconds.
    pub mean_error_seconds: f64,
    /// Largest difference, in seconds.
    pub max_error_seconds: f64,
}
