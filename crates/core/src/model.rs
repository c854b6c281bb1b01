//! Models of tasks: the file a task's model was estimated from, the estimate, and what admission made of it. The estimate is
//! made outside, by the client that submits; what is written here is final, so that a replay never estimates again.

use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Model that a task runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Path of its file, as the user named it. Never opened by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Batch size on each device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// What it is run for; absent where the user did not say, which means inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModelMode>,
    /// Optimiser, in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// Estimate, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<ModelEstimate>,
}

impl ModelSpec {
    /// Memory that it takes in bytes, precise enough to limit users.
    pub(crate) fn size(&self) -> u64 {
        let graph = self.estimate.as_ref().and_then(|estimate| estimate.graph.as_ref());
        let texts = self.file.iter().chain(&self.optimizer).chain(graph).map(|text| text.len() + 32);
        let seconds = self.estimate.iter().flat_map(|estimate| estimate.seconds.keys());
        let all = texts.chain(seconds.map(|kind| kind.len() + 64)).sum::<usize>();
        (size_of::<ModelSpec>() + all) as u64
    }
}

/// What a model is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelMode {
    /// Forward passes.
    Infer,
    /// Training steps.
    Train,
}

/// Estimate of a model's memory and run time, and the admission bound computed from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelEstimate {
    /// Digest of graph, shapes and mode: equal models have equal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Peak device memory in bytes, without the context.
    pub peak: u64,
    /// Device memory of the CUDA context in bytes.
    pub context: u64,
    /// Seconds of one step at nominal rates, by device type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
    /// Admission bound in bytes: what a task like this stays below with the stated probability.
    pub bound: u64,
    /// The stated probability.
    pub share: f64,
    /// What the bound was computed from.
    pub basis: BoundBasis,
    /// What became of the bound.
    pub request: EstimateRequest,
    /// Who made the estimate.
    pub source: EstimateSource,
    /// Expected run time that was computed from the estimate because the user gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Span>,
}

impl ModelEstimate {
    /// Estimated device memory in bytes, context included.
    pub fn total(&self) -> u64 {
        self.peak.saturating_add(self.context)
    }
}

/// Basis of an admission bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBasis {
    /// The margin that public measurements call for, because too little was measured here.
    Published,
    /// The ratios of measured to estimated memory of this many other models that ran here.
    OtherModels(u32),
    /// The peaks of this many runs of the same model on the same device type.
    SameModel(u32),
}

/// Use of an admission bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateRequest {
    /// It is the task's memory request.
    Bound,
    /// The task requested memory itself, which was kept.
    Explicit,
    /// It is more than any device has: the task has its devices to itself.
    WholeDevice,
}

/// Maker of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateSource {
    /// The client that submitted the job, from the model's file.
    Submitter,
    /// The command that the server's configuration names.
    Command,
}
