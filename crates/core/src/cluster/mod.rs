//! Cluster: the whole state, and the only mutator of it.
//!
//! [`Cluster::decide`] turns a command into events or rejects it, [`Cluster::admit`] turns a validated plan into
//! events, [`Cluster::apply`] applies an event. The first two only read.

mod accounts;
mod admit;
mod apply;
#[cfg(feature = "bugs")]
mod bugs;
mod decide;
mod excerpt;
mod feasible;
mod job;
mod jobs;
mod quotas;
mod view;

pub(crate) use accounts::rate_of;
pub use accounts::{Account, HALF_LIFE, HALF_LIFE_PARAM};
#[cfg(feature = "bugs")]
pub use bugs::Bug;
pub use job::{Attempt, Cause, Job, Node, Outcomes, Phase, PlacedTask, ReadyTask, SharedTime, StartedTask};
pub use jobs::Jobs;
pub use quotas::{Allowance, Quota};
pub use view::View;

use crate::event::{Env, Outcome, StopReason, WorkerInfo};
use crate::ids::{AttemptId, EnvId, JobId, NodeId, TaskId, WorkerId};
use crate::policy::PolicyChoice;
use crate::pool::{Charge, Pool};
use crate::shares::Shares;
use crate::small::SmallMap;
use crate::spec::{JobSpec, OnLost, Preempt, TaskSpec};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cluster: the state of everything warpyard knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Number of events applied.
    seq: u64,
    next_job: u64,
    next_env: u64,
    jobs: Jobs,
    workers: Vec<Worker>,
    envs: BTreeMap<EnvId, StoredEnv>,
    policy: PolicyChoice,
    #[serde(default)]
    accounts: accounts::Accounts,
    /// Known speeds, and the target allocation in force.
    #[serde(default)]
    shares: Shares,
    /// Limits in force, and what counts against them.
    #[serde(default)]
    quotas: quotas::Quotas,
    /// Derived state: indexes and sums over the fields above, rebuilt by [`Cluster::restored`].
    #[serde(skip)]
    derived: DerivedState,
    /// Injected bug, for the test of the fault simulator.
    #[cfg(feature = "bugs")]
    #[serde(skip)]
    bug: Option<Bug>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct DerivedState {
    pool: Pool,
    /// Nodes with a ready task.
    ready: SmallMap<NodeId, ()>,
    /// Expected ends of attempts on workers; paused ones have none.
    ends: BTreeSet<(Time, TaskId)>,
    /// Tasks that are paused, or were asked for a change that has yet to happen.
    unsettled: BTreeSet<TaskId>,
    /// Tasks on workers that allow preemption.
    preemptible: BTreeSet<TaskId>,
    /// Dependents of each job.
    waiters: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Tasks in backoff, and the end of it.
    retries: BTreeSet<(Time, TaskId)>,
    /// Ends of claims that were granted for a limited time.
    lapses: BTreeSet<(Time, JobId)>,
    /// Number of attempts on workers.
    active: usize,
    /// Stored environments by content.
    env_ids: BTreeMap<Arc<Env>, EnvId>,
    /// Jobs by user and idempotency key.
    keys: BTreeMap<(String, String), JobId>,
}

/// Worker and the attempts on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Description, as the worker gave it.
    pub info: WorkerInfo,
    /// Whether its lease is valid.
    pub online: bool,
    /// Whether it is drained (starts nothing new).
    pub drained: bool,
    /// Why it is drained, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_reason: Option<String>,
    /// Tasks with an attempt on it.
    #[serde(skip)]
    tasks: BTreeSet<TaskId>,
}

