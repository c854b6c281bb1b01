//! View: the cluster as policies see it, read-only.

use super::{Account, Allowance, Attempt, Cluster, Job, PlacedTask, ReadyTask, SharedTime, TaskState};
use crate::ids::{JobId, NodeId, TaskId, WorkerId};
use crate::policy::PolicyChoice;
use crate::pool::{Placement, Pool};
use crate::shares::Shares;
use crate::spec::TaskSpec;
use crate::time::{Span, Time};

/// View of a cluster: everything that matters to a decision, and nothing that changes it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    cluster: &'a Cluster,
}

impl<'a> View<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> View<'a> {
        View { cluster }
    }

    /// Device pool: capacity and allocations.
    pub fn pool(self) -> &'a Pool {
        &self.cluster.derived.pool
    }

    /// Job with this id.
    pub fn job(self, id: JobId) -> Option<&'a Job> {
        self.cluster.job(id)
    }

    /// Job and specification of a task.
    pub fn spec(self, task: TaskId) -> Option<(&'a Job, &'a TaskSpec)> {
        let job = self.job(task.job)?;
        job.node(task.node).map(|(_, spec)| (job, spec))
    }

    /// State of a task.
    pub fn state(self, task: TaskId) -> Option<TaskState<'a>> {
        self.cluster.state(task)
    }

    /// Nodes with a ready task.
    pub fn ready_nodes(self) -> impl Iterator<Item = NodeId> + 'a {
        self.cluster.derived.ready.keys().copied()
    }

    /// Whether a node has a ready task.
    pub fn has_ready(self, node: NodeId) -> bool {
        self.cluster.derived.ready.contains_key(&node)
    }

    /// Ready tasks of a node.
    pub fn ready(self, node: NodeId) -> impl Iterator<Item = ReadyTask<'a>> + 'a {
        self.job(node.job).into_iter().flat_map(move |job| job.ready(node.node))
    }

    /// Running attempts with their expected ends, soonest first; paused ones are left out.
    pub fn ends(self) -> impl Iterator<Item = (Time, TaskId, &'a Placement)> + 'a {
        self.cluster.derived.ends.iter().map(move |&(at, task)| {
            let (attempt, _) = self.attempt(task).expect("what ends has an attempt");
            (at, task, &attempt.placement)
        })
    }

    /// Attempt of a task on a worker, and the task's specification.
    pub fn attempt(self, task: TaskId) -> Option<(&'a Attempt, &'a TaskSpec)> {
        let (node, spec) = self.job(task.job)?.node(task.node)?;
        Some((node.live.get(&task.index)?.attempt()?, spec))
    }

    /// Tasks that are paused, or were asked for a change that has yet to happen.
    pub fn unsettled(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.derived.unsettled.iter().copied()
    }

    /// Tasks on workers that allow preemption, in order of task.
    pub fn preemptible(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.derived.preemptible.iter().copied()
    }

    /// Whether a task is on a worker and may be preempted.
    pub fn is_preemptible(self, task: TaskId) -> bool {
        self.cluster.derived.preemptible.contains(&task)
    }

    /// Task on a worker in the form of a ready one, so that orders can rank it.
    pub fn under_way(self, task: TaskId, now: Time) -> Option<PlacedTask<'a>> {
        self.job(task.job)?.under_way(task, now)
    }

    /// Device-seconds a user has had, with decay, at a time.
    pub fn used(self, user: &str, now: Time) -> f64 {
        let half_life = super::accounts::half_life(&self.cluster.policy);
        self.cluster.accounts.get(user).map_or(0.0, |account| account.used(now, half_life))
    }

    /// Usage account of a user; empty if no task of theirs ever started.
    pub fn account(self, user: &str) -> Account {
        self.cluster.accounts.get(user).copied().unwrap_or_default()
    }

    /// Quotas left to users, for a plan to count against.
    pub fn allowance(self, now: Time) -> Allowance<'a> {
        self.cluster.allowance(now)
    }

    /// User whose limits apply to a job, if any do.
    pub fn limited(self, job: JobId) -> Option<&'a str> {
        self.cluster.quotas.bound_starts().then(|| self.job(job).map(|job| job.user.as_str())).flatten()
    }

    /// Whether limits bound what may start.
    pub fn has_limits(self) -> bool {
        self.cluster.quotas.bound_starts()
    }

    /// Number of nodes with a ready task.
    pub fn ready_count(self) -> usize {
        self.cluster.derived.ready.len()
    }

    /// Known speeds, and the target allocation in force.
    pub fn shares(self) -> &'a Shares {
        &self.cluster.shares
    }

    /// The policy in force.
    pub fn policy(self) -> &'a PolicyChoice {
        &self.cluster.policy
    }

    /// Time a task has had devices of a type.
    pub fn had(self, task: TaskId, kind: &str, now: Time) -> Span {
        self.cluster.had(task, kind, now)
    }

    /// Time a task has shared devices of a type with another, and the part of it lost to interference.
    pub fn shared(self, task: TaskId, kind: &str, now: Time) -> SharedTime {
        self.cluster.shared(task, kind, now)
    }

    /// Task that is co-located with this one.
    pub fn beside(self, task: TaskId) -> Option<TaskId> {
        self.cluster.beside(task)
    }

    /// Fraction of its speed that a task keeps beside the one it is co-located with, as far as known; 1 if it is
    /// alone.
    pub fn speed_kept(self, task: TaskId) -> f64 {
        let kept = || self.cluster.kept_beside(task, self.beside(task)?, self.kind_given(task)?);
        kept().map_or(1.0, |kept| kept.min(1.0))
    }

    /// Task that runs on the same devices as this one, and since when both run.
    pub fn shares_with(self, task: TaskId) -> Option<(TaskId, Time)> {
        self.cluster.shares_with(task)
    }

    /// Type of the first device a task has.
    pub fn kind_given(self, task: TaskId) -> Option<&'a str> {
        self.cluster.kind_given(task)
    }

    /// Tasks with an attempt on a worker, in order of worker and task.
    pub fn on_workers(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.workers.iter().flat_map(|w| w.tasks.iter().copied())
    }

    /// Number of attempts on workers.
    pub fn active(self) -> usize {
        self.cluster.derived.active
    }

    /// Name of a worker.
    pub fn worker_name(self, id: WorkerId) -> &'a str {
        self.cluster.worker(id).map_or("?", |w| &w.info.name)
    }
}
