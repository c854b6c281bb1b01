//! Replays of what happened under other policies.

use super::Timestamp;
use crate::quantity::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which replay to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// The policies, each as `name:key=value,key=value`; what really ran is replayed beside them.
    pub policies: Vec<String>,
    /// How far back; all there is unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Micros>,
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayView {
    /// Its number.
    pub id: u64,
    /// How it stands.
    pub state: ReplayState,
    /// The policies asked for.
    pub policies: Vec<String>,
    /// How far it is, from 0 to 1.
    pub progress: f64,
    /// What it is doing.
    pub doing: String,
    /// Why it failed.
    pub why: Option<String>,
    /// What was replayed.
    pub told: Option<ReplayInput>,
    /// What came out so far: what was recorded, the same simulated, then each policy.
    pub results: Vec<ReplayResult>,
}

/// How a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayState {
    /// It is under way.
    Running,
    /// It is over.
    Done,
    /// It could not be made.
    Failed,
}

/// What was replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayInput {
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
    /// Jobs that came.
    pub jobs: u64,
    /// Jobs that were there before: simulated, and in no figure.
    pub there_before: u64,
    /// Jobs that had not ended: simulated, and in no figure but the waits.
    pub unfinished: u64,
    /// Attempts of jobs the log no longer describes; it goes without them.
    pub unknown: u64,
    /// Policies that were put in force meanwhile.
    pub policy_changes: Vec<String>,
}

/// What came out under one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// What it is.
    pub kind: ResultKind,
    /// The policy, or what it is in words.
    pub policy: String,
    /// Jobs counted.
    pub jobs: u64,
    /// Jobs the policy refused.
    pub rejected: u64,
    /// Jobs that had not started when the recording ended. Their waits until then count in `wait_seconds`, which are lower
    /// bounds for them.
    #[serde(default)]
    pub still_waiting: u64,
    /// From being ready to the first start.
    pub wait_seconds: Distribution,
    /// From submission to the end.
    pub completion_seconds: Distribution,
    /// From the first submission to the last end.
    pub makespan_seconds: f64,
    /// The share of the GPUs' time that was used, from 0 to 1.
    pub utilisation: f64,
    /// How the simulated starts compare with the recorded ones.
    pub agreement: Option<Agreement>,
}

/// What a result is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// What was recorded.
    Recorded,
    /// The policies that ran, simulated: how far it agrees with what was recorded is how far the rest can be trusted.
    AsItRan,
    /// Another policy.
    Policy,
}

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Their mean.
    pub average: f64,
    /// Half are not above this.
    pub p50: f64,
    /// 95 in 100 are not above this.
    pub p95: f64,
    /// None is above this.
    pub max: f64,
}

/// How simulated starts compare with recorded ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Tasks that started in both.
    pub starts: u64,
    /// Tasks that started in the recording alone.
    pub missing: u64,
    /// How many stand at the same place in the order of starts.
    pub same_place: u64,
    /// The mean difference between the two starts of a task.
    pub mean_error_seconds: f64,
    /// The largest.
    pub max_error_seconds: f64,
}
