//! The job document: what a user submits, in TOML or JSON, by one schema. The types are here with their meaning;
//! `read` turns a text into them telling everything that is wrong at once, `check` looks at what lies between fields, and
//! `schema` publishes the form. What only a server knows (whether a worker could ever run it) is not checked here.

mod check;
mod read;
mod schema;
mod script;
mod source;

pub use read::{Checked, ReadOptions, read, read_value};
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

/// The largest document that is read.
pub const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// The most entries `tasks` may have; an array counts as one.
pub const MAX_TASK_ENTRIES: usize = 100_000;

/// The weights a job may have. Far beyond them shares of time could not be told from none or all.
pub const WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;

/// A job: one task, an array, or tasks that depend on each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct JobDoc {
    /// What the job is called. Where it is absent, the name of the file or of the script it runs (`train` of `python train.py`).
    #[schemars(with = "Option<String>")]
    pub name: String,
    /// How urgent the job is: a larger number is more urgent.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub priority: i64,
    /// Whose job it is: taken from the login, and accepted here only from those who may submit for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What the job is counted towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its weight where time on GPUs is shared out: twice the weight, twice the share. Where it is absent, 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = WEIGHTS.start(), "maximum" = WEIGHTS.end()))]
    pub weight: Option<f64>,
    /// How long after its submission it should have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Micros>,
    /// Whether it runs in a copy of the directory it was submitted from, as that was then.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub snapshot: bool,
    /// Jobs that must end before this one starts: their ids, or `{job = "412", on = "ok|fail|any"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<JobAfter>")]
    pub after: Vec<JobAfter>,
    /// The tasks. A job of one task may give that task's fields beside its own instead.
    pub tasks: Vec<TaskDoc>,
}

/// A task: one command, or an array of them, and what it needs to run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskDoc {
    /// What the task is called; no two tasks of a job share a name. May be left out where there is only one.
    #[schemars(with = "Option<String>")]
    pub name: String,
    /// What to run: a list of words, or one text for `sh -c`. `%{index}` and `%{job}` are filled in.
    pub command: Command,
    /// Environment variables to set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub env: BTreeMap<String, String>,
    /// Where to run it. Where it is absent, where the job was submitted from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Tasks that must end before this one starts: their names, or `{task = "prep", on = "ok|fail|any"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<TaskAfter>")]
    pub after: Vec<TaskAfter>,
    /// Run the command once for each index: "1-100%8" is a hundred tasks, at most eight at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// How many GPUs the task gets, all on one worker.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub gpus: u32,
    /// Memory on each GPU. The task may then share the device; without it, it has the device to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<ByteSize>,
    /// The types of GPU it can use; any where none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<String>")]
    pub gpu_type: Vec<String>,
    /// The only devices it may use: 0, 1, or "worker/0" for one worker's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<DeviceRef>")]
    pub gpu_scope: Vec<DeviceRef>,
    /// The devices it would rather have; `wait_mode` says whether it waits for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, with = "OneOrMany<DeviceRef>")]
    pub gpu_preferred: Vec<DeviceRef>,
    /// Whether it waits for the preferred devices only, or takes others in scope when they are busy.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub wait_mode: WaitMode,
    /// CPUs it needs, in parts where wanted: 0.5. Also the most CPU time it can have, where cgroups allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<MilliCpus>,
    /// Memory of the machine it needs. Also the most it can have, where cgroups allow: one that needs more is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// How long it may run before it is ended; only running time counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Micros>,
    /// How long it has between being asked to end and being killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Micros>,
    /// How long it will likely run, for planning. Where it is absent, the timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Micros>,
    /// How often it is tried again after failing.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub retries: u32,
    /// Whether running into the timeout counts as failing, to be tried again.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub retry_on_timeout: bool,
    /// What happens when its worker is lost.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub on_lost: OnLost,
    /// How it may be made to give way to others.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub preempt: Preempt,
    /// How long one batch of its work takes, for simulations in which it gives way between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_time: Option<Micros>,
    /// How long one item of its work takes, for simulations in which it gives way between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_time: Option<Micros>,
    /// What going on again after giving way in place costs it; nobody is asked to for less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_time: Option<Micros>,
    /// The name under which its speed on each type of GPU is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How many steps it has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub steps: Option<u64>,
    /// Whether it runs in a terminal that `warpyard attach` leads to.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub pty: bool,
    /// It is ended when nothing was typed or printed in its terminal for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Micros>,
    /// A file for what it prints, beside the log that is kept anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A file for the errors it prints, beside the log that is kept anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a task runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// A program and its arguments, as they are.
    List(Vec<String>),
    /// A text for `sh -c`.
    Shell(String),
}

impl Default for Command {
    /// Nothing to run, which no check lets pass.
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// How a dependency must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// All of it succeeded.
    #[default]
    Ok,
    /// Some of it failed.
    Fail,
    /// However it ended.
    Any,
}

/// A task that must end first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskAfter {
    /// Its name.
    pub task: String,
    /// How it must have ended.
    pub on: On,
}

/// A job that must end first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobAfter {
    /// Its id.
    pub job: String,
    /// How it must have ended.
    pub on: On,
}

/// A device as a document names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceRef {
    /// The device of this number on whichever worker.
    Index(u32),
    /// One worker's device.
    On {
        /// The worker's name.
        worker: String,
        /// The device's number there.
        index: u32,
    },
}

impl DeviceRef {
    /// Whether the two can be the same device.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.index() == other.index()
            && (self.worker().is_none() || other.worker().is_none() || self == other)
    }

    /// The device's number on its worker.
    pub fn index(&self) -> u32 {
        match self {
            Self::Index(index) | Self::On { index, .. } => *index,
        }
    }

    /// The worker, where one is named.
    pub fn worker(&self) -> Option<&str> {
        match self {
            Self::Index(_) => None,
            Self::On { worker, .. } => Some(worker),
        }
    }
}

/// The text does not name a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a device: expected a number, or a worker and a number such as \"gpu1/0\"")]
pub struct NotADevice;

impl FromStr for DeviceRef {
    type Err = NotADevice;

    fn from_str(text: &str) -> Result<Self, NotADevice> {
        let index = |digits: &str| match digits.parse() {
            Ok(index) if !digits.starts_with('+') => Ok(index),
            _ => Err(NotADevice),
        };
        match text.rsplit_once('/') {
            None => index(text).map(Self::Index),
            Some((worker, digits)) if crate::text::name_fault(worker).is_none() => {
                Ok(Self::On { worker: worker.to_owned(), index: index(digits)? })
            }
            Some(_) => Err(NotADevice),
        }
    }
}

impl fmt::Display for DeviceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::On { worker, index } => write!(f, "{worker}/{index}"),
        }
    }
}

impl Serialize for DeviceRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => serializer.serialize_u32(*index),
            Self::On { .. } => serializer.collect_str(self),
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

/// How a task may be made to give way.
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
    /// It is told so when it next says how far it is (`warpyard progress`), saves and exits then, and starts again later.
    Yield,
}
