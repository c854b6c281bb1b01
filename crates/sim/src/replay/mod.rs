//! Replay of recorded histories: under the policy that ran, to measure the fidelity of the simulation, and under others, to see
//! what they would have done. A [`Recorder`] builds a [`Recording`] from the events of a log, wherever those are stored.

mod attempts;
mod recorder;

pub use recorder::Recorder;

use crate::report::JobName;
use crate::report::timeline::Timeline;
use crate::{Record, RecordedAttempts, RunModel, Setup, Sim, SimReport, TimedInput, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;
use warpyard_core::event::WorkerInfo;
use warpyard_core::{Cluster, JobId, PolicyChoice, PolicyDef, Rejection, Span, TaskId, Time};

/// Steps between two progress reports.
const PROGRESS_INTERVAL: u64 = 128;

/// History from a moment on.
#[derive(Clone)]
pub struct Recording {
    /// State at that moment.
    state: Cluster,
    from: Time,
    to: Time,
    /// Submissions and commands, in order.
    inputs: Arc<[TimedInput]>,
    /// Recorded attempts of the jobs in the initial state, from that moment on.
    initial: BTreeMap<JobId, Arc<RecordedAttempts>>,
    /// Records of the tasks of submitted jobs.
    records: Arc<[Record]>,
    /// Finished jobs: the ones that figures are computed over.
    finished: BTreeSet<JobId>,
    /// Context of the figures.
    summary: RecordingSummary,
}

/// Context of the figures of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecordingSummary {
    /// Submitted jobs.
    pub jobs: u64,
    /// Jobs in the initial state: simulated, but in no figure.
    #[serde(rename = "there_before")]
    pub initial: u64,
    /// Unfinished jobs: simulated with their stated lengths, and only in the figures of waiting.
    pub unfinished: u64,
    /// Attempts of jobs whose submission is no longer in the log; the simulation omits them.
    pub unknown: u64,
    /// Policies that were set, in order.
    pub policy_changes: Vec<String>,
    /// Number of commands by users: holds, pauses, cancellations, retries and changes of priority.
    #[serde(rename = "by_people")]
    pub user_commands: u64,
    /// Number of changes of workers and devices.
    #[serde(rename = "of_machines")]
    pub machine_changes: u64,
}

/// Progress of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Events so far.
    pub events: u64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// The same as a fraction of the recorded time.
    pub share: f64,
}

/// Policy of a replay.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayPolicy {
    /// The policies that ran, changed when they were changed.
    AsRecorded,
    /// One policy throughout.
    Fixed(PolicyChoice),
}

/// Outcome of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOutcome {
    /// Figures over the submitted jobs that finished.
    pub report: SimReport,
    /// Fidelity of the starts.
    pub agreement: Fidelity,
    /// Records of the tasks, under their numbers in the recording.
    pub records: Vec<Record>,
}

/// Fidelity of a replay: simulated starts against recorded ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Fidelity {
    /// Tasks that started in both.
    pub starts: u64,
    /// Tasks that started only in the recording.
    pub missing: u64,
    /// Tasks with the same rank in the order of starts.
    pub same_place: u64,
    /// Mean absolute difference of the two starts, in seconds.
    pub mean_error_s: f64,
    /// Largest difference.
    pub max_error_s: f64,
}

/// Reason a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The policy was rejected.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

impl Recording {
    /// Context of the figures.
    pub fn summary(&self) -> &RecordingSummary {
        &self.summary
    }

    /// First and last moment.
    pub fn span(&self) -> (Time, Time) {
        (self.from, self.to)
    }

    /// Policy at the beginning.
    pub fn policy(&self) -> &PolicyChoice {
        self.state.policy()
    }

    /// Whether no job was submitted.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Submitted jobs with their recorded run models.
    pub fn arrivals(&self) -> impl Iterator<Item = (&crate::Arrival, JobId)> {
        self.inputs.iter().filter_map(|input| match input {
            TimedInput::Submission(arrival, number) => Some((arrival, (*number)?)),
            TimedInput::Command(..) => None,
        })
    }

    /// Empty timeline over all workers that ever joined, for the watcher of a replay.
    pub fn timeline(&self) -> Timeline {
        let mut joined: Vec<&WorkerInfo> = self.state.workers().map(|(_, worker)| &worker.info).collect();
        for input in self.inputs.iter() {
            if let TimedInput::Command(_, warpyard_core::Command::Join(info)) = input {
                match joined.iter_mut().find(|known| known.name == info.name) {
                    Some(known) if known.devices.len() < info.devices.len() => *known = info,
                    Some(_) => {}
                    None => joined.push(info),
                }
            }
        }
        Timeline::of(joined)
    }

    /// Figures of the recorded history.
    pub fn recorded(&self, per_job: bool) -> SimReport {
        let counted: Vec<Record> = self.counted(self.records.iter().cloned());
        let mut report = SimReport::of_records("recorded".to_owned(), &counted, self.devices(), 0, per_job);
        report.count_unfinished(&self.records, self.to);
        report.name_jobs(&self.names(per_job));
        report
    }

    /// Names of the submitted jobs, if wanted.
    fn names(&self, wanted: bool) -> BTreeMap<JobId, JobName> {
        let named = |(arrival, number): (&crate::Arrival, JobId)| {
            (number, JobName { name: arrival.spec.name.clone(), user: arrival.user.clone() })
        };
        self.arrivals().filter(|_| wanted).map(named).collect()
    }

