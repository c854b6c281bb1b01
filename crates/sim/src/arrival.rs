//! A job to come, and what really happens when its tasks run: what only the simulator knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_core::command::TaskSelector;
use warpyard_core::event::EndReason;
use warpyard_core::spec::JobSpec;
use warpyard_core::{Command, JobId, Span, TaskId, Time};

/// A job to come.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it is submitted.
    pub at: Time,
    /// By whom.
    pub user: String,
    /// What it asks for.
    pub spec: Arc<JobSpec>,
    /// What really happens.
    pub runs: RunModel,
}

/// What comes from outside, in order of time.
#[derive(Clone, Debug)]
pub enum TimedInput {
    /// A job, and the number by which later commands mean it, where they do.
    Submission(Arrival, Option<JobId>),
    /// Something is asked for at this moment. Jobs in it are meant by the numbers they came with.
    Command(Time, Command),
}

/// A command that means jobs by the numbers they have here; none where one is not here.
pub(crate) fn translated(command: Command, numbers: &BTreeMap<JobId, JobId>) -> Option<Command> {
    let here = |job: JobId| numbers.get(&job).copied();
    let meant = |target: TaskSelector| Some(target.in_job(here(target.job())?));
    Some(match command {
        Command::Hold(target) => Command::Hold(meant(target)?),
        Command::Release(target) => Command::Release(meant(target)?),
        Command::Pause(target) => Command::Pause(meant(target)?),
        Command::Resume(target) => Command::Resume(meant(target)?),
        Command::Cancel(target) => Command::Cancel(meant(target)?),
        Command::Kill(target) => Command::Kill(meant(target)?),
        Command::Retry { target, failed_only } => Command::Retry { target: meant(target)?, failed_only },
        Command::Forget(job) => Command::Forget(here(job)?),
        Command::SetPriority(job, priority) => Command::SetPriority(here(job)?, priority),
        Command::Several(commands) => {
            Command::Several(commands.into_iter().filter_map(|one| translated(one, numbers)).collect())
        }
        other => other,
    })
}

impl TimedInput {
    /// When.
    pub fn at(&self) -> Time {
        match self {
            TimedInput::Submission(arrival, _) => arrival.at,
            TimedInput::Command(at, _) => *at,
        }
    }
}

/// What really happens when the tasks of a job run.
#[derive(Clone, Debug)]
pub enum RunModel {
    /// Every attempt of every task runs for this long and succeeds.
    Constant(Span),
    /// The attempts of each node have a course of their own.
    PerNode(Vec<NodeRunModel>),
    /// Every attempt goes as one went before.
    Recorded(Arc<RecordedAttempts>),
    /// Each node has so many steps to do, and does them as fast as the type of device it is given lets it.
    Steps(Vec<StepWork>),
}

/// Steps to do, and how fast they go.
#[derive(Clone, Debug, Default)]
pub struct StepWork {
    /// How many.
    pub steps: f64,
    /// How fast they go.
    pub pace: Arc<StepSpeeds>,
}

/// How fast the steps of a profile go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSpeeds {
    /// The profile's name.
    pub profile: String,
    /// Steps a second by type of device in small letters; on any other it gets nowhere.
    pub alone: BTreeMap<String, f64>,
    /// The same beside another profile on the same devices, by that one's name and then by type.
    pub beside: BTreeMap<String, BTreeMap<String, f64>>,
}

impl StepSpeeds {
    fn alone(&self, kind: &str) -> f64 {
        self.alone.get(kind).copied().unwrap_or(0.0).max(NOWHERE)
    }

    /// Steps a second on a type beside another: as measured, and as beside others on the mean where nobody has tried the
    /// two; none for one that was never tried beside anyone.
    fn beside(&self, other: &str, kind: &str) -> Option<f64> {
        let known = self.beside.get(other).and_then(|by_kind| by_kind.get(kind)).copied();
        known.or_else(|| {
            let tried = self.beside.values().filter_map(|by_kind| by_kind.get(kind));
            let (sum, n) = tried.fold((0.0, 0.0), |(sum, n), speed| (sum + speed, n + 1.0));
            (n > 0.0).then(|| sum / n)
        })
    }

    /// The part of its speed that it keeps beside another.
    pub(crate) fn kept_beside(&self, other: &str, kind: &str) -> Option<f64> {
        Some((self.beside(other, kind)? / self.alone(kind)).max(NOWHERE))
    }

    /// Steps a second on a type, alone or beside another.
    pub(crate) fn speed(&self, kind: &str, beside: Option<&str>) -> Option<f64> {
        match beside {
            None => Some(self.alone.get(kind).copied().unwrap_or(0.0)),
            Some(other) => self.beside(other, kind),
        }
    }
}

/// How attempts of a job went.
#[derive(Clone, Debug, Default)]
pub struct RecordedAttempts {
    /// By node and position: each attempt in turn; more of them go like the last.
    pub tried: BTreeMap<(u32, u32), Vec<RecordedAttempt>>,
    /// By node: how long tasks run that were never seen to.
    pub otherwise: Vec<Span>,
}

