//! The cluster as policies see it: to look at, never to change.

use super::{Account, Allowance, Attempt, Cluster, Job, PlacedTask, ReadyTask, SharedTime, TaskState};
use crate::ids::{JobId, NodeId, TaskId, WorkerId};
use crate::policy::PolicyChoice;
use crate::pool::{Placement, Pool};
use crate::shares::Shares;
use crate::spec::TaskSpec;
use crate::time::{Span, Time};

/// What a policy sees: everything that matters to a decision, and nothing it could change.
#[derive(Clone, Copy)]
pub struct View<'a> {
    cluster: &'a Cluster,
}

impl<'a> View<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> View<'a> {
        View { cluster }
    }

    /// What there is to give and what is given.
    pub fn pool(self) -> &'a Pool {
        &self.cluster.derived.pool
    }

    /// One job.
    pub fn job(self, id: JobId) -> Option<&'a Job> {
        self.cluster.job(id)
    }

    /// A task's job, and what it asks for.
    pub fn spec(self, task: TaskId) -> Option<(&'a Job, &'a TaskSpec)> {
        let job = self.job(task.job)?;
        job.node(task.node).map(|(_, spec)| (job, spec))
    }

    /// Where a task stands.
    pub fn state(self, task: TaskId) -> Option<TaskState<'a>> {
        self.cluster.state(task)
    }

    /// Nodes with a task that could start, were there room.
    pub fn ready_nodes(self) -> impl Iterator<Item = NodeId> + 'a {
        self.cluster.derived.ready.keys().copied()
    }

    /// Whether a node has a task that could start, were there room.
    pub fn has_ready(self, node: NodeId) -> bool {
        self.cluster.derived.ready.contains_key(&node)
    }

    /// The tasks of a node that could start, were there room.
    pub fn ready(self, node: NodeId) -> impl Iterator<Item = ReadyTask<'a>> + 'a {
        self.job(node.job).into_iter().flat_map(move |job| job.ready(node.node))
    }

    /// Attempts on workers with the time each is expected to end, soonest first; those that stand still left out.
    pub fn ends(self) -> impl Iterator<Item = (Time, TaskId, &'a Placement)> + 'a {
        self.cluster.derived.ends.iter().map(move |&(at, task)| {
            let (attempt, _) = self.attempt(task).expect("what ends has an attempt");
            (at, task, &attempt.placement)
        })
    }

    /// The attempt of a task that is on a worker, and what the task asks for.
    pub fn attempt(self, task: TaskId) -> Option<(&'a Attempt, &'a TaskSpec)> {
        let (node, spec) = self.job(task.job)?.node(task.node)?;
        Some((node.live.get(&task.index)?.attempt()?, spec))
    }

    /// Attempts that stand still, or were asked for something that has yet to happen to them.
    pub fn unsettled(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.derived.unsettled.iter().copied()
    }

    /// Attempts on workers of tasks that allow to be made to give way, in order of task.
    pub fn preemptible(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.derived.preemptible.iter().copied()
    }

    /// Whether a task is on a worker and may be preempted.
    pub fn is_preemptible(self, task: TaskId) -> bool {
        self.cluster.derived.preemptible.contains(&task)
    }

    /// A task that is on a worker, as those that wait are seen.
    pub fn under_way(self, task: TaskId, now: Time) -> Option<PlacedTask<'a>> {
        self.job(task.job)?.under_way(task, now)
    }

    /// Device-seconds a user has had, as they count at a moment.
    pub fn used(self, user: &str, now: Time) -> f64 {
        let half_life = super::accounts::half_life(&self.cluster.policy);
        self.cluster.accounts.get(user).map_or(0.0, |account| account.used(now, half_life))
    }

    /// What a user has, and has had of late; nothing where nothing of theirs ever started.
    pub fn account(self, user: &str) -> Account {
        self.cluster.accounts.get(user).copied().unwrap_or_default()
    }

    /// What may start as far as limits go, beside what a plan starts already.
    pub fn allowance(self, now: Time) -> Allowance<'a> {
        self.cluster.allowance(now)
    }

    /// Whose limits hold for a job, if any do.
    pub fn limited(self, job: JobId) -> Option<&'a str> {
        self.cluster.quotas.bound_starts().then(|| self.job(job).map(|job| job.user.as_str())).flatten()
    }

    /// Whether limits bound what may start.
    pub fn has_limits(self) -> bool {
        self.cluster.quotas.bound_starts()
    }

    /// How many nodes have a task that could start, were there room.
    pub fn ready_count(self) -> usize {
        self.cluster.derived.ready.len()
    }

    /// Speeds, and the target in force.
    pub fn shares(self) -> &'a Shares {
        &self.cluster.shares
    }

    /// The policy in force.
    pub fn policy(self) -> &'a PolicyChoice {
        &self.cluster.policy
    }

    /// How long a task has had devices of a type.
    pub fn had(self, task: TaskId, kind: &str, now: Time) -> Span {
        self.cluster.had(task, kind, now)
    }

    /// How long a task has shared devices of a type with others, and how much of that it would have saved alone.
    pub fn shared(self, task: TaskId, kind: &str, now: Time) -> SharedTime {
        self.cluster.shared(task, kind, now)
    }

    /// The other task that was given a task's devices beside it.
    pub fn beside(self, task: TaskId) -> Option<TaskId> {
        self.cluster.beside(task)
    }

    /// The part of its speed that a task keeps where it is beside another, as far as anyone knows; all of it alone.
    pub fn speed_kept(self, task: TaskId) -> f64 {
        let kept = || self.cluster.kept_beside(task, self.beside(task)?, self.kind_given(task)?);
        kept().map_or(1.0, |kept| kept.min(1.0))
    }

    /// The other task that runs on a task's devices while it runs there itself, and since when both do.
    pub fn shares_with(self, task: TaskId) -> Option<(TaskId, Time)> {
        self.cluster.shares_with(task)
    }

    /// The type of the (first) device a task has.
    pub fn kind_given(self, task: TaskId) -> Option<&'a str> {
        self.cluster.kind_given(task)
    }

    /// Tasks with an attempt on a worker, in order of worker and task.
    pub fn on_workers(self) -> impl Iterator<Item = TaskId> + 'a {
        self.cluster.workers.iter().flat_map(|w| w.tasks.iter().copied())
    }

    /// How many attempts are on workers.
    pub fn active(self) -> usize {
        self.cluster.derived.active
    }

    /// A worker's name.
    pub fn worker_name(self, id: WorkerId) -> &'a str {
        self.cluster.worker(id).map_or("?", |w| &w.info.name)
    }
}
