//! What really happened, simulated again: under the policy that ran, to see how far the simulation can be trusted, and
//! under others, to see what they would have done. A [`Recorder`] makes a [`Recording`] from the events of a log; where
//! those are kept is not known here.

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

/// Steps between two reports of progress.
const NOW_AND_THEN: u64 = 128;

/// What happened from one moment on.
#[derive(Clone)]
pub struct Recording {
    /// The state at that moment.
    state: Cluster,
    from: Time,
    to: Time,
    /// Jobs and what people asked for, in order.
    coming: Arc<[TimedInput]>,
    /// How the attempts of each job that was there at the beginning went from then on.
    before: BTreeMap<JobId, Arc<RecordedAttempts>>,
    /// What became of each task of the jobs that came.
    records: Arc<[Record]>,
    /// Jobs that ended, which figures are about.
    ended: BTreeSet<JobId>,
    /// What should be known beside the figures.
    told: RecordingSummary,
}

/// What should be known of a recording beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecordingSummary {
    /// Jobs that came.
    pub jobs: u64,
    /// Jobs that were there at the beginning: simulated, and in no figure.
    pub there_before: u64,
    /// Jobs that had not ended: simulated for as long as they promised, and in no figure but the waits.
    pub unfinished: u64,
    /// Attempts of jobs of which the log no longer says what they were; the simulation goes without them.
    pub unknown: u64,
    /// Times the policy was changed, with the one it was changed to.
    pub policy_changes: Vec<String>,
    /// Holds, pauses, cancellations, retries and changes of priority by people.
    pub by_people: u64,
    /// Changes of workers and devices.
    pub of_machines: u64,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How many events there were.
    pub events: u64,
    /// Seconds simulated.
    pub simulated_s: f64,
    /// How much of the recorded time that is, from 0 to 1.
    pub share: f64,
}

/// Which policy a replay is under.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayPolicy {
    /// Those that ran, changed when they were changed.
    AsRecorded,
    /// This one from the beginning to the end.
    Fixed(PolicyChoice),
}

/// What came out of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOutcome {
    /// Its figures, over the jobs that came and ended.
    pub report: SimReport,
    /// How its starts compare with those recorded.
    pub agreement: Fidelity,
    /// What became of each task, by its number in the recording.
    pub records: Vec<Record>,
}

/// How simulated starts compare with recorded ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Fidelity {
    /// Tasks that started in both.
    pub starts: u64,
    /// Tasks that started in the recording alone.
    pub missing: u64,
    /// How many stand at the same place in the order of starts.
    pub same_place: u64,
    /// The mean difference between the two starts of a task, in seconds.
    pub mean_error_s: f64,
    /// The largest.
    pub max_error_s: f64,
}

/// Why there is no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The policy is refused.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// Someone said that it is enough.
    #[error("stopped")]
    Stopped,
}

impl Recording {
    /// What should be known beside the figures.
    pub fn told(&self) -> &RecordingSummary {
        &self.told
    }

    /// From when to when.
    pub fn span(&self) -> (Time, Time) {
        (self.from, self.to)
    }

    /// The policy in force at the beginning.
    pub fn policy(&self) -> &PolicyChoice {
        self.state.policy()
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The jobs that came, with what is known of how they went.
    pub fn arrivals(&self) -> impl Iterator<Item = (&crate::Arrival, JobId)> {
        self.coming.iter().filter_map(|coming| match coming {
            TimedInput::Submission(arrival, number) => Some((arrival, (*number)?)),
            TimedInput::Command(..) => None,
        })
    }

    /// A timeline of the workers there are, for whoever watches a replay.
    pub fn timeline(&self) -> Timeline {
        let mut joined: Vec<&WorkerInfo> = self.state.workers().map(|(_, worker)| &worker.info).collect();
        for coming in self.coming.iter() {
            if let TimedInput::Command(_, warpyard_core::Command::Join(info)) = coming {
                match joined.iter_mut().find(|known| known.name == info.name) {
                    Some(known) if known.devices.len() < info.devices.len() => *known = info,
                    Some(_) => {}
                    None => joined.push(info),
                }
            }
        }
        Timeline::of(joined)
    }

    /// What was recorded, in figures.
    pub fn recorded(&self, per_job: bool) -> SimReport {
        let counted: Vec<Record> = self.counted(self.records.iter().cloned());
        let mut report = SimReport::of_records("recorded".to_owned(), &counted, self.devices(), 0, per_job);
        report.count_unfinished(&self.records, self.to);
        report.name_jobs(&self.names(per_job));
        report
    }

    /// What the jobs that came are called, where that is asked for.
    fn names(&self, wanted: bool) -> BTreeMap<JobId, JobName> {
        let named = |(arrival, number): (&crate::Arrival, JobId)| {
            (number, JobName { name: arrival.spec.name.clone(), user: arrival.user.clone() })
        };
        self.arrivals().filter(|_| wanted).map(named).collect()
    }

    /// What became of each task that came.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Simulates it again. `watch` hears every event and `progress` how far it is, now and then; that may end it.
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
            if steps.is_multiple_of(NOW_AND_THEN) {
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
        let asks_for_jobs_by_number = self.told.by_people > 0;
        let setup = Setup {
            policy: self.state.policy().clone(),
            // Whoever waits for a job, or asks for something of one, must find it.
            forget: !asks_for_jobs_by_number
                && self.arrivals().all(|(arrival, _)| arrival.spec.after.is_empty()),
            ..Setup::default()
        };
        let runs = |job: JobId| {
            self.before
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
        let coming = Arc::clone(&self.coming);
        let wanted = move |coming: &TimedInput| {
            as_it_ran || !matches!(coming, TimedInput::Command(_, warpyard_core::Command::SetPolicy(_)))
        };
        let rest = (0..coming.len()).map(move |at| coming[at].clone()).filter(wanted);
        sim.feed_all(first.into_iter().chain(rest));
        Ok(sim)
    }

    /// Simulated tasks under the numbers of the recorded ones.
    fn by_recorded_number(&self, sim: &Sim) -> Vec<Record> {
        let recorded = self.records.iter().filter_map(|record| {
            let job = sim.job_id_of(record.task.job)?;
            let simulated = sim.record(TaskId { job, ..record.task })?;
            Some(Record { task: record.task, ..simulated.clone() })
        });
        recorded.collect()
    }

    fn counted(&self, records: impl Iterator<Item = Record>) -> Vec<Record> {
        records.filter(|record| self.ended.contains(&record.task.job)).collect()
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
