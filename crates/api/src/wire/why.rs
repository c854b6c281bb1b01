//! Why something waits.

use super::{Outcome, State, Timestamp};
use crate::quantity::MilliCpus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a task waits, in words and in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyView {
    /// The job's id.
    pub job: String,
    /// The task's name.
    pub task: String,
    /// The task's array index.
    pub index: Option<u32>,
    /// Where it is on its way.
    pub state: State,
    /// How it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The whole answer as lines to print.
    pub text: Vec<String>,
    /// A stable word for the reason, where one thing stands in the way.
    pub code: Option<String>,
    /// What it needs.
    pub needs: Needs,
    /// What is free now.
    pub free: Vec<FreeDevice>,
    /// Who is ahead, first in line first; at most a few.
    pub ahead: Vec<TaskAhead>,
    /// Its place in line, counted from 1.
    pub position: Option<u64>,
    /// When it will likely start.
    pub expected_start: Option<StartRange>,
    /// Why no start can be named, or what a wide range hinges on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_reason: Option<String>,
    /// A change that would start it sooner.
    pub sooner: Vec<Suggestion>,
    /// The last lines it printed, where it failed; for its owner and admins. What a terminal might obey is written out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_tail: Vec<String>,
    /// The task `log_tail` is of, as a selector, where the job has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_of: Option<String>,
}

/// What a task needs to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Needs {
    /// GPUs on one worker.
    pub gpus: u32,
    /// Memory on each; the whole device where nothing is said.
    pub gpu_memory_bytes: Option<u64>,
    /// Types it accepts; any where none is named.
    pub gpu_type: Vec<String>,
    /// CPUs.
    pub cpus: MilliCpus,
    /// Memory of the machine.
    pub memory_bytes: u64,
}

/// A device with room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreeDevice {
    /// Its id, `worker/0`.
    pub device: String,
    /// What it is, such as `V100`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How much memory a task could be promised.
    pub free_bytes: u64,
    /// Whether nothing is on it.
    pub whole: bool,
}

/// Someone ahead in line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAhead {
    /// The task, as it is selected: `398.train`.
    pub task: String,
    /// Whose it is.
    pub user: String,
    /// Its priority.
    pub priority: i64,
    /// Why it is ahead, such as "priority 5" or "shorter promise".
    pub because: String,
}

/// When something will likely happen: between two moments, so many times in all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRange {
    /// The earlier end.
    pub low: Timestamp,
    /// The later end.
    pub high: Timestamp,
    /// The share of outcomes between the two: 0.8 is eight times in ten.
    pub of: f64,
    /// When it was foreseen: forecasts are made in the background, every few seconds while someone asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
}

/// A change and what it would bring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// The change, as an option: `--gpu-memory 9GiB`.
    pub change: String,
    /// What it would bring: "would start now on gpu2".
    pub effect: String,
}
