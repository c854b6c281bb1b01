//! Simulation runs on one cluster: policies by name, workloads that could never finish refused beforehand, and
//! progress.

use super::progress::{Progress, RunCount};
use crate::input::{find_by_name, help_list};
use crate::simulation::{Costs, Throughputs};
use crate::usage_error::UsageError;
use crate::workload::Workload;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use warpyard_core::event::WorkerInfo;
use warpyard_core::{Event, EventKind, PolicyChoice, PolicyDef, Rejection, Span};
use warpyard_policies::POLICIES;
use warpyard_sim::report::JobName;
use warpyard_sim::report::timeline::Timeline;
use warpyard_sim::workload::TraceJob;
use warpyard_sim::{Arrival, Setup, Sim, SimReport};

/// Modelled duration of a background solve: longer than any takes for some thousand jobs, and constant, so
/// that the same seed gives the same run.
const SOLVE_TIME: Span = Span(100_000);

/// An experiment: everything its simulations have in common but policy and seed.
pub(crate) struct Experiment {
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) workload: Workload,
    /// Throughputs of profiles.
    pub(crate) throughputs: Throughputs,
    /// Prices of GPU types.
    pub(crate) costs: Costs,
    /// Time a task loses by a restart.
    pub(crate) restart: Span,
    /// Delay between placement and start.
    pub(crate) start_delay: Span,
    /// Slowdown of tasks that share a GPU.
    pub(crate) contention: f64,
    /// Whether jobs that can never fit are counted instead of rejection beforehand.
    pub(crate) count_rejected: bool,
}

/// The list of policies, for the help.
pub(crate) fn policy_list() -> String {
    help_list("Policies", POLICIES.iter().map(|policy| (policy.name, policy.summary.to_owned())))
}

/// A policy as people write it: `short-first:beta=2`.
pub(crate) fn parse_policy(text: &str) -> Result<PolicyChoice, UsageError> {
    let choice: PolicyChoice = text.parse().map_err(rejection)?;
    find_by_name("policy", &choice.name, POLICIES, |policy| policy.name)?;
    PolicyDef::checked(POLICIES, &choice).map_err(rejection)?;
    Ok(choice)
}

/// Several of them: `fifo,short-first:beta=2,gamma=0.5,sjf`. What has a parameter's form belongs to the one before.
pub(crate) fn parse_policies(text: &str) -> Result<Vec<PolicyChoice>, UsageError> {
    let mut each: Vec<String> = Vec::new();
    for count in text.split(',') {
        match each.last_mut() {
            Some(before) if count.contains('=') && !count.contains(':') => {
                before.push(',');
                before.push_str(count);
            }
            _ => each.push(count.trim().to_owned()),
        }
    }
    each.iter().map(|text| parse_policy(text)).collect()
}

/// Maximum number of jobs whose throughputs are checked.
const MAX_JOBS_CHECKED: usize = 100_000;

/// The cluster's GPU types, in lower case.
pub(crate) fn gpu_types(workers: &[WorkerInfo]) -> BTreeSet<String> {
    workers.iter().flat_map(|worker| &worker.devices).map(|device| device.kind.to_ascii_lowercase()).collect()
}

fn rejection(rejected: Rejection) -> UsageError {
    let path = rejected.path.map(|path| format!("{path}: ")).unwrap_or_default();
    let help = rejected.help.map(|help| format!("; {help}")).unwrap_or_default();
    UsageError::Refused(format!("{path}{}{help}", rejected.message))
}

impl Experiment {
    pub(crate) fn setup(&self, policy: &PolicyChoice) -> Setup {
        Setup {
            workers: self.workers.clone(),
            policy: policy.clone(),
            start_delay: self.start_delay,
            forget: true,
            restart: self.restart,
            contention: self.contention,
            errand: SOLVE_TIME,
        }
    }

    fn sim(&self, policy: &PolicyChoice) -> Result<Sim, UsageError> {
        if policy.params.get("sharing").is_some_and(|sharing| sharing == "true")
            && !self.throughputs.know_pairs()
        {
            return Err(UsageError::NoPairs(policy.to_string()));
        }
        let mut sim = Sim::new(self.setup(policy), POLICIES).map_err(rejection)?;
        if let Some(speeds) = self.throughputs.command(self.costs.clone()) {
            sim.execute(speeds).map_err(rejection)?;
        }
        Ok(sim)
    }

    pub(crate) fn arrival(throughputs: &Throughputs, job: TraceJob) -> Arrival {
        job.at_speeds(|profile, gpus| throughputs.of(profile, gpus))
    }

