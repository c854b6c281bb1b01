//! What a user asks for: a job, its tasks, and what each of them needs. Already checked for form; sizes in bytes, times
//! in microseconds, dependencies by position. These types are written into the log, so they only ever grow.

use crate::ids::{DeviceId, EnvId, JobId};
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A job as submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What people call it.
    pub name: String,
    /// Larger is more urgent.
    #[serde(default)]
    pub priority: i64,
    /// Whom the work is for, beside the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its weight where time is shared out: twice the weight, twice the share. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// How long after its submission it should have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Jobs that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterJob>,
    /// The environment all its tasks start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvId>,
    /// What else its tasks take over from the process that submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What its submission is known by, where one that is sent again must not make another job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<SubmitKey>>,
    /// The directory it was submitted from, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
    /// The nodes of its graph.
    pub tasks: Vec<TaskSpec>,
}

/// A directory kept as it was at submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is kept under.
    pub id: String,
    /// Under whose name it is kept: that of whoever sent it.
    #[serde(default)]
    pub of: String,
    /// Where the directory was.
    pub from: String,
    /// How many files it has.
    #[serde(default)]
    pub files: u64,
    /// Their bytes together.
    #[serde(default)]
    pub bytes: u64,
}

/// What a submission is known by. Part of the job, so that it is known for as long as the job is, also after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitKey {
    /// What the sender calls it; each user's are apart.
    pub name: String,
    /// A digest of all that was sent, which tells the same sent again from something else under the same name.
    pub digest: u64,
}

/// What a process has beside its environment that those it starts take over, as the kernel of its machine told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Rights that files it makes do not get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Soft and hard limits by the name `ulimit` knows them by, such as `nofile`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, (u64, u64)>,
}

/// A dependency on another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterJob {
    /// The job waited for.
    pub job: JobId,
    /// How it must end.
    pub on: DependencyCondition,
}

/// A dependency on another node of the same job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterNode {
    /// The node's place in the job's list of tasks.
    pub node: u32,
    /// How it must end.
    pub on: DependencyCondition,
}

/// How something waited for must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyCondition {
    /// Every task succeeded.
    #[default]
    Ok,
    /// Some task did not succeed (cancelling by hand is neither success nor failure).
    Fail,
    /// However it ended.
    Any,
}

/// One node of a job: a task, or an array of like tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Unique in the job.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Added to (and overriding) the job's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Nodes that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterNode>,
    /// Present for an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Array>,
    /// What it must be given to run.
    #[serde(default)]
    pub needs: Needs,
    /// Thousandths of a processor it may use at most: what it requested, or none where `needs.cpus` was only assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u32>,
    /// The running time after which it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Between asking it to end and ending it.
    #[serde(default = "default_grace")]
    pub grace: Span,
    /// The user's own guess of its running time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Span>,
    /// How many failed attempts are followed by another.
    #[serde(default)]
    pub retries: u32,
    /// Whether running out of time counts as a failure to retry.
    #[serde(default)]
    pub retry_on_timeout: bool,
    /// What happens when the machine it runs on is lost.
    #[serde(default)]
    pub on_lost: OnLost,
    /// How it may be made to give way.
    #[serde(default)]
    pub preempt: Preempt,
    /// How long one batch of its work takes, where it can stand still between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_time: Option<Span>,
    /// How long one item of its work takes, where it can stand still between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_time: Option<Span>,
    /// What going on after standing still costs it.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub resume_time: Span,
    /// Present where nothing is run but devices are held for someone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// The name under which its speed on each type of device is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How many steps it has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Where its standard output goes, beside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Where its standard error goes, beside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Bytes of its output that are kept, where its user may not have as much as everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
    /// Present where it runs in a terminal that people can attach to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
}

/// The terminal a task runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// It is ended when nothing was typed or printed for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Span>,
    /// Rows and columns it begins with: those of the terminal it was submitted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(u16, u16)>,
}

/// Devices held for work that warpyard did not start: a notebook, a debugger, a program elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The process it is for, whose end ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ClaimHolder>,
    /// How long its holder may be silent while it waits; and after that, where there is no process to watch.
    pub lease: Span,
    /// How long it lasts from when it was granted, unless extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A process as its machine knows it: numbers are used again, so it counts only if it began before it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimHolder {
    /// Its number.
    pub pid: i32,
    /// When it was seen, in microseconds since the machine started.
    pub seen_us: u64,
}

/// The grace period of a task that names none.
pub fn default_grace() -> Span {
    Span(10_000_000)
}

/// The bytes a text takes in memory: what it says, and what keeps it.
fn text_size(text: &str) -> u64 {
    text.len() as u64 + 32
}

/// The bytes the variables of an environment take in memory.
pub fn env_size(vars: &BTreeMap<String, String>) -> u64 {
    vars.iter().map(|(name, value)| text_size(name) + text_size(value)).sum()
}

