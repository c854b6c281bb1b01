//! What people were told. It stays true until they ask for something else, whatever dies in between.

use super::Violation;
use super::ledger::violation;
use super::users::Users;
use std::collections::BTreeMap;
use warpyard_core::command::TaskSelector;
use warpyard_core::engine::CommandOutcome;
use warpyard_core::event::StopReason;
use warpyard_core::{Cluster, Command, JobId, PolicyChoice, TaskId, TaskState, WorkerId};

#[derive(Default)]
pub(super) struct Acknowledged {
    /// The number a job was given.
    accepted: BTreeMap<JobId, String>,
    held: BTreeMap<JobId, ()>,
    priorities: BTreeMap<JobId, i64>,
    cancelled: BTreeMap<JobId, Vec<TaskSelector>>,
    drained: BTreeMap<WorkerId, bool>,
    policy: Option<PolicyChoice>,
}

impl Acknowledged {
    /// A command was carried out and its caller told so.
    pub(super) fn said(&mut self, command: &Command, answer: &CommandOutcome) {
        self.unsaid(command);
        match command {
            Command::Several(commands) => {
                let done = commands.iter().zip(&answer.each).filter(|(_, answer)| answer.is_ok());
                done.for_each(|(command, _)| self.said(command, &CommandOutcome::default()));
            }
            Command::Submit { spec, .. } => {
                let job = answer.job.expect("a job that was taken has a number");
                self.accepted.insert(job, spec.name.clone());
            }
            Command::Cancel(target) | Command::Kill(target) => {
                self.cancelled.entry(target.job()).or_default().push(*target);
            }
            Command::Hold(TaskSelector::Job(job)) | Command::Pause(TaskSelector::Job(job)) => {
                self.held.insert(*job, ());
            }
            Command::SetPriority(job, priority) => drop(self.priorities.insert(*job, *priority)),
            Command::Drain { worker, drained } => drop(self.drained.insert(*worker, *drained)),
            Command::SetPolicy(choice) => self.policy = Some(choice.clone()),
            _ => {}
        }
    }

    /// A command may have been carried out: what was said before of the same thing need no longer hold.
    pub(super) fn unsaid(&mut self, command: &Command) {
        match command {
            Command::Several(commands) => commands.iter().for_each(|command| self.unsaid(command)),
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

    /// Everything said still holds.
    pub(super) fn hold(&self, cluster: &Cluster, users: &Users) -> Result<(), Violation> {
        const RULE: &str = "what was said stays true";
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
            if let Some(task) = goes_on(cluster, *target) {
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

/// A task that was cancelled and is neither over nor asked to end.
fn goes_on(cluster: &Cluster, target: TaskSelector) -> Option<TaskId> {
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