/// How one attempt went.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedAttempt {
    /// From being placed until it ran.
    pub delay: Span,
    /// From then until its end was known, pauses left out.
    pub length: Span,
    /// How it ended by itself.
    pub how: EndReason,
    /// How long it took to end when it was asked to.
    pub linger: Option<Span>,
}

/// What really happens when the tasks of one node run.
#[derive(Clone, Debug, Default)]
pub struct NodeRunModel {
    /// Running time by position in the array; begins again when it is shorter than that.
    pub lengths: Vec<Span>,
    /// Exit code by number of the attempt, counted from the first; the last one goes on. None means 0.
    pub exits: Vec<i32>,
    /// Whether it ignores being asked to end, so that only the end of the grace period ends it.
    pub stubborn: bool,
}

/// Steps a second of a task that gets nowhere; a little, so that lengths stay numbers.
const NOWHERE: f64 = 1e-9;

/// How one attempt goes if nothing comes between.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptRun {
    pub(crate) length: Span,
    pub(crate) how: EndReason,
    pub(crate) stubborn: bool,
    /// Where it is as it went before.
    pub(crate) seen: Option<RecordedTiming>,
}

/// What is known of an attempt that went before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordedTiming {
    /// Whether it was seen of an earlier attempt, this one never having been.
    pub(crate) of_another: bool,
    pub(crate) delay: Span,
    pub(crate) linger: Option<Span>,
}

impl RunModel {
    /// How much of its work gets done in a second on a type of device, where that differs between types.
    pub(crate) fn pace(&self, task: TaskId, kind: Option<&str>) -> f64 {
        match self {
            RunModel::Steps(nodes) => {
                let StepWork { pace, .. } = &nodes[task.node as usize];
                kind.map_or(NOWHERE, |kind| pace.alone(&kind.to_ascii_lowercase()))
            }
            RunModel::Constant(_) | RunModel::PerNode(_) | RunModel::Recorded(_) => 1.0,
        }
    }

    /// How fast the steps of a task go, where it has any.
    pub(crate) fn steps_of(&self, task: TaskId) -> Option<&StepSpeeds> {
        match self {
            RunModel::Steps(nodes) => nodes.get(task.node as usize).map(|steps| &*steps.pace),
            RunModel::Constant(_) | RunModel::PerNode(_) | RunModel::Recorded(_) => None,
        }
    }

    /// Whom it gets on with on a type of device, where that was measured of anyone.
    pub(crate) fn interference(&self, task: TaskId, kind: Option<&str>) -> Option<Box<InterferenceProfile>> {
        let RunModel::Steps(nodes) = self else { return None };
        let StepWork { pace, .. } = &nodes[task.node as usize];
        let interference = || {
            Some(Box::new(InterferenceProfile { pace: Arc::clone(pace), kind: kind?.to_ascii_lowercase() }))
        };
        if pace.beside.is_empty() { None } else { interference() }
    }

    pub(crate) fn fate(&self, task: TaskId, attempt: u32, kind: Option<&str>) -> AttemptRun {
        match self {
            RunModel::Steps(nodes) => {
                let steps = nodes[task.node as usize].steps;
                AttemptRun::plain(Span::from_secs(steps / self.pace(task, kind)))
            }
            RunModel::Constant(length) => AttemptRun::plain(*length),
            RunModel::Recorded(tries) => tries.fate(task, attempt),
            RunModel::PerNode(courses) => {
                let NodeRunModel { lengths, exits, stubborn } = &courses[task.node as usize];
                let length = lengths.get(task.index as usize % lengths.len().max(1)).copied();
                let exit = exits.get(attempt as usize - 1).or(exits.last()).copied().unwrap_or(0);
                let how = EndReason::Exited(exit);
                AttemptRun { length: length.unwrap_or_default(), how, stubborn: *stubborn, seen: None }
            }
        }
    }
}

/// Whom a process gets on with.
#[derive(Clone, Debug)]
pub(crate) struct InterferenceProfile {
    pace: Arc<StepSpeeds>,
    kind: String,
}

impl InterferenceProfile {
    /// The part of its speed that it keeps beside another, where anyone measured it.
    pub(crate) fn kept_beside(&self, other: &InterferenceProfile) -> Option<f64> {
        self.pace.kept_beside(&other.pace.profile, &self.kind)
    }
}

impl AttemptRun {
    fn plain(length: Span) -> AttemptRun {
        AttemptRun { length, how: EndReason::Exited(0), stubborn: false, seen: None }
    }
}

impl RecordedAttempts {
    fn fate(&self, task: TaskId, attempt: u32) -> AttemptRun {
        let tried = self.tried.get(&(task.node, task.index));
        let one = tried.and_then(|tried| tried.get(attempt as usize - 1).or(tried.last()));
        match one {
            Some(RecordedAttempt { delay, length, how, linger }) => AttemptRun {
                length: *length,
                how: how.clone(),
                stubborn: linger.is_some(),
                seen: Some(RecordedTiming {
                    of_another: tried.is_some_and(|tried| tried.len() < attempt as usize),
                    delay: *delay,
                    linger: *linger,
                }),
            },
            None => AttemptRun::plain(self.otherwise.get(task.node as usize).copied().unwrap_or_default()),
        }
    }
}
