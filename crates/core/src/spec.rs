//! Job specifications: a job, its tasks, and what each of them needs. Already validated; sizes in bytes, times in
//! microseconds, dependencies by index. These types are written into the log, so they only ever grow.

use crate::ids::{DeviceId, EnvId, JobId, WorkerId};
use crate::model::ModelSpec;
use crate::time::Span;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Job as submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name for people.
    pub name: String,
    /// Priority; larger is more urgent.
    #[serde(default)]
    pub priority: i64,
    /// Entity the work is for, beside the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Weight for policies that share time out: twice the weight, twice the share. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Deadline, counted from submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// Dependencies: jobs that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterJob>,
    /// Environment that all its tasks inherit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvId>,
    /// Process attributes that its tasks inherit from the submitting process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Idempotency key of the submission: submitting again with the same key makes no second job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<SubmitKey>>,
    /// Snapshot of the directory it was submitted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
    /// Nodes of its graph.
    #[serde(deserialize_with = "exact_vec")]
    pub tasks: Vec<TaskSpec>,
}

/// Snapshot of a directory at submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Id of the snapshot.
    pub id: String,
    /// User whose snapshot it is.
    #[serde(default)]
    pub of: String,
    /// Path of the directory.
    pub from: String,
    /// Number of files.
    #[serde(default)]
    pub files: u64,
    /// Size in bytes.
    #[serde(default)]
    pub bytes: u64,
}

/// Idempotency key of a submission. Part of the job, so that it is known for as long as the job is, also after a
/// restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitKey {
    /// Key that the client chose, unique per user.
    pub name: String,
    /// Digest of the submission, which tells a repetition from a different submission with the same key.
    pub digest: u64,
}

/// Process attributes that are inherited beside the environment, as the kernel of the submitting machine told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// File mode creation mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Soft and hard resource limits by their `ulimit` name, such as `nofile`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, (u64, u64)>,
}

/// Dependency on another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterJob {
    /// Job that must end first.
    pub job: JobId,
    /// Condition on its end.
    pub on: DependencyCondition,
}

/// Dependency on another node of the same job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterNode {
    /// Index of the node in the job's list of tasks.
    pub node: u32,
    /// Condition on its end.
    pub on: DependencyCondition,
}

/// Condition on the end of a dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyCondition {
    /// Every task succeeded.
    #[default]
    Ok,
    /// Some task did not succeed (a cancelled task neither succeeded nor failed).
    Fail,
    /// Any end.
    Any,
}

/// Node of a job: a task, or an array of equal tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Name, unique in the job.
    pub name: String,
    /// Program it runs.
    #[serde(flatten)]
    pub program: Program,
    /// Dependencies: nodes that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterNode>,
    /// Array values; absent for a single task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Array>,
    /// Resources it needs.
    #[serde(default)]
    pub needs: Needs,
    /// CPU quota in thousandths of a core: what it requested, or none if `needs.cpus` was only assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<u32>,
    /// Longest running time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Grace period between asking it to stop and killing it.
    #[serde(default = "default_grace")]
    pub grace: Span,
    /// Expected running time, as the user estimates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Span>,
    /// Number of failed attempts that are retried.
    #[serde(default)]
    pub retries: u32,
    /// Whether a timeout counts as a failure to retry.
    #[serde(default)]
    pub retry_on_timeout: bool,
    /// What happens when its worker is lost.
    #[serde(default)]
    pub on_lost: OnLost,
    /// How it may be preempted.
    #[serde(default)]
    pub preempt: Preempt,
    /// Duration of one batch of its work, if it can pause between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_time: Option<Span>,
    /// Duration of one item of its work, if it can pause between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_time: Option<Span>,
    /// Cost in time of resuming after a pause.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub resume_time: Span,
    /// Claim: devices are held, but no process is started. Absent for a normal task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Profile: the name under which its speed on each device type is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Number of steps it has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Model it runs and what that was estimated to need, if its user named one. Boxed, because most tasks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelSpec>>,
    /// Limit on its log in bytes, if its user has a lower one than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
    /// Terminal it runs in, if people can attach to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
}

/// A program to run: command, environment, working directory and named outputs. The same struct from the checked job to the
/// launch message; only the process that calls `exec` has another form of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments. Called `argv` in launch messages.
    #[serde(alias = "argv", deserialize_with = "exact_vec")]
    pub command: Vec<String>,
    /// Variables added to (and overriding) the inherited environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// A file for standard output, beside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A file for standard error, beside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