impl Worker {
    /// Tasks with an attempt on it.
    pub fn tasks(&self) -> &BTreeSet<TaskId> {
        &self.tasks
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredEnv {
    vars: Arc<Env>,
    jobs: u32,
}

/// Effects of an event beyond the event itself, for caches to follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Nodes whose ready tasks may have changed.
    pub nodes: SmallVec<[NodeId; 2]>,
    /// Jobs whose last task ended.
    pub finished: SmallVec<[JobId; 1]>,
    /// Whether the policy or its parameters changed.
    pub policy: bool,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskState<'a> {
    /// Waits for other tasks, other jobs, a release, or the end of its backoff.
    Blocked,
    /// Waits for resources only.
    Ready {
        /// Start of the wait.
        since: Time,
    },
    /// Was placed on a worker.
    Placed(&'a Attempt),
    /// Is running.
    Running(&'a Attempt),
    /// Is paused.
    Paused(&'a Attempt),
    /// Was asked to stop.
    Stopping(&'a Attempt, StopReason),
    /// Has ended.
    Done(Outcome),
}

impl TaskState<'_> {
    /// Name used in JSON and tables.
    pub fn word(self) -> &'static str {
        match self {
            TaskState::Blocked => "blocked",
            TaskState::Ready { .. } => "ready",
            TaskState::Placed(_) => "placed",
            TaskState::Running(_) => "running",
            TaskState::Paused(_) => "paused",
            TaskState::Stopping(..) => "stopping",
            TaskState::Done(_) => "done",
        }
    }
}

/// Desired state of an attempt on a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The attempt.
    pub attempt: AttemptId,
    /// Whether its process was reported running: an attempt that has started and that the worker does not know is
    /// lost, not new.
    pub started: bool,
    /// State it should be in.
    pub want: DesiredState,
    /// Grace period between asking it to stop and killing it.
    pub grace: Span,
    /// What happens when the worker is lost.
    pub on_lost: OnLost,
}

/// Desired states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesiredState {
    /// Runs.
    Run,
    /// Is frozen.
    Freeze,
    /// Ends.
    Stop,
    /// Ends by itself at its next progress report (yield).
    Yield,
}

impl Cluster {
    /// Empty cluster with a policy in force.
    pub fn new(policy: PolicyChoice) -> Cluster {
        Cluster { next_job: 1, policy, ..Cluster::default() }
    }

    /// Cluster read from a state snapshot, with its derived state rebuilt.
    pub fn restored(mut self) -> Cluster {
        self.derived = DerivedState::default();
        for (i, worker) in self.workers.iter_mut().enumerate() {
            worker.tasks.clear();
            let WorkerInfo { devices, cpus, memory, .. } = &worker.info;
            let open = worker.online && !worker.drained;
            self.derived.pool.describe(WorkerId(i as u32), devices, *cpus, *memory, open);
        }
        for (&id, env) in &self.envs {
            self.derived.env_ids.insert(env.vars.clone(), id);
        }
        for job in self.jobs.iter() {
            if let Some(until) = job.until {
                self.derived.lapses.insert((until, job.id));
            }
            if let Some(key) = &job.spec.key {
                self.derived.keys.insert((job.user.clone(), key.name.clone()), job.id);
            }
            for after in &job.waiting {
                self.derived.waiters.entry(after.job).or_default().insert(job.id);
            }
            for (n, (node, spec)) in job.nodes.iter().zip(&job.spec.tasks).enumerate() {
                let id = NodeId { job: job.id, node: n as u32 };
                if job.has_ready(id.node) {
                    self.derived.ready.insert(id, ());
                }
                for (&i, live) in &node.live {
                    self.derived.retries.extend(live.not_before.map(|at| (at, id.task(i))));
                    let Some(a) = live.attempt() else { continue };
                    self.workers[a.placement.worker.0 as usize].tasks.insert(id.task(i));
                    self.derived.active += 1;
                    self.derived.pool.charge(&a.placement);
                    if live.is_unsettled() {
                        self.derived.unsettled.insert(id.task(i));
                    }
                    if spec.preempt != Preempt::None {
                        self.derived.preemptible.insert(id.task(i));
                    }
                    if live.is_paused() {
                        self.derived.pool.pause(&a.placement);
                    }
                    self.derived.ends.extend(live.foreseen_end(spec).map(|end| (end, id.task(i))));
                }
            }
        }
        self.recount();
        self.count_quotas();
        self
    }

    /// Recounts what each user's attempts hold.
    fn recount(&mut self) {
        let Cluster { jobs, derived, accounts, .. } = self;
        let attempts = jobs.iter().flat_map(|job| {
            let live = job.nodes.iter().flat_map(|node| node.live.values());
            live.filter_map(|l| Some((job.user.as_str(), l.attempt()?, l.is_paused())))
        });
        accounts.recount(&derived.pool, attempts);
    }

    /// Cluster as it would be if a node had another specification, for what-if questions.
    pub fn supposing(&self, node: NodeId, task: TaskSpec) -> Cluster {
        let mut other = self.clone();
        if let Some(job) = other.jobs.get_mut(node.job) {
            let mut spec = JobSpec::clone(&job.spec);
            spec.tasks[node.node as usize] = task;
            job.spec = Arc::new(spec);
        }
        other.restored()
    }

