//! The job document, which users submit in TOML or JSON. Its types are here; `read` parses a text into them and
//! reports all problems at once, `check` validates fields against each other, and `schema` publishes the JSON Schema.
//! What only a server knows, such as whether any worker could run it, is not checked here.

mod check;
mod read;
mod schema;
mod script;
mod source;

pub use read::{CheckedJob, ReadOptions, read, read_estimate, read_value};
pub(crate) use schema::AnyJob;
pub use schema::job_schema;
pub use source::Format;
pub(crate) use source::Source;

use crate::quantity::{ArraySpec, ByteSize, Micros, MilliCpus};
use schema::OneOrMany;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The largest document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// The most entries `tasks` may have; an array counts as one.
pub const MAX_TASK_ENTRIES: usize = 100_000;

/// The range of weights. Outside it, shares of time would be indistinguishable from none or all.
pub const WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;

/// The fields of a task that a form shows first, in this order; the others are options. Published in the schema as
/// `x-form-order`.
const TASK_FORM_ORDER: [&str; 12] = [
    "name",
    "gpus",
    "gpu_memory",
    "timeout",
    "command",
    "after",
    "gpu_type",
    "array",
    "cpus",
    "memory",
    "retries",
    "expected",
];

/// A job: one task, an array, or tasks that depend on each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("x-form-order" = ["name", "priority", "project"]))]
pub struct JobDoc {
    /// Name of the job. By default the name of the file, or of the script it runs (`train` for `python train.py`).
    #[schemars(with = "Option<String>")]
    #[schemars(extend("examples" = ["train"]))]
    pub name: String,
    /// Priority: a larger number is more urgent.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = 0))]
    pub priority: i64,
    /// User the job belongs to: taken from the login, and accepted here only from those who may submit for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Project the job belongs to, for filters and history.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["vision"]))]
    pub project: Option<String>,
    /// Weight in fair sharing: twice the weight, twice the share. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = WEIGHTS.start(), "maximum" = WEIGHTS.end(), "default" = 1))]
    pub weight: Option<f64>,
    /// Deadline, counted from its submission. A missed one is reported; the job is not killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["24h"]))]
    pub deadline: Option<Micros>,
    /// Whether it runs in a copy of the working directory, taken when it was submitted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub snapshot: bool,
    /// Jobs that must end before this one starts: their ids, or `{job = "412", on = "ok|fail|any"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<JobDependency>")]
    pub after: Vec<JobDependency>,
    /// The tasks. A job of one task may give that task's fields beside its own instead.
    pub tasks: Vec<TaskDoc>,
}

