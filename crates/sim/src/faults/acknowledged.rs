//! Durability of acknowledgements: what was acknowledged to users stays true until they request otherwise, whatever crashes in
//! between.

use super::Violation;
use super::ledger::violation;
use super::users::Users;
use std::collections::BTreeMap;
use warpyard_core::command::TaskSelector;
use warpyard_core::engine::CommandOutcome;
use warpyard_core::event::StopReason;
use warpyard_core::{Cluster, Command, JobId, PolicyChoice, TaskId, TaskState, WorkerId};

/// Effects of all acknowledged commands.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// Names of accepted jobs by number.
    accepted: BTreeMap<JobId, String>,
    held: BTreeMap<JobId, ()>,
    priorities: BTreeMap<JobId, i64>,
    cancelled: BTreeMap<JobId, Vec<TaskSelector>>,
    drained: BTreeMap<WorkerId, bool>,
    policy: Option<PolicyChoice>,
}

impl Acknowledged {
    /// Notes a command that was executed and acknowledged.
    pub(super) fn acknowledge(&mut self, command: &Command, answer: &CommandOutcome) {
        self.supersede(command);
        match command {
            Command::Several(commands) => {
                let done = commands.iter().zip(&answer.each).filter(|(_, answer)| answer.is_ok());
                done.for_each(|(command, _)| self.acknowledge(command, &CommandOutcome::default()));
            }
            Command::Submit { spec, .. } => {
                let job = answer.job.expect("an accepted job has a number");
                self.accepted.insert(job, spec.name.clone());
            }
            Command::Cancel(target) | Command::Kill(target) => {
                self.cancelled.entry(target.job()).or_default().push(*target);
            }
            Command::Hold(TaskSelector::Job(job)) | Command::Pause(TaskSelector::Job(job)) => {
                self.held.insert(*job, ());
            }
            Command::SetPriority(job, priority) => drop(self.priorities.insert(*job, *priority)),
            Command::Drain { worker, drained, .. } => drop(self.drained.insert(*worker, *drained)),
            Command::SetPolicy(choice) => self.policy = Some(choice.clone()),
            _ => {}
        }
    }

    /// Notes a command that may have been executed without acknowledgement: earlier acknowledgements about the same object
    /// need no longer hold.
    pub(super) fn supersede(&mut self, command: &Command) {
        match command {
            Command::Several(commands) => commands.iter().for_each(|command| self.supersede(command)),
            Command::Release(TaskSelector::Job(job)) | Command::Resume(TaskSelector::Job(job)) => {
                self.held.remove(job);
            }
            Command::Retry { target, .. } => {
                self.held.remove(&target.job());
                self.cancelled.remove(&target.job());
            }
            Command::SetPriority(job, _) => drop(self.priorities.remove(job)),
            Command::Drain { worker, .. } => drop(self.drained.remove(worker)),
            Command::SetPolicy(_) => self.policy = None,
            Command::Forget(job) => {
                self.accepted.remove(job);
                self.held.remove(job);
                self.priorities.remove(job);
                self.cancelled.remove(job);
            }
            _ => {}
        }
    }

    /// Checks that every acknowledgement still holds.
    pub(super) fn check(&self, cluster: &Cluster, users: &Users) -> Result<(), Violation> {
        const RULE: &str = "acknowledged commands stay in effect";
        for (job, name) in &self.accepted {
            let is = cluster.job(*job);
            if is.is_none_or(|j| j.spec.name != *name) {
                return violation(RULE, || format!("{name} was accepted as job {job}, which is now {is:?}"));
            }
            let asked = users.spec(name).map(|spec| &spec.tasks);
            if asked != is.map(|j| &j.spec.tasks) {
                return violation(RULE, || format!("job {job} is not what {name} asked for"));
            }
        }
        if let Some(job) = self.held.keys().find(|job| cluster.job(**job).is_some_and(|j| !j.held)) {
            return violation(RULE, || format!("job {job} was held and is not"));
        }
        for (job, priority) in &self.priorities {
            if cluster.job(*job).is_some_and(|j| j.priority != *priority) {
                return violation(RULE, || {
                    format!("job {job} was given priority {priority} and has another")
                });
            }
        }
        for target in self.cancelled.values().flatten() {
            if let Some(task) = still_active(cluster, *target) {
                return violation(RULE, || format!("{target:?} was cancelled, but {task:?} goes on"));
            }
        }
        for (worker, drained) in &self.drained {
            if cluster.worker(*worker).is_none_or(|w| w.drained != *drained) {
                return violation(RULE, || format!("{worker} was to be drained: {drained}"));
            }
        }
        match &self.policy {
            Some(policy) if policy != cluster.policy() => {
                violation(RULE, || format!("policy {policy} was put in force, not {}", cluster.policy()))
            }
            _ => Ok(()),
        }
    }
}

/// Task of a cancelled target that has neither ended nor been asked to stop.
fn still_active(cluster: &Cluster, target: TaskSelector) -> Option<TaskId> {
    let job = cluster.job(target.job())?;
    let tasks = job.spec.tasks.iter().enumerate().flat_map(|(n, spec)| {
        (0..spec.len()).map(move |index| TaskId { job: job.id, node: n as u32, index })
    });
    tasks.filter(|t| target.contains(*t)).find(|task| {
        !matches!(
            cluster.state(*task),
            None | Some(
                TaskState::Done(_) | TaskState::Stopping(_, StopReason::Cancelled | StopReason::Killed)
            )
        )
    })
}
