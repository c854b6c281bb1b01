//! Arrivals: a job to be submitted together with its run model, the ground truth of how its tasks run. Only the simulator
//! knows the run model; policies see the job specification.

use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::command::TaskSelector;
use warpyard_core::event::EndReason;
use warpyard_core::spec::JobSpec;
use warpyard_core::{Command, JobId, Span, TaskId, Time};

/// Job to be submitted.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Submission time.
    pub at: Time,
    /// Submitting user.
    pub user: String,
    /// Specification.
    pub spec: Arc<JobSpec>,
    /// How its tasks really run.
    pub runs: RunModel,
}

/// Input from outside the simulation, at a moment.
#[derive(Clone, Debug)]
pub enum TimedInput {
    /// Submission, and the job number by which later commands refer to it, where any do.
    Submission(Arrival, Option<JobId>),
    /// Command. Job numbers in it are those of the submissions.
    Command(Time, Command),
}

/// Replaces the job numbers in a command by those of this simulation; `None` if a job is unknown here.
pub(crate) fn translate_job_ids(command: Command, numbers: &BTreeMap<JobId, JobId>) -> Option<Command> {
    let job_id = |job: JobId| numbers.get(&job).copied();
    let selector = |target: TaskSelector| Some(target.in_job(job_id(target.job())?));
    Some(match command {
        Command::Hold(target) => Command::Hold(selector(target)?),
        Command::Release(target) => Command::Release(selector(target)?),
        Command::Pause(target) => Command::Pause(selector(target)?),
        Command::Resume(target) => Command::Resume(selector(target)?),
        Command::Cancel(target) => Command::Cancel(selector(target)?),
        Command::Kill(target) => Command::Kill(selector(target)?),
        Command::Retry { target, failed_only } => Command::Retry { target: selector(target)?, failed_only },
        Command::Forget(job) => Command::Forget(job_id(job)?),
        Command::SetPriority(job, priority) => Command::SetPriority(job_id(job)?, priority),
        Command::Several(commands) => {
            Command::Several(commands.into_iter().filter_map(|one| translate_job_ids(one, numbers)).collect())
        }
        other => other,
    })
}

impl TimedInput {
    /// Its moment.
    pub fn at(&self) -> Time {
        match self {
            TimedInput::Submission(arrival, _) => arrival.at,
            TimedInput::Command(at, _) => *at,
        }
    }
}

/// Ground truth of how the tasks of a job run.
#[derive(Clone, Debug)]
pub enum RunModel {
    /// Every attempt of every task runs for this long and succeeds.
    Constant(Span),
    /// One model per node.
    PerNode(Vec<NodeRunModel>),
    /// Attempts repeat recorded ones.
    Recorded(Arc<RecordedAttempts>),
    /// Each node has a number of steps, done at a speed that depends on the GPU type it is placed on.
    Steps(Vec<StepWork>),
}

/// Steps of a node and their speeds.
#[derive(Clone, Debug, Default)]
pub struct StepWork {
    /// Number of steps.
    pub steps: f64,
    /// Speeds.
    pub speeds: Arc<StepSpeeds>,
}

/// Speeds of a profile on each GPU type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSpeeds {
    /// Name of the profile.
    pub profile: String,
    /// Steps per second by GPU type in lower case; zero on any other.
    pub alone: BTreeMap<String, f64>,
    /// Steps per second beside another profile on the same devices, by the name of that profile, then by type.
    pub beside: BTreeMap<String, BTreeMap<String, f64>>,
}

impl StepSpeeds {
    fn alone(&self, kind: &str) -> f64 {
        self.alone.get(kind).copied().unwrap_or(0.0).max(MIN_SPEED)
    }

    /// Steps per second on a type beside another profile: as measured; the mean over the measured partners where this pair
    /// was not; `None` without any measurement.
    fn beside(&self, other: &str, kind: &str) -> Option<f64> {
        let measured = self.beside.get(other).and_then(|by_kind| by_kind.get(kind)).copied();
        measured.or_else(|| {
            let partners = self.beside.values().filter_map(|by_kind| by_kind.get(kind));
            let (sum, n) = partners.fold((0.0, 0.0), |(sum, n), speed| (sum + speed, n + 1.0));
            (n > 0.0).then(|| sum / n)
        })
    }

    /// Fraction of its speed that it retains beside another profile.
    pub(crate) fn retained_beside(&self, other: &str, kind: &str) -> Option<f64> {
        Some((self.beside(other, kind)? / self.alone(kind)).max(MIN_SPEED))
    }

    /// Steps per second on a type, alone or beside another profile.
    pub(crate) fn speed(&self, kind: &str, beside: Option<&str>) -> Option<f64> {
        match beside {
            None => Some(self.alone.get(kind).copied().unwrap_or(0.0)),
            Some(other) => self.beside(other, kind),
        }
    }
}

/// Recorded attempts of a job.
#[derive(Clone, Debug, Default)]
pub struct RecordedAttempts {
    /// Attempts in order, by node and array index; later attempts repeat the last.
    pub by_task: BTreeMap<(u32, u32), Vec<RecordedAttempt>>,
    /// Length of tasks that were never recorded, by node.
    pub default_lengths: Vec<Span>,
}

/// Recorded attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedAttempt {
    /// From placement to start.
    pub start_delay: Span,
    /// From start to the report of its end, without pauses.
    pub length: Span,
    /// How it ended on its own.
    pub how: EndReason,
    /// Time it took to end after a stop request.
    pub stop_delay: Option<Span>,
}