impl Program {
    /// A program that is only a command.
    pub fn new<A: Into<String>>(command: impl IntoIterator<Item = A>) -> Program {
        Program { command: command.into_iter().map(Into::into).collect(), ..Program::default() }
    }

    /// The program with every text but the names of variables replaced.
    pub fn map_text(&self, replace: impl Fn(&str) -> String) -> Program {
        let optional = |text: &Option<String>| text.as_deref().map(&replace);
        Program {
            command: self.command.iter().map(|word| replace(word)).collect(),
            env: self.env.iter().map(|(name, value)| (name.clone(), replace(value))).collect(),
            workdir: optional(&self.workdir),
            stdout: optional(&self.stdout),
            stderr: optional(&self.stderr),
        }
    }

    /// The bytes its texts take in memory.
    fn size(&self) -> u64 {
        let optional = self.workdir.iter().chain(&self.stdout).chain(&self.stderr);
        self.command.iter().chain(optional).map(|text| text_size(text)).sum::<u64>() + env_size(&self.env)
    }
}

/// Terminal of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Idle timeout: the task is ended when nothing was typed or printed for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Span>,
    /// Initial rows and columns: those of the terminal it was submitted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(u16, u16)>,
}

/// Claim: devices held for a process that warpyard did not start, such as a notebook or a debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Process it is for; the claim ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ClaimHolder>,
    /// Lease: how long the holder may be silent while the claim waits, and also after it is granted if there is no
    /// process to watch.
    pub lease: Span,
    /// Duration from the grant on, unless extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// Process that holds a claim. Process ids are reused, so it only counts if it started before it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimHolder {
    /// Process id.
    pub pid: i32,
    /// Time it was seen, in microseconds since the machine booted.
    pub seen_us: u64,
}

/// Reads a list without spare capacity: a list that grows by one element has room for four, and a list of one task is what
/// nearly every waiting job has.
fn exact_vec<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(d)?;
    list.shrink_to_fit();
    Ok(list)
}

/// Grace period of a task that sets none.
pub fn default_grace() -> Span {
    Span(10_000_000)
}

/// Memory that a text takes: its bytes, and the overhead of keeping it.
fn text_size(text: &str) -> u64 {
    text.len() as u64 + 32
}

/// Memory that environment variables take, in bytes.
pub fn env_size(vars: &BTreeMap<String, String>) -> u64 {
    vars.iter().map(|(name, value)| text_size(name) + text_size(value)).sum()
}

impl JobSpec {
    /// Memory that the job takes in bytes, precise enough to limit users; without its environment, which jobs share.
    pub fn size(&self) -> u64 {
        let task = |task: &TaskSpec| {
            let Needs { gpu_types, scope, preferred, .. } = &task.needs;
            let texts = gpu_types.iter().chain([&task.name]).chain(&task.profile);
            let ranges = task.array.as_ref().map_or(0, |array| array.ranges.len());
            let small = ranges + scope.len() + preferred.len() + task.after.len();
            size_of::<TaskSpec>() as u64
                + texts.map(|text| text_size(text)).sum::<u64>()
                + task.program.size()
                + task.model.as_ref().map_or(0, |model| model.size())
                + 16 * small as u64
        };
        let own = text_size(&self.name) + 16 * self.after.len() as u64;
        own + self.tasks.iter().map(task).sum::<u64>()
    }

    /// Claim, if the job is one.
    pub fn claim(&self) -> Option<&Claim> {
        self.tasks.first().and_then(|task| task.claim.as_ref())
    }
}

impl TaskSpec {
    /// Number of tasks of the node.
    pub fn len(&self) -> u32 {
        self.array.as_ref().map_or(1, Array::len)
    }

    /// Whether the node has no task, which a validated job never has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Limit on the node's tasks on workers at once, if there is one.
    pub fn at_once(&self) -> Option<u32> {
        self.array.as_ref().and_then(|array| array.at_once)
    }

    /// Key under which measurements of the task's model are kept: its graph's digest, or else its profile. None if its
    /// model was not estimated.
    pub fn model_key(&self) -> Option<String> {
        let estimate = self.model.as_ref()?.estimate.as_ref()?;
        let graph = estimate.graph.as_ref().map(|graph| format!("graph:{graph}"));
        graph.or_else(|| Some(format!("profile:{}", self.profile.as_ref()?)))
    }

