//! Explanations of why a task waits.

use super::{Outcome, State, Timestamp};
use crate::quantity::MilliCpus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a task waits, in words and figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyView {
    /// Id of the job.
    pub job: String,
    /// Name of the task.
    pub task: String,
    /// Array index of the task.
    pub index: Option<u32>,
    /// State.
    pub state: State,
    /// Outcome, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The whole explanation, as lines to print.
    pub text: Vec<String>,
    /// Stable code of the wait reason, where there is one.
    pub code: Option<String>,
    /// Resources it needs.
    pub needs: Needs,
    /// Devices with free memory.
    pub free: Vec<FreeDevice>,
    /// Tasks ahead of it, the first in the queue first; at most a few.
    pub ahead: Vec<TaskAhead>,
    /// Position in the queue, counted from 1.
    pub position: Option<u64>,
    /// Expected start.
    pub expected_start: Option<StartRange>,
    /// Why no start can be predicted, or what a wide range depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// Changes that would start it sooner.
    pub sooner: Vec<Suggestion>,
    /// Last lines of output where it failed, with control characters escaped; for its owner and admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
    /// Task that `log_tail` comes from, as a selector, where the job has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_of: Option<String>,
}

/// Resources a task needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Needs {
    /// Number of GPUs, all on one worker.
    pub gpus: u32,
    /// Memory on each GPU; null for the whole device.
    pub gpu_memory_bytes: Option<u64>,
    /// Acceptable GPU types; any if empty.
    pub gpu_type: Vec<String>,
    /// CPUs.
    pub cpus: MilliCpus,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Workers it may run on; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Estimate of its model, where it has one: where the memory on each GPU comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Box<EstimateView>>,
}

/// The estimate of a task's model, and what was made of it when the job was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateView {
    /// The whole of it in a sentence.
    pub text: String,
    /// Peak GPU memory without the CUDA context, in bytes.
    pub peak_bytes: u64,
    /// Memory of the CUDA context in bytes.
    pub context_bytes: u64,
    /// Admission bound in bytes, which `share` of jobs stay below.
    pub bound_bytes: u64,
    /// Share of jobs that the bound is to cover.
    pub share: f64,
    /// What the bound was computed from: the margin of public measurements (`published`), other models that ran here
    /// (`other-models`), or runs of the same model (`same-model`).
    pub basis: EstimateBasis,
    /// Number of measured models or runs it was computed from.
    pub measured: u32,
    /// What became of the bound: it is the memory request (`bound`), the user's own request was kept (`explicit`), or it is
    /// more than a GPU here has, so that the task has its GPUs to itself (`whole-gpu`).
    pub request: EstimateRequest,
    /// Who made the estimate: the client that submitted the job, or the command of the server's configuration.
    pub source: EstimateSource,
    /// Expected run time in seconds that was computed from it, because the user gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seconds: Option<f64>,
}

/// Basis of an admission bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateBasis {
    /// The margin that public measurements call for.
    Published,
    /// Other models that were measured here.
    OtherModels,
    /// Runs of the same model that were measured here.
    SameModel,
}

/// Use of an admission bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateRequest {
    /// It is the memory request.
    Bound,
    /// The user's own request was kept.
    Explicit,
    /// The task has its GPUs to itself.
    WholeGpu,
}

/// Maker of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateSource {
    /// The client that submitted the job.
    Submitter,
    /// The command of the server's configuration.
    Command,
}

/// A device with free memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreeDevice {
    /// Id, such as `worker/0`.
    pub device: String,
    /// Type, such as `V100`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Memory that a task could reserve.
    pub free_bytes: u64,
    /// Whether no task is on it.
    pub whole: bool,
}

/// A task ahead in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAhead {
    /// Task, as a selector: `398.train`.
    pub task: String,
    /// User it belongs to.
    pub user: String,
    /// Priority.
    pub priority: i64,
    /// Why it is ahead, such as "priority 5" or "shorter timeout".
    pub because: String,
}

/// Predicted range of a start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRange {
    /// Lower end.
    pub low: Timestamp,
    /// Upper end.
    pub high: Timestamp,
    /// Probability of the range: 0.8 is eight times in ten.
    pub of: f64,
    /// Time of the prediction; forecasts are made in the background, every few seconds while they are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
}

/// A change and its effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// Change, as an option: `--gpu-memory 9GiB`.
    pub change: String,
    /// Effect: "would start now on gpu2".
    pub effect: String,
}
