//! GPUs, workers and the server as they are shown.

use super::Timestamp;
use crate::quantity::MilliCpus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A GPU and who is on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuView {
    /// Its id, `worker/0`.
    pub id: String,
    /// What it is, such as `V100`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The memory it has.
    pub memory_bytes: u64,
    /// How much of it tasks were promised or really have, whichever is more.
    pub used_bytes: u64,
    /// How much of it a new task could be promised.
    pub free_bytes: u64,
    /// How much of it belongs to processes that are not warpyard's.
    pub foreign_bytes: u64,
    /// Those processes, where the driver tells of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignProcess>,
    /// The tasks on it.
    pub tasks: Vec<GpuTask>,
    /// The worker it is in.
    pub worker: String,
    /// Its number there.
    pub index: u32,
    /// The maker's id for it, where it has one.
    pub uuid: Option<String>,
    /// How much memory tasks may be promised in all.
    pub budget_bytes: u64,
    /// How many tasks may be on it at once.
    pub max_tasks: Option<u32>,
    /// How busy it is, where it tells.
    pub utilisation_percent: Option<u8>,
    /// How hot it is, where it tells.
    pub temperature_celsius: Option<i16>,
    /// The power it draws, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<u32>,
    /// Why no task starts on it now although it has room, such as a process that is not warpyard's.
    pub unavailable: Option<String>,
}

/// A process on a GPU that is not warpyard's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignProcess {
    /// Its number on its machine; `warpyard adopt` takes it.
    pub pid: u32,
    /// Whose it is, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The memory it has on the device, where the driver says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A task on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuTask {
    /// The task, as it is selected: `412.train[3]`.
    pub task: String,
    /// Whose it is.
    pub user: String,
    /// The memory it is charged for here: what it requested, or what it uses where that is more; the whole device where it
    /// requested none.
    pub memory_bytes: u64,
    /// What it requested, where it uses more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// The job's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Since when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What is odd about it, such as that it does nothing with the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Whether a worker takes tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It does.
    Up,
    /// It finishes what it has and takes no more.
    Draining,
    /// It has not been heard of.
    Lost,
}

/// A machine's worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// Its name.
    pub id: String,
    /// Whether it takes tasks.
    pub state: WorkerState,
    /// The CPUs it offers.
    pub cpus: MilliCpus,
    /// Those that tasks have.
    pub used_cpus: MilliCpus,
    /// The memory it offers.
    pub memory_bytes: u64,
    /// That which tasks were promised.
    pub used_memory_bytes: u64,
    /// CPUs busy on the machine, with processes that are not warpyard's; a mean over the last seconds, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus: Option<MilliCpus>,
    /// Memory in use on the machine, with processes that are not warpyard's, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_in_use_bytes: Option<u64>,
    /// How many GPUs it has.
    pub gpus: u32,
    /// How many tasks run there.
    pub running: u64,
    /// Its version of warpyard.
    pub version: String,
}

/// The server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InfoView {
    /// Its version of warpyard.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub address: String,
    /// Where it keeps everything.
    pub data: String,
    /// When it started.
    pub started_at: Timestamp,
    /// The policy in use, with its parameters: `short-first:beta=2`.
    pub policy: String,
    /// How many workers it has.
    pub workers: u64,
    /// How many GPUs they have together.
    pub gpus: u64,
    /// How many tasks wait.
    pub waiting: u64,
    /// How many tasks run.
    pub running: u64,
    /// How many processes a task on its own machine may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessLimit>,
    /// What its own worker enforces on tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforces: Option<EnforcementView>,
}

/// What a worker enforces on tasks by cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnforcementView {
    /// The main memory a task requested (`memory`): one that needs more is killed.
    pub memory: LimitEnforcement,
    /// The CPUs a task requested (`cpus`): it has no more CPU time.
    pub cpus: LimitEnforcement,
    /// The GPUs a task was granted: it cannot open the device nodes of others. Where this is not enforced, environment
    /// variables such as `CUDA_VISIBLE_DEVICES` say which to use, and nothing keeps a task from using others. Absent where
    /// there are no GPUs, or they are only declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<LimitEnforcement>,
}

/// Whether something is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitEnforcement {
    /// Whether it is.
    pub enforced: bool,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How many processes and threads a task may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessLimit {
    /// How many.
    pub most: u64,
    /// Whether the kernel sees to it; otherwise they are counted now and then, and a task that has more is ended.
    pub contained: bool,
}

/// Whether all of some GPUs are free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AvailabilityView {
    /// Whether every one of them is.
    pub free: bool,
    /// Each of them.
    pub gpus: Vec<GpuAvailability>,
}

/// Whether a GPU is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuAvailability {
    /// Its id, `worker/0`.
    pub id: String,
    /// Whether nobody is on it and a task could start there.
    pub free: bool,
    /// Who or what is there, if it is not free.
    pub why: Option<String>,
}

/// Proof that the server knows its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofView {
    /// HMAC-SHA256, keyed by the token, over `warpyard server proof 1`, the nonce and the header `Host`, each followed by a
    /// zero byte; in hexadecimal digits.
    pub proof: String,
}

/// A way into the pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginView {
    /// An address that lets whoever opens it first into the pages, for ten minutes.
    pub login: String,
}