    /// Refuses a workload with a job that could never run, naming its place.
    pub(crate) fn check(&self, policy: &PolicyChoice) -> Result<(), UsageError> {
        self.check_speeds()?;
        if self.count_rejected {
            return Ok(());
        }
        let mut sim = self.sim(policy)?;
        for (place, job) in self.workload.kinds() {
            let Arrival { user, spec, runs, .. } = Self::arrival(&self.throughputs, job);
            sim.submit(&user, spec, runs).map_err(|rejected| {
                let field = rejected.path.map(|path| format!("{path}: ")).unwrap_or_default();
                UsageError::NeverFits { place, why: format!("{field}{}", rejected.message) }
            })?;
        }
        Ok(())
    }

    /// Refuses throughputs by which a job would make no progress on any GPU type of the cluster and so never end.
    fn check_speeds(&self) -> Result<(), UsageError> {
        let kinds = gpu_types(&self.workers);
        let mut seen = BTreeSet::new();
        for task in self.workload.jobs(0).take(MAX_JOBS_CHECKED).flat_map(|job| job.tasks) {
            let Some(profile) = task.profile.filter(|profile| seen.insert((profile.clone(), task.gpus)))
            else {
                continue;
            };
            let Some(pace) = self.throughputs.of(&profile, task.gpus) else { continue };
            if !kinds.iter().any(|kind| pace.alone.get(kind).is_some_and(|speed| *speed > 0.0)) {
                let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
                return Err(UsageError::NoSpeed { profile, gpus: task.gpus, kinds });
            }
        }
        Ok(())
    }

    /// Runs one simulation.
    pub(crate) fn run(
        &self,
        policy: &PolicyChoice,
        seed: u64,
        options: RunOptions,
        progress: &Arc<Progress>,
    ) -> Result<RunResult, UsageError> {
        let mut sim = self.sim(policy)?;
        let throughputs = self.throughputs.clone();
        sim.feed(self.workload.jobs(seed).map(move |job| Self::arrival(&throughputs, job)));
        let timeline = options.timeline.then(|| Timeline::of(&self.workers).shared());
        let count = Rc::new(RefCell::new(RunCount::default()));
        let names = options.per_job.then(|| Rc::new(RefCell::new(BTreeMap::new())));
        if progress.is_watched() || timeline.is_some() || names.is_some() {
            let (progress, count) = (Arc::clone(progress), Rc::clone(&count));
            let (timeline, names) = (timeline.clone(), names.clone());
            sim.watch(move |event: &Event| {
                progress.count(&mut count.borrow_mut(), event);
                if let (Some(names), EventKind::JobSubmitted { job, user, spec }) = (&names, &event.what) {
                    let (name, user) = (spec.name.clone(), user.clone());
                    names.borrow_mut().insert(*job, JobName { name, user });
                }
                if let Some(timeline) = &timeline {
                    timeline.borrow_mut().enter(event);
                }
            });
        }
        let began = Instant::now();
        sim.run();
        let mut report = SimReport::of(&sim, seed, began.elapsed().as_secs_f64(), options.per_job);
        drop(sim);
        if let Some(names) = names {
            report.name_jobs(&names.borrow());
        }
        progress.end(&count.borrow());
        let timeline = timeline.and_then(Rc::into_inner).map(RefCell::into_inner);
        Ok(RunResult { report, timeline })
    }
}

/// What to record of a simulation beside its figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunOptions {
    /// The figures of each job.
    pub(crate) per_job: bool,
    /// The timeline of placements.
    pub(crate) timeline: bool,
}

/// Result of a simulation.
pub(crate) struct RunResult {
    pub(crate) report: SimReport,
    pub(crate) timeline: Option<Timeline>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_policy() {
        let texts = |text| {
            let choices = parse_policies(text).unwrap();
            choices.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts("fifo, sjf"), ["fifo", "sjf"]);
        assert_eq!(texts("short-first:beta=2,gamma=0.5,sjf"), ["short-first:beta=2,gamma=0.5", "sjf"]);
    }

    #[test]
    fn a_policy_that_is_none_is_told_with_those_there_are() {
        let said = |text| parse_policy(text).unwrap_err().to_string();
        assert!(
            said("ffo").starts_with("no policy is called 'ffo'; did you mean 'fifo'? (there are backfill,")
        );
        assert!(said("short-first:delta=1").contains("has no parameter 'delta'; its parameters: alpha"));
        assert!(said("short-first:beta=x").contains("'x' is not a number"));
    }
}