impl JobSpec {
    /// The bytes it takes in memory, near enough to bound what users have; without the environment it shares with others.
    pub fn size(&self) -> u64 {
        let task = |task: &TaskSpec| {
            let Needs { gpu_types, scope, preferred, .. } = &task.needs;
            let texts = task.command.iter().chain(gpu_types).chain([&task.name]);
            let texts =
                texts.chain(&task.workdir).chain(&task.profile).chain(&task.stdout).chain(&task.stderr);
            let ranges = task.array.as_ref().map_or(0, |array| array.ranges.len());
            let small = ranges + scope.len() + preferred.len() + task.after.len();
            size_of::<TaskSpec>() as u64
                + texts.map(|text| text_size(text)).sum::<u64>()
                + env_size(&task.env)
                + 16 * small as u64
        };
        let own = text_size(&self.name) + 16 * self.after.len() as u64;
        own + self.tasks.iter().map(task).sum::<u64>()
    }

    /// The claim it is, if it is one.
    pub fn claim(&self) -> Option<&Claim> {
        self.tasks.first().and_then(|task| task.claim.as_ref())
    }
}

impl TaskSpec {
    /// How many tasks the node stands for.
    pub fn len(&self) -> u32 {
        self.array.as_ref().map_or(1, Array::len)
    }

    /// Whether the node has no task at all, which a checked job never has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of its tasks may be on workers at once, where not all may.
    pub fn at_once(&self) -> Option<u32> {
        self.array.as_ref().and_then(|array| array.at_once)
    }

    /// How long one of its tasks is taken to run: its own guess, else what it promised at most.
    pub fn expected(&self) -> Option<Span> {
        self.expected.or(self.timeout)
    }
}

/// At which moments of its work an attempt is made to stand still. What a task does not say it can do is done at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// At once.
    #[default]
    Any,
    /// Between two batches.
    Batch,
    /// Between two items.
    Item,
}

impl Boundary {
    /// Whether it is at once.
    pub fn is_any(&self) -> bool {
        *self == Boundary::Any
    }

    /// How much work there is between two such moments; none where it can be made to stand still at once.
    pub fn step(self, spec: &TaskSpec) -> Option<Span> {
        match self {
            Boundary::Any => None,
            Boundary::Batch => spec.batch_time.or(spec.item_time),
            Boundary::Item => spec.item_time.or(spec.batch_time),
        }
    }
}

/// The values of an array, in order, and how many of its tasks may run at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// (first, last, step), inclusive.
    pub ranges: Vec<(u32, u32, u32)>,
    /// At most this many at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
}

impl Array {
    /// How many values there are.
    pub fn len(&self) -> u32 {
        self.ranges.iter().map(|&(first, last, step)| (last - first) / step + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The value at a position.
    pub fn value(&self, mut at: u32) -> Option<u32> {
        for &(first, last, step) in &self.ranges {
            let n = (last - first) / step + 1;
            if at < n {
                return Some(first + at * step);
            }
            at -= n;
        }
        None
    }

    /// The position of a value.
    pub fn position(&self, value: u32) -> Option<u32> {
        let mut before = 0;
        for &(first, last, step) in &self.ranges {
            if (first..=last).contains(&value) && (value - first).is_multiple_of(step) {
                return Some(before + (value - first) / step);
            }
            before += (last - first) / step + 1;
        }
        None
    }
}

/// What one task must be given. Tasks with equal needs fit in the same places, which is what keeps planning cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Needs {
    /// How many devices, all on one worker.
    #[serde(default)]
    pub gpus: u16,
    /// Memory on each device; then a device may be shared. Absent: whole devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Acceptable device types; none named means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<String>,
    /// The only devices it may use; none named means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<DeviceId>,
    /// The devices it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<DeviceId>,
    /// Whether it waits for those or takes others.
    #[serde(default)]
    pub wait_mode: WaitMode,
    /// Thousandths of a processor.
    #[serde(default)]
    pub cpus: u32,
    /// Main memory in bytes; 0 is not accounted.
    #[serde(default)]
    pub memory: u64,
}

/// What a task does when the devices it prefers are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// Takes any other in its scope.
    #[default]
    Schedule,
    /// Waits for them.
    Queue,
}

/// What happens to an attempt whose worker is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It is given up and run elsewhere.
    #[default]
    Rerun,
    /// It waits for the worker to come back; if it turns out to be gone for good, the job is held.
    Hold,
}

/// How a task may be made to give way to a more urgent one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preempt {
    /// It may not.
    #[default]
    None,
    /// Stopped in place; its memory stays.
    Freeze,
    /// Asked to save and exit; started again later.
    Requeue,
    /// Told to give way when it next says how far it is: it saves and exits at that moment, which is a good one for it, and
    /// is started again later. Nothing is done to it before.
    Yield,
}

impl Preempt {
    /// Whether it gives way by ending, to be run again later.
    pub fn ends(self) -> bool {
        matches!(self, Preempt::Requeue | Preempt::Yield)
    }
}
