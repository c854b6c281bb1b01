//! GPUs, workers and the server.

use super::Timestamp;
use crate::quantity::MilliCpus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A GPU and the tasks on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuView {
    /// Id, such as `worker/0`.
    pub id: String,
    /// Type, such as `V100`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory that tasks have reserved or use, whichever is more.
    pub used_bytes: u64,
    /// Memory that a new task could reserve.
    pub free_bytes: u64,
    /// Memory used by processes that warpyard did not start.
    pub foreign_bytes: u64,
    /// Foreign processes on the GPU, where the driver lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignProcess>,
    /// Tasks on it.
    pub tasks: Vec<GpuTask>,
    /// Worker it belongs to.
    pub worker: String,
    /// Index on its worker.
    pub index: u32,
    /// UUID of the vendor, where it has one.
    pub uuid: Option<String>,
    /// Memory that tasks may reserve in total.
    pub budget_bytes: u64,
    /// Most tasks on it at once.
    pub max_tasks: Option<u32>,
    /// Utilisation in percent, where it is reported.
    pub utilisation_percent: Option<u8>,
    /// Temperature in °C, where it is reported.
    pub temperature_celsius: Option<i16>,
    /// Power draw in watts, where it is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<u32>,
    /// Why no task can start on it, such as a process that warpyard did not start.
    pub unavailable: Option<String>,
}

/// A process on a GPU that warpyard did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForeignProcess {
    /// Process id; `warpyard adopt` accepts it.
    pub pid: u32,
    /// User it belongs to, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Memory it uses on the device, where the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A task on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuTask {
    /// Task, as a selector: `412.train[3]`.
    pub task: String,
    /// User it belongs to.
    pub user: String,
    /// Memory it is charged for here: what it requested, or what it uses if that is more; the whole device if it
    /// requested none.
    pub memory_bytes: u64,
    /// Requested memory, where it uses more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// Name of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time since when it has been there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Remark, such as that it does not use the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Whether a worker accepts tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It accepts tasks.
    Up,
    /// It was not heard of for a while; its lease has not expired.
    Silent,
    /// It finishes its tasks and accepts no more.
    Draining,
    /// It accepts no tasks because it could not start several in a row.
    Quarantined,
    /// Its lease has expired.
    Lost,
}

/// A worker: the agent of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// Name.
    pub id: String,
    /// Name, as `id`.
    #[serde(default)]
    pub name: String,
    /// Whether it accepts tasks.
    pub state: WorkerState,
    /// Whether it is the worker inside the server.
    #[serde(default)]
    pub local: bool,
    /// Labels by which jobs select it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// GPUs.
    #[serde(default)]
    pub devices: Vec<WorkerDevice>,
    /// Time it was last heard of; absent for the worker inside the server, and where it was not heard of since the server
    /// started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard: Option<Timestamp>,
    /// Why it is draining, where that is known, such as that it was quarantined because it cannot start anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_reason: Option<String>,
    /// CPUs it offers.
    pub cpus: MilliCpus,
    /// CPUs that tasks have reserved.
    pub used_cpus: MilliCpus,
    /// Memory it offers.
    pub memory_bytes: u64,
    /// Memory that tasks have reserved.
    pub used_memory_bytes: u64,
    /// CPUs busy on the machine, by any process; a mean over the last seconds, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cpus: Option<MilliCpus>,
    /// Memory in use on the machine, by any process, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_in_use_bytes: Option<u64>,
    /// Number of GPUs.
    pub gpus: u32,
    /// Number of running tasks.
    pub running: u64,
    /// Version of warpyard; empty where it is not known.
    pub version: String,
}

/// A GPU of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerDevice {
    /// Index on its worker.
    pub index: u32,
    /// Type, such as `V100`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// The server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InfoView {
    /// Version of warpyard.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Address it listens on.
    pub address: String,
    /// Data directory.
    pub data: String,
    /// Start of the server.
    pub started_at: Timestamp,
    /// Policy in force, with its parameters: `short-first:beta=2`.
    pub policy: String,
    /// Number of workers.
    pub workers: u64,
    /// Number of GPUs of all workers.
    pub gpus: u64,
    /// Number of waiting tasks.
    pub waiting: u64,
    /// Number of running tasks.
    pub running: u64,
    /// Process limit of tasks on the server's own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessLimit>,
    /// Limits that the server's own worker enforces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforces: Option<EnforcementView>,
}

/// Limits that a worker enforces with cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnforcementView {
    /// Requested main memory (`memory`): a task that exceeds it is killed.
    pub memory: LimitEnforcement,
    /// Requested CPUs (`cpus`): a task gets no more CPU time.
    pub cpus: LimitEnforcement,
    /// Granted GPUs: a task cannot open the device nodes of others. Where this is not enforced, environment variables
    /// such as `CUDA_VISIBLE_DEVICES` name the granted ones, and nothing keeps a task from using others. Absent where
    /// there are no GPUs, or they are only declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<LimitEnforcement>,
}

/// Whether a limit is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitEnforcement {
    /// Whether it is.
    pub enforced: bool,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Process limit of a task, threads included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessLimit {
    /// Limit.
    pub most: u64,
    /// Whether the kernel enforces it (`pids.max`); otherwise processes are counted at intervals, and a task that
    /// exceeds the limit is ended.
    pub contained: bool,
}

/// Whether all of the given GPUs are free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AvailabilityView {
    /// Whether all are free.
    pub free: bool,
    /// Each GPU.
    pub gpus: Vec<GpuAvailability>,
}

/// Whether a GPU is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuAvailability {
    /// Id, such as `worker/0`.
    pub id: String,
    /// Whether no task is on it and one could start there.
    pub free: bool,
    /// What occupies it, if it is not free.
    pub why: Option<String>,
}

/// Proof that the server knows its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofView {
    /// HMAC-SHA256, keyed by the token, over `warpyard server proof 1`, the nonce and the header `Host`, each followed by a
    /// zero byte; in hexadecimal digits.
    pub proof: String,
}

/// A login link for the pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginView {
    /// Address that logs in the first browser that opens it, within ten minutes.
    pub login: String,
}