/// A task: one command, or an array of them, and what it needs to run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("x-form-order" = TASK_FORM_ORDER))]
pub struct TaskDoc {
    /// Name of the task, unique within the job. Optional where there is only one task.
    #[schemars(with = "Option<String>")]
    #[schemars(extend("examples" = ["train"]))]
    pub name: String,
    /// Command to run: a list of words, or one text for `sh -c`. `%{index}` and `%{job}` are substituted.
    #[schemars(extend("examples" = ["python train.py"]))]
    pub command: Command,
    /// Environment variables to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    #[schemars(extend("examples" = [{"NAME": "value"}]))]
    pub env: BTreeMap<String, String>,
    /// Working directory. By default the directory the job was submitted from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["/home/ann/project"]))]
    pub workdir: Option<String>,
    /// Tasks that must end before this one starts: their names, or `{task = "prep", on = "ok|fail|any"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<TaskDependency>")]
    pub after: Vec<TaskDependency>,
    /// Run the command once for each index: "1-100%8" is a hundred tasks, at most eight at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// Number of GPUs, all on one worker.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = 0))]
    pub gpus: u32,
    /// Memory on each GPU. The task may then share the GPU with others; without it, it has the GPU to itself, unless its
    /// model is estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<ByteSize>,
    /// File of the model it runs (.pt2, ONNX, safetensors or GGUF). `submit` and `run` estimate the memory request from
    /// it; the server never opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["model.pt2"]))]
    pub model: Option<String>,
    /// Size of the model's batches on each GPU, where its file leaves the first dimension open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "examples" = [32]))]
    pub batch_size: Option<u64>,
    /// What the model is run for; inference unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModelMode>,
    /// Optimiser of training: sgd, momentum, adam, adamw, rmsprop or adagrad.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["adamw"]))]
    pub optimizer: Option<String>,
    /// Estimate of the model. `submit` and `run` fill it in; other clients send what `warpyard estimate --json` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-form-hidden" = true))]
    pub estimate: Option<EstimateDoc>,
    /// Acceptable GPU types; any if none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<String>")]
    #[schemars(extend("examples" = ["V100"]))]
    pub gpu_type: Vec<String>,
    /// Devices it is restricted to: 0, 1, or "worker/0" for one worker's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<DeviceRef>")]
    #[schemars(extend("examples" = [[0, 1]]))]
    pub gpu_scope: Vec<DeviceRef>,
    /// Preferred devices; `wait_mode` says whether it waits for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<DeviceRef>")]
    #[schemars(extend("examples" = [0]))]
    pub gpu_preferred: Vec<DeviceRef>,
    /// Whether it waits for the preferred devices, or takes others in scope when they are busy.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = "schedule"))]
    pub wait_mode: WaitMode,
    /// Workers it may run on: names, of which one is chosen, and labels such as "rack=a", which all must hold. Any worker if
    /// none is given. Labels are looked up when the job is submitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<String>")]
    #[schemars(extend("examples" = ["gpu1", "rack=a"]))]
    pub on: Vec<String>,
    /// CPUs it needs, such as 0.5. Also a limit on its CPU time, where cgroups can enforce it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [0.5]))]
    pub cpus: Option<MilliCpus>,
    /// Main memory it needs. Also a limit, where cgroups can enforce it: a task that exceeds it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["4GiB"]))]
    pub memory: Option<ByteSize>,
    /// Time limit; time spent paused or waiting does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["2h"]))]
    pub timeout: Option<Micros>,
    /// Time between SIGTERM and SIGKILL; 10s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s"))]
    pub grace: Option<Micros>,
    /// Estimated run time, for planning and forecasts. The timeout by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["40m"]))]
    pub expected: Option<Micros>,
    /// How often it is retried after a failure.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = 0))]
    pub retries: u32,
    /// Whether it is also retried after a timeout.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub retry_on_timeout: bool,
    /// What happens when its worker is lost.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = "rerun"))]
    pub on_lost: OnLost,
    /// How it may be preempted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    #[schemars(extend("default" = "none"))]
    pub preempt: Preempt,
    /// Duration of one batch of its work, for simulations in which it yields between batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["2s"]))]
    pub batch_time: Option<Micros>,
    /// Duration of one item of its work, for simulations in which it yields between items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["100ms"]))]
    pub item_time: Option<Micros>,
    /// Time it loses when it resumes after being preempted in place; it is not preempted to gain less than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["5s"]))]
    pub resume_time: Option<Micros>,
    /// Name under which its throughput on each GPU type is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["resnet50"]))]
    pub profile: Option<String>,
    /// Total number of steps, for progress and throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "examples" = [10000]))]
    pub steps: Option<u64>,
    /// Whether it runs in a terminal, for `warpyard attach`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub pty: bool,
    /// Time after which it is ended if nothing was typed or printed in its terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["30m"]))]
    pub idle: Option<Micros>,
    /// File that standard output is also written to, beside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["out.txt"]))]
    pub stdout: Option<String>,
    /// File that standard error is also written to, beside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["err.txt"]))]
    pub stderr: Option<String>,
}