    /// Records of the tasks of submitted jobs.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Replays the recording. `watch` receives every event; `progress` is called at intervals and may stop the replay.
    pub fn replay(
        &self,
        under: &ReplayPolicy,
        policies: &'static [PolicyDef],
        per_job: bool,
        watch: Option<Watcher>,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<ReplayOutcome, ReplayError> {
        let began = Instant::now();
        let mut sim = self.begin(under, policies)?;
        if let Some(watch) = watch {
            sim.watch(watch);
        }
        let whole = self.to.since(self.from).secs().max(1e-6);
        let mut steps = 0u64;
        while sim.step() {
            steps += 1;
            if steps.is_multiple_of(PROGRESS_INTERVAL) {
                let simulated_s = sim.now().since(self.from).secs();
                let share = (simulated_s / whole).min(1.0);
                if progress(Progress { events: sim.events(), simulated_s, share }).is_break() {
                    return Err(ReplayError::Stopped);
                }
            }
        }
        let records = self.by_recorded_number(&sim);
        let policy = match under {
            ReplayPolicy::AsRecorded => "as it ran".to_owned(),
            ReplayPolicy::Fixed(policy) => policy.to_string(),
        };
        let counted = self.counted(records.iter().cloned());
        let refused = sim.rejections().len() as u64;
        let mut report = SimReport {
            events: sim.events(),
            wall_seconds: began.elapsed().as_secs_f64(),
            ..SimReport::of_records(policy, &counted, self.devices(), refused, per_job)
        };
        report.count_unfinished(&records, self.to);
        report.name_jobs(&self.names(per_job));
        Ok(ReplayOutcome { report, agreement: Fidelity::of(&self.records, &records), records })
    }

    fn begin(&self, under: &ReplayPolicy, policies: &'static [PolicyDef]) -> Result<Sim, ReplayError> {
        let commands_name_jobs = self.summary.user_commands > 0;
        let setup = Setup {
            policy: self.state.policy().clone(),
            // A job that a dependency or a command names must not be forgotten before.
            forget: !commands_name_jobs && self.arrivals().all(|(arrival, _)| arrival.spec.after.is_empty()),
            ..Setup::default()
        };
        let runs = |job: JobId| {
            self.initial
                .get(&job)
                .map_or(RunModel::Constant(Span::ZERO), |tries| RunModel::Recorded(tries.clone()))
        };
        let mut sim = Sim::resume_from(self.state.clone(), setup, policies, self.from, runs)?;
        let first = match under {
            ReplayPolicy::AsRecorded => None,
            ReplayPolicy::Fixed(choice) => {
                PolicyDef::build_from(policies, choice)?;
                Some(TimedInput::Command(self.from, warpyard_core::Command::SetPolicy(choice.clone())))
            }
        };
        let as_it_ran = *under == ReplayPolicy::AsRecorded;
        let input = Arc::clone(&self.inputs);
        let wanted = move |input: &TimedInput| {
            as_it_ran || !matches!(input, TimedInput::Command(_, warpyard_core::Command::SetPolicy(_)))
        };
        let rest = (0..input.len()).map(move |at| input[at].clone()).filter(wanted);
        sim.feed_all(first.into_iter().chain(rest));
        Ok(sim)
    }

    /// Simulated records under the task numbers of the recording.
    fn by_recorded_number(&self, sim: &Sim) -> Vec<Record> {
        let recorded = self.records.iter().filter_map(|record| {
            let job = sim.job_id_of(record.task.job)?;
            let simulated = sim.record(TaskId { job, ..record.task })?;
            Some(Record { task: record.task, ..simulated.clone() })
        });
        recorded.collect()
    }

    fn counted(&self, records: impl Iterator<Item = Record>) -> Vec<Record> {
        records.filter(|record| self.finished.contains(&record.task.job)).collect()
    }

    fn devices(&self) -> usize {
        self.timeline().devices.len()
    }
}

impl Fidelity {
    fn of(recorded: &[Record], simulated: &[Record]) -> Fidelity {
        let started = |records: &[Record]| -> BTreeMap<TaskId, Time> {
            records.iter().filter_map(|record| Some((record.task, record.started?))).collect()
        };
        let (recorded, simulated) = (started(recorded), started(simulated));
        let both = || recorded.iter().filter_map(|(task, at)| Some((*task, *at, *simulated.get(task)?)));
        let in_order = |mut starts: Vec<(Time, TaskId)>| {
            starts.sort_unstable();
            starts.into_iter().map(|(_, task)| task).collect::<Vec<_>>()
        };
        let theirs = in_order(both().map(|(task, at, _)| (at, task)).collect());
        let ours = in_order(both().map(|(task, _, at)| (at, task)).collect());
        let errors = || both().map(|(_, a, b)| a.max(b).since(a.min(b)).secs());
        let starts = theirs.len() as u64;
        Fidelity {
            starts,
            missing: recorded.len() as u64 - starts,
            same_place: theirs.iter().zip(&ours).filter(|(a, b)| a == b).count() as u64,
            mean_error_s: errors().sum::<f64>() / starts.max(1) as f64,
            max_error_s: errors().fold(0.0, f64::max),
        }
    }
}