    /// Expected running time of a task: the user's estimate, or else its timeout.
    pub fn expected(&self) -> Option<Span> {
        self.expected.or(self.timeout)
    }
}

/// Boundary of an attempt's work at which it may be paused. A task that does not declare the boundary is paused at
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Any moment.
    #[default]
    Any,
    /// Between two batches.
    Batch,
    /// Between two items.
    Item,
}

impl Boundary {
    /// Whether it is any moment.
    pub fn is_any(&self) -> bool {
        *self == Boundary::Any
    }

    /// Work between two boundaries; none if it can be paused at any moment.
    pub fn step(self, spec: &TaskSpec) -> Option<Span> {
        match self {
            Boundary::Any => None,
            Boundary::Batch => spec.batch_time.or(spec.item_time),
            Boundary::Item => spec.item_time.or(spec.batch_time),
        }
    }
}

/// Values of an array, in order, and its limit on tasks at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Ranges as (first, last, step), inclusive.
    pub ranges: Vec<(u32, u32, u32)>,
    /// Limit on tasks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
}

impl Array {
    /// Number of values.
    pub fn len(&self) -> u32 {
        self.ranges.iter().map(|&(first, last, step)| (last - first) / step + 1).sum()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Value at a position.
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

    /// Position of a value.
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

/// Resources one task needs. Tasks with equal needs fit in the same places, which keeps planning cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Needs {
    /// Number of devices, all on one worker.
    #[serde(default)]
    pub gpus: u16,
    /// Memory on each device; the device may then be shared. Absent: whole devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Acceptable device types; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<String>,
    /// Devices it may use; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<DeviceId>,
    /// Devices it prefers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<DeviceId>,
    /// Whether it waits for its preferred devices or accepts others.
    #[serde(default)]
    pub wait_mode: WaitMode,
    /// Workers it may run on; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerId>,
    /// CPUs in thousandths of a core.
    #[serde(default)]
    pub cpus: u32,
    /// Main memory in bytes; 0 is not accounted for.
    #[serde(default)]
    pub memory: u64,
}

impl Needs {
    /// Whether the task may run on a worker at all, whatever that worker has.
    pub fn accepts_worker(&self, worker: WorkerId) -> bool {
        self.workers.is_empty() || self.workers.contains(&worker)
    }
}

/// Behaviour of a task whose preferred devices are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// Accepts any other device in its scope.
    #[default]
    Schedule,
    /// Waits for the preferred ones.
    Queue,
}

/// Behaviour of an attempt whose worker is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Lost, and run again elsewhere.
    #[default]
    Rerun,
    /// Waits for the worker to return; if the attempt turns out to be lost, the job is held.
    Hold,
}

impl OnLost {
    /// Whether an attempt is run elsewhere when its worker is lost, and so has to have ended here by then.
    pub fn runs_elsewhere(self) -> bool {
        self == OnLost::Rerun
    }
}

/// How a task may be preempted by a more urgent one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preempt {
    /// Not at all.
    #[default]
    None,
    /// Frozen in place; its memory stays.
    Freeze,
    /// Asked to save and exit; runs again later.
    Requeue,
    /// Asked to save and exit at its next progress report, a moment of its own choice; runs again later. Nothing is
    /// done to it before.
    Yield,
}

impl Preempt {
    /// Whether preemption ends the attempt, to run again later.
    pub fn ends(self) -> bool {
        matches!(self, Preempt::Requeue | Preempt::Yield)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_program_among_its_own_fields_in_the_log() {
        let text = r#"{"name":"t","command":["sh"],"env":{"A":"1"},"workdir":"/w","stdout":"out","grace":1}"#;
        let task: TaskSpec = serde_json::from_str(text).expect("a task of an earlier version");
        let program = Program {
            env: BTreeMap::from([("A".into(), "1".into())]),
            workdir: Some("/w".into()),
            stdout: Some("out".into()),
            ..Program::new(["sh"])
        };
        assert_eq!(task.program, program);
        let written = serde_json::to_value(&task).expect("JSON");
        for field in ["name", "command", "env", "workdir", "stdout"] {
            assert!(written.get(field).is_some(), "{field}: {written}");
        }
        assert_eq!(written.get("program"), None);
        assert!(serde_json::from_str::<TaskSpec>(r#"{"name":"t"}"#).is_err(), "a command is required");
    }
}