/// An estimate of what a model needs, made from its file before it runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct EstimateDoc {
    /// Peak of GPU memory without the CUDA context: `inference_peak_bytes` or `training_peak_bytes` of the estimate.
    pub peak: ByteSize,
    /// What the CUDA context is taken to need: `context_bytes`. 512 MiB by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ByteSize>,
    /// Digest of the graph and how it is run: `graph` of the estimate. Measurements correct later estimates of equal ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Seconds of one step at the nominal rates of each GPU type: `seconds_by_gpu` of the estimate.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub seconds: BTreeMap<String, f64>,
}

/// What a model is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelMode {
    /// Forward passes without gradients.
    #[default]
    Infer,
    /// Training steps.
    Train,
}

impl ModelMode {
    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Infer => "infer",
            Self::Train => "train",
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The command of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// A program and its arguments.
    List(Vec<String>),
    /// A text for `sh -c`.
    Shell(String),
}

impl Default for Command {
    /// An empty command, which validation rejects.
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// How a dependency must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DependencyCondition {
    /// All its tasks succeeded.
    #[default]
    #[schemars(title = "succeeded")]
    Ok,
    /// One of its tasks failed.
    #[schemars(title = "failed")]
    Fail,
    /// It ended, with any outcome.
    #[schemars(title = "ended")]
    Any,
}

/// A dependency on another task of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskDependency {
    /// Name of the task.
    pub task: String,
    /// How it must end.
    pub on: DependencyCondition,
}

/// A dependency on another job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobDependency {
    /// Id of the job.
    pub job: String,
    /// How it must end.
    pub on: DependencyCondition,
}

/// A reference to a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceRef {
    /// The device with this index on any worker.
    Index(u32),
    /// A device of one worker.
    OnWorker {
        /// Name of the worker.
        worker: String,
        /// Index of the device on it.
        index: u32,
    },
}

impl DeviceRef {
    /// Whether both can refer to the same device.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.index() == other.index()
            && (self.worker().is_none() || other.worker().is_none() || self == other)
    }

    /// The index of the device on its worker.
    pub fn index(&self) -> u32 {
        match self {
            Self::Index(index) | Self::OnWorker { index, .. } => *index,
        }
    }

    /// The worker, if one is named.
    pub fn worker(&self) -> Option<&str> {
        match self {
            Self::Index(_) => None,
            Self::OnWorker { worker, .. } => Some(worker),
        }
    }
}

/// The text is not a device reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a device: expected a number, or a worker and a number such as \"gpu1/0\"")]
pub struct DeviceRefError;

impl FromStr for DeviceRef {
    type Err = DeviceRefError;

    fn from_str(text: &str) -> Result<Self, DeviceRefError> {
        let index = |digits: &str| match digits.parse() {
            Ok(index) if !digits.starts_with('+') => Ok(index),
            _ => Err(DeviceRefError),
        };
        match text.rsplit_once('/') {
            None => index(text).map(Self::Index),
            Some((worker, digits)) if crate::text::name_fault(worker).is_none() => {
                Ok(Self::OnWorker { worker: worker.to_owned(), index: index(digits)? })
            }
            Some(_) => Err(DeviceRefError),
        }
    }
}

impl fmt::Display for DeviceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::OnWorker { worker, index } => write!(f, "{worker}/{index}"),
        }
    }
}

impl Serialize for DeviceRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => serializer.serialize_u32(*index),
            Self::OnWorker { .. } => serializer.collect_str(self),
        }
    }
}

/// Whether a task waits for the devices it prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitMode {
    /// Takes the preferred devices when they are free, and otherwise any in scope.
    #[default]
    Schedule,
    /// Waits for the preferred devices only, or shares one where its memory fits.
    Queue,
}

/// What happens to a task whose worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnLost {
    /// It runs again elsewhere.
    #[default]
    Rerun,
    /// It waits for the worker to come back.
    Hold,
}

/// How a task may be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    /// Not at all.
    #[default]
    None,
    /// Its processes are stopped in place and keep their memory.
    Freeze,
    /// It is asked to save and exit, and starts again later.
    Requeue,
    /// It learns of it when it next reports progress (`warpyard progress`), then saves and exits, and starts again later.
    Yield,
}