/// Ground truth of how the tasks of one node run.
#[derive(Clone, Debug, Default)]
pub struct NodeRunModel {
    /// Run times by array index, repeated cyclically.
    pub lengths: Vec<Span>,
    /// Exit codes by attempt; the last repeats. Empty means 0.
    pub exit_codes: Vec<i32>,
    /// Whether it ignores stop requests until the grace period ends it.
    pub ignores_stop: bool,
}

/// Speed of a task that makes no progress; positive, so that lengths stay finite.
const MIN_SPEED: f64 = 1e-9;

/// Course of one attempt if nothing intervenes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptRun {
    pub(crate) length: Span,
    pub(crate) how: EndReason,
    pub(crate) ignores_stop: bool,
    /// Timing, where it repeats a recorded attempt.
    pub(crate) recorded: Option<RecordedTiming>,
}

/// Timing of a recorded attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordedTiming {
    /// Whether it was recorded of an earlier attempt, because this one never took place.
    pub(crate) of_earlier_attempt: bool,
    pub(crate) start_delay: Span,
    pub(crate) stop_delay: Option<Span>,
}

impl RunModel {
    /// Work units per second on a GPU type: steps where the model counts steps, otherwise seconds.
    pub(crate) fn work_rate(&self, task: TaskId, kind: Option<&str>) -> f64 {
        match self {
            RunModel::Steps(nodes) => {
                let StepWork { speeds, .. } = &nodes[task.node as usize];
                kind.map_or(MIN_SPEED, |kind| speeds.alone(&kind.to_ascii_lowercase()))
            }
            RunModel::Constant(_) | RunModel::PerNode(_) | RunModel::Recorded(_) => 1.0,
        }
    }

    /// Step speeds of a task, where it counts steps.
    pub(crate) fn step_speeds(&self, task: TaskId) -> Option<&StepSpeeds> {
        match self {
            RunModel::Steps(nodes) => nodes.get(task.node as usize).map(|steps| &*steps.speeds),
            RunModel::Constant(_) | RunModel::PerNode(_) | RunModel::Recorded(_) => None,
        }
    }

    /// Interference profile of a task on a GPU type, where any pair was measured.
    pub(crate) fn interference(&self, task: TaskId, kind: Option<&str>) -> Option<Box<InterferenceProfile>> {
        let RunModel::Steps(nodes) = self else { return None };
        let StepWork { speeds, .. } = &nodes[task.node as usize];
        if speeds.beside.is_empty() {
            return None;
        }
        let kind = kind?.to_ascii_lowercase();
        Some(Box::new(InterferenceProfile { speeds: Arc::clone(speeds), kind }))
    }

    /// Course of an attempt on a GPU type.
    pub(crate) fn attempt_run(&self, task: TaskId, attempt: u32, kind: Option<&str>) -> AttemptRun {
        match self {
            RunModel::Steps(nodes) => {
                let steps = nodes[task.node as usize].steps;
                AttemptRun::succeeding(Span::from_secs(steps / self.work_rate(task, kind)))
            }
            RunModel::Constant(length) => AttemptRun::succeeding(*length),
            RunModel::Recorded(attempts) => attempts.attempt_run(task, attempt),
            RunModel::PerNode(nodes) => {
                let NodeRunModel { lengths, exit_codes, ignores_stop } = &nodes[task.node as usize];
                let length = lengths.get(task.index as usize % lengths.len().max(1)).copied();
                let exit = exit_codes.get(attempt as usize - 1).or(exit_codes.last()).copied().unwrap_or(0);
                AttemptRun {
                    length: length.unwrap_or_default(),
                    how: EndReason::Exited(exit),
                    ignores_stop: *ignores_stop,
                    recorded: None,
                }
            }
        }
    }
}

/// Speeds of a process beside others on its GPU type.
#[derive(Clone, Debug)]
pub(crate) struct InterferenceProfile {
    speeds: Arc<StepSpeeds>,
    kind: String,
}

impl InterferenceProfile {
    /// Fraction of its speed that it retains beside another process, where any pair was measured.
    pub(crate) fn retained_beside(&self, other: &InterferenceProfile) -> Option<f64> {
        self.speeds.retained_beside(&other.speeds.profile, &self.kind)
    }
}

impl AttemptRun {
    fn succeeding(length: Span) -> AttemptRun {
        AttemptRun { length, how: EndReason::Exited(0), ignores_stop: false, recorded: None }
    }
}

impl RecordedAttempts {
    fn attempt_run(&self, task: TaskId, attempt: u32) -> AttemptRun {
        let attempts = self.by_task.get(&(task.node, task.index));
        let one = attempts.and_then(|attempts| attempts.get(attempt as usize - 1).or(attempts.last()));
        match one {
            Some(RecordedAttempt { start_delay, length, how, stop_delay }) => AttemptRun {
                length: *length,
                how: how.clone(),
                // One that took time to stop takes as long again.
                ignores_stop: stop_delay.is_some(),
                recorded: Some(RecordedTiming {
                    of_earlier_attempt: attempts.is_some_and(|attempts| attempts.len() < attempt as usize),
                    start_delay: *start_delay,
                    stop_delay: *stop_delay,
                }),
            },
            None => AttemptRun::succeeding(
                self.default_lengths.get(task.node as usize).copied().unwrap_or_default(),
            ),
        }
    }
}