    /// Number of events applied.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Id of the next job.
    pub fn next_job(&self) -> JobId {
        JobId(self.next_job)
    }

    /// All jobs in memory.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Job with this id.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// All workers, by id.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> + '_ {
        self.workers.iter().enumerate().map(|(i, w)| (WorkerId(i as u32), w))
    }

    /// Worker with this id.
    pub fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(id.0 as usize)
    }

    /// Id of the worker with this name.
    pub fn worker_named(&self, name: &str) -> Option<WorkerId> {
        self.workers().find(|(_, w)| w.info.name == name).map(|(id, _)| id)
    }

    /// The policy in force.
    pub fn policy(&self) -> &PolicyChoice {
        &self.policy
    }

    /// Variables of a stored environment.
    pub fn env(&self, id: EnvId) -> Option<&Arc<Env>> {
        self.envs.get(&id).map(|e| &e.vars)
    }

    /// Device pool: capacity and allocations.
    pub fn pool(&self) -> &Pool {
        &self.derived.pool
    }

    /// State of a task.
    pub fn state(&self, task: TaskId) -> Option<TaskState<'_>> {
        let job = self.job(task.job)?;
        let (node, _) = job.node(task.node)?;
        let waits = job.held || !job.waiting.is_empty() || node.unmet > 0 || node.held.contains(task.index);
        if let Some(live) = node.live.get(&task.index) {
            return Some(match &live.phase {
                Phase::Ready { .. } if waits || live.not_before.is_some() => TaskState::Blocked,
                Phase::Ready { since } => TaskState::Ready { since: *since },
                Phase::Placed(a) => TaskState::Placed(a),
                Phase::Running(a) => TaskState::Running(a),
                Phase::Paused(a) => TaskState::Paused(a),
                Phase::Stopping { attempt, why, .. } => TaskState::Stopping(attempt, *why),
            });
        }
        if node.fresh.contains(task.index) || node.held.contains(task.index) {
            return Some(if waits {
                TaskState::Blocked
            } else {
                TaskState::Ready { since: node.ready_since }
            });
        }
        node.done.of(task.index).map(TaskState::Done)
    }

    /// First task whose backoff ends, and when.
    pub fn next_retry(&self) -> Option<(Time, TaskId)> {
        self.derived.retries.first().copied()
    }

    /// First claim to end, and when.
    pub fn next_lapse(&self) -> Option<(Time, JobId)> {
        self.derived.lapses.first().copied()
    }

    /// Desired state of all attempts on a worker, in order of attempt.
    pub fn desired(&self, worker: WorkerId) -> impl Iterator<Item = Desired> {
        let tasks = self.worker(worker).into_iter().flat_map(|w| &w.tasks);
        tasks.map(|&task| {
            let job = self.job(task.job).expect("a worker's task has a job");
            let live = &job.nodes[task.node as usize].live[&task.index];
            let spec = &job.spec.tasks[task.node as usize];
            let want = match &live.phase {
                Phase::Stopping { why: StopReason::Requeued, .. } if spec.preempt == Preempt::Yield => {
                    DesiredState::Yield
                }
                Phase::Stopping { .. } => DesiredState::Stop,
                Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) if a.pause.is_some() => {
                    DesiredState::Freeze
                }
                _ => DesiredState::Run,
            };
            let started = live.attempt().is_some_and(|a| a.started.is_some());
            let killed = matches!(live.phase, Phase::Stopping { why: StopReason::Killed, .. });
            let grace = if killed { Span::ZERO } else { spec.grace };
            let attempt = task.attempt(live.attempts);
            Desired { attempt, started, want, grace, on_lost: spec.on_lost }
        })
    }

    /// Known speeds, and the target allocation in force.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Time a task has had devices of a type.
    fn had(&self, task: TaskId, kind: &str, now: Time) -> Span {
        let job = self.job(task.job).and_then(|job| job.nodes.get(task.node as usize));
        let Some(live) = job.and_then(|node| node.live.get(&task.index)) else { return Span::ZERO };
        let before = live.had.get(&kind.to_ascii_lowercase()).copied().unwrap_or_default();
        match self.kind_given(task) {
            Some(given) if given.eq_ignore_ascii_case(kind) => before + live.running_time(now),
            _ => before,
        }
    }

    /// Time a task has shared devices of a type with another, and the part of it lost to interference.
    fn shared(&self, task: TaskId, kind: &str, now: Time) -> SharedTime {
        let Some(live) = self.live(task) else { return SharedTime::default() };
        let kind = kind.to_ascii_lowercase();
        let mut shared = live.shared.get(&kind).copied().unwrap_or_default();
        if let Some((other, since)) = self.shares_with(task)
            && self.kind_given(task).is_some_and(|given| given.eq_ignore_ascii_case(&kind))
        {
            let time = now.since(since);
            shared += SharedTime { time, lost: self.lost_beside(task, other, &kind, time) };
        }
        shared
    }

    /// Part of a time beside another task that was lost to interference, as far as speeds are known.
    fn lost_beside(&self, task: TaskId, other: TaskId, kind: &str, time: Span) -> Span {
        let kept = self.kept_beside(task, other, kind).unwrap_or(1.0);
        Span::from_secs(time.secs() * (1.0 - kept).max(0.0))
    }

    /// Fraction of its speed that a task keeps beside another on a type, if known.
    fn kept_beside(&self, task: TaskId, other: TaskId, kind: &str) -> Option<f64> {
        let spec = |task: TaskId| self.job(task.job).and_then(|job| Some(job.node(task.node)?.1));
        let (spec, other) = (spec(task)?, spec(other)?);
        let (profile, other) = (spec.profile.as_ref()?, other.profile.as_ref()?);
        self.shares.kept_beside(profile, other, spec.needs.gpus, kind)
    }

    /// Task that is co-located with this one.
    fn beside(&self, task: TaskId) -> Option<TaskId> {
        let placement = &self.live(task)?.attempt()?.placement;
        let &(index, charge) = placement.devices.first()?;
        if charge != Charge::Beside {
            return None;
        }
        let here = |other: &TaskId| {
            let attempt = self.live(*other).and_then(|live| live.attempt());
            attempt.is_some_and(|a| a.placement.devices.contains(&(index, Charge::Beside)))
        };
        self.worker(placement.worker)?.tasks.iter().copied().find(|other| *other != task && here(other))
    }

    /// Task that runs on the same devices as this one, and since when both run.
    fn shares_with(&self, task: TaskId) -> Option<(TaskId, Time)> {
        let other = self.beside(task)?;
        let since = |task: TaskId| self.live(task)?.running_since();
        Some((other, since(task)?.max(since(other)?)))
    }

    fn live(&self, task: TaskId) -> Option<&StartedTask> {
        Some(self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?)
    }

    /// Type of the first device a task has.
    fn kind_given(&self, task: TaskId) -> Option<&str> {
        let live = self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?;
        let placement = &live.attempt()?.placement;
        let info = &self.worker(placement.worker)?.info;
        let (index, _) = placement.devices.first()?;
        Some(&info.devices[usize::from(*index)].kind)
    }

    /// Device memory a task requested per device; none if it requested whole devices.
    fn requested_memory(&self, task: TaskId) -> Option<u64> {
        self.job(task.job)?.node(task.node)?.1.needs.gpu_memory
    }

    /// Devices on which an attempt is charged more memory than its task requested, because it uses more: index and
    /// bytes charged.
    pub fn over_request(&self, task: TaskId) -> impl Iterator<Item = (u16, u64)> + '_ {
        let requested = self.requested_memory(task).unwrap_or(u64::MAX);
        let placed = self.live(task).and_then(StartedTask::attempt);
        placed.into_iter().flat_map(|a| &a.placement.devices).filter_map(
            move |&(device, charge)| match charge {
                Charge::Share(bytes) if bytes > requested => Some((device, bytes)),
                _ => None,
            },
        )
    }

    /// View of the cluster, for policies.
    pub fn view(&self) -> View<'_> {
        View::of(self)
    }

    /// Task of an attempt, if the attempt is its latest (fencing) and on a worker.
    fn current(&self, attempt: AttemptId) -> Option<&StartedTask> {
        let task = attempt.task;
        let live = self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?;
        let in_force = live.attempts == attempt.number;
        #[cfg(feature = "bugs")]
        let in_force = in_force || self.skips_the_fence();
        (in_force && live.attempt().is_some()).then_some(live)
    }
}
