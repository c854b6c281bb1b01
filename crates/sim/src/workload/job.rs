//! A job of a trace: what it asks for and how long it really runs. What only a live server needs, such as commands and
//! environments, is not here.

use crate::arrival::{NodeRunModel, StepSpeeds, StepWork};
use crate::{Arrival, RunModel};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use warpyard_core::spec::{AfterNode, JobSpec, Needs, Preempt, TaskSpec, default_grace};
use warpyard_core::{Span, Time};

/// One job of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceJob {
    /// What it is called where it comes from; unique where it has several tasks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// When it was submitted, in seconds from the beginning.
    pub submitted: f64,
    /// Larger is more urgent.
    #[serde(default)]
    pub priority: i64,
    /// Whose it is.
    #[serde(default)]
    pub user: String,
    /// Its weight where time is shared out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// By when it should have ended, in seconds from its submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<f64>,
    /// Its tasks; each comes after those it waits for, so that nothing can wait for itself.
    pub tasks: Vec<TraceTask>,
}

/// One task of a job of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceTask {
    /// Unique in the job.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Tasks of the same job that must end first, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterNode>,
    /// How long it really runs, in seconds.
    pub runs: f64,
    /// How long it promises to run at most, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// How long its user guesses it runs, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// How many GPUs it wants.
    #[serde(default)]
    pub gpus: u16,
    /// Bytes on each of them; none wants them whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Types of GPU it takes; none named takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<String>,
    /// Thousandths of a processor.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpus: u32,
    /// Main memory in bytes.
    #[serde(default, skip_serializing_if = "is_none_of_it")]
    pub memory: u64,
    /// How it may be made to give way.
    #[serde(default, skip_serializing_if = "may_not")]
    pub preempt: Preempt,
    /// How long one batch of its work takes, in seconds, where it can give way between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_time: Option<f64>,
    /// How long one item of its work takes, in seconds, where it can give way between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_time: Option<f64>,
    /// What going on after standing still costs it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_time: Option<f64>,
    /// The name under which its speed on each type of GPU is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How many steps it has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// What it exits with.
    #[serde(default, skip_serializing_if = "is_success")]
    pub exit: i32,
}

fn is_zero(cpus: &u32) -> bool {
    *cpus == 0
}

fn is_none_of_it(memory: &u64) -> bool {
    *memory == 0
}

fn may_not(preempt: &Preempt) -> bool {
    *preempt == Preempt::None
}

fn is_success(exit: &i32) -> bool {
    *exit == 0
}

impl TraceJob {
    /// A job of one task.
    pub fn single(submitted: f64, priority: i64, user: impl Into<String>, task: TraceTask) -> TraceJob {
        TraceJob { submitted, priority, user: user.into(), tasks: vec![task], ..TraceJob::default() }
    }

    /// Running time times GPUs, in seconds.
    pub fn gpu_seconds(&self) -> f64 {
        self.tasks.iter().map(|task| task.runs * f64::from(task.gpus)).sum()
    }
}

impl TraceJob {
    /// The job as it comes where speeds are known: `speeds` gives them for a profile on so many GPUs. A task that says its
    /// profile and its steps runs as long as those take where it is placed.
    pub fn at_speeds(self, speeds: impl Fn(&str, u16) -> Option<Arc<StepSpeeds>>) -> Arrival {
        let steps = |task: &TraceTask| {
            let speeds = speeds(task.profile.as_ref()?, task.gpus)?;
            Some(StepWork { steps: task.steps? as f64, speeds })
        };
        let steps: Option<Vec<StepWork>> = self.tasks.iter().map(steps).collect();
        let arrival = Arrival::from(self);
        Arrival { runs: steps.map_or(arrival.runs, RunModel::Steps), ..arrival }
    }
}

impl TraceTask {
    /// What it asks for.
    pub fn needs(&self) -> Needs {
        self.clone().into_spec().needs
    }

    fn into_spec(self) -> TaskSpec {
        TaskSpec {
            needs: Needs {
                gpus: self.gpus,
                gpu_memory: self.gpu_memory,
                gpu_types: self.gpu_types,
                cpus: self.cpus,
                memory: self.memory,
                ..Needs::default()
            },
            name: if self.name.is_empty() { "task".into() } else { self.name },
            after: self.after,
            timeout: self.timeout.map(Span::from_secs),
            expected: self.expected.map(Span::from_secs),
            grace: default_grace(),
            preempt: self.preempt,
            profile: self.profile,
            steps: self.steps,
            batch_time: self.batch_time.map(Span::from_secs),
            item_time: self.item_time.map(Span::from_secs),
            resume_time: self.resume_time.map_or(Span::ZERO, Span::from_secs),
            ..TaskSpec::default()
        }
    }

    fn run_model(&self) -> NodeRunModel {
        let exit_codes = if self.exit == 0 { Vec::new() } else { vec![self.exit] };
        NodeRunModel { lengths: vec![Span::from_secs(self.runs)], exit_codes, ignores_stop: false }
    }
}

impl From<TraceJob> for Arrival {
    fn from(job: TraceJob) -> Arrival {
        let runs = match &job.tasks[..] {
            [one] if one.exit == 0 => RunModel::Constant(Span::from_secs(one.runs)),
            tasks => RunModel::PerNode(tasks.iter().map(TraceTask::run_model).collect()),
        };
        let spec = JobSpec {
            name: if job.id.is_empty() { "job".into() } else { job.id },
            priority: job.priority,
            weight: job.weight,
            deadline: job.deadline.map(Span::from_secs),
            tasks: job.tasks.into_iter().map(TraceTask::into_spec).collect(),
            ..JobSpec::default()
        };
        Arrival { at: Time::from_secs(job.submitted), user: job.user, spec: spec.into(), runs }
    }
}
