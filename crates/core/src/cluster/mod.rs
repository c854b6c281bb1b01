//! The state, all of it, and the one thing that changes it.
//!
//! [`Cluster::decide`] turns a command into events or refuses, [`Cluster::admit`] turns a plan into events after
//! checking it, [`Cluster::apply`] makes an event so. The first two only look.

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

/// Everything warpyard knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// How many events made it what it is.
    seq: u64,
    next_job: u64,
    next_env: u64,
    jobs: Jobs,
    workers: Vec<Worker>,
    envs: BTreeMap<EnvId, StoredEnv>,
    policy: PolicyChoice,
    #[serde(default)]
    accounts: accounts::Accounts,
    /// Speeds, and the target in force.
    #[serde(default)]
    shares: Shares,
    /// The limits in force, and what they are held against.
    #[serde(default)]
    quotas: quotas::Quotas,
    /// Everything below follows from what is above.
    #[serde(skip)]
    derived: DerivedState,
    /// The mistake made on purpose, in a build that has such.
    #[cfg(feature = "bugs")]
    #[serde(skip)]
    bug: Option<Bug>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct DerivedState {
    pool: Pool,
    /// Nodes with a task that could start, were there room.
    ready: SmallMap<NodeId, ()>,
    /// When attempts on workers are expected to end; those that stand still are not among them.
    ends: BTreeSet<(Time, TaskId)>,
    /// Attempts that stand still, or were asked for something that has yet to happen to them.
    unsettled: BTreeSet<TaskId>,
    /// Attempts of tasks that allow to be made to give way.
    preemptible: BTreeSet<TaskId>,
    /// Who waits for each job.
    waiters: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Tasks whose next try was put off, and until when.
    retries: BTreeSet<(Time, TaskId)>,
    /// When claims end that were granted for a time.
    lapses: BTreeSet<(Time, JobId)>,
    /// How many attempts are on workers.
    active: usize,
    /// Kept environments by content.
    env_ids: BTreeMap<Arc<Env>, EnvId>,
    /// Jobs by user and the name of the key they were submitted with.
    keys: BTreeMap<(String, String), JobId>,
}

/// A worker and what is on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// What it says of itself.
    pub info: WorkerInfo,
    /// Whether its lease holds.
    pub online: bool,
    /// Whether it starts nothing new.
    pub drained: bool,
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

/// What else changed when an event was applied, for caches to follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Nodes whose ready tasks may be others now.
    pub nodes: SmallVec<[NodeId; 2]>,
    /// Jobs whose last task ended.
    pub finished: SmallVec<[JobId; 1]>,
    /// Whether another policy (or other parameters) is in force.
    pub policy: bool,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskState<'a> {
    /// Waits for other tasks, other jobs, or a release by hand.
    Blocked,
    /// Waits for room only.
    Ready {
        /// Since when.
        since: Time,
    },
    /// Was given a place.
    Placed(&'a Attempt),
    /// Runs.
    Running(&'a Attempt),
    /// Stands still.
    Paused(&'a Attempt),
    /// Was asked to end.
    Stopping(&'a Attempt, StopReason),
    /// Is over.
    Done(Outcome),
}

impl TaskState<'_> {
    /// The word used in JSON and tables.
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

/// What a worker should have on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The attempt.
    pub attempt: AttemptId,
    /// Whether its process was seen running: if the worker knows nothing of it then, it is lost, not new.
    pub started: bool,
    /// What is wanted of it.
    pub want: DesiredState,
    /// Between asking it to end and ending it.
    pub grace: Span,
    /// What happens when the worker is lost.
    pub on_lost: OnLost,
}

/// What is wanted of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesiredState {
    /// That it runs.
    Run,
    /// That it stands still.
    Freeze,
    /// That it ends.
    Stop,
    /// That it ends by itself at a moment good for it; it is told when it says how far it is.
    Yield,
}

impl Cluster {
    /// Nothing at all, with a policy in force.
    pub fn new(policy: PolicyChoice) -> Cluster {
        Cluster { next_job: 1, policy, ..Cluster::default() }
    }

    /// A cluster read from a snapshot, with all that is derived rebuilt.
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

    /// Counts again what each user has.
    fn recount(&mut self) {
        let Cluster { jobs, derived, accounts, .. } = self;
        let attempts = jobs.iter().flat_map(|job| {
            let live = job.nodes.iter().flat_map(|node| node.live.values());
            live.filter_map(|l| Some((job.user.as_str(), l.attempt()?, l.is_paused())))
        });
        accounts.recount(&derived.pool, attempts);
    }

    /// The cluster as it would be had a node asked for something else, for trying what that would change.
    pub fn supposing(&self, node: NodeId, task: TaskSpec) -> Cluster {
        let mut other = self.clone();
        if let Some(job) = other.jobs.get_mut(node.job) {
            let mut spec = JobSpec::clone(&job.spec);
            spec.tasks[node.node as usize] = task;
            job.spec = Arc::new(spec);
        }
        other.restored()
    }

    /// How many events were applied.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The number the next job gets.
    pub fn next_job(&self) -> JobId {
        JobId(self.next_job)
    }

    /// All jobs in memory.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// One job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// All workers, by number.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> + '_ {
        self.workers.iter().enumerate().map(|(i, w)| (WorkerId(i as u32), w))
    }

    /// One worker.
    pub fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(id.0 as usize)
    }

    /// The worker of that name.
    pub fn worker_named(&self, name: &str) -> Option<WorkerId> {
        self.workers().find(|(_, w)| w.info.name == name).map(|(id, _)| id)
    }

    /// The policy in force.
    pub fn policy(&self) -> &PolicyChoice {
        &self.policy
    }

    /// The variables of a kept environment.
    pub fn env(&self, id: EnvId) -> Option<&Arc<Env>> {
        self.envs.get(&id).map(|e| &e.vars)
    }

    /// What there is to give and what is given.
    pub fn pool(&self) -> &Pool {
        &self.derived.pool
    }

    /// Where a task stands.
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

    /// The task put off that may be tried again first, and when.
    pub fn next_retry(&self) -> Option<(Time, TaskId)> {
        self.derived.retries.first().copied()
    }

    /// The claim that ends first, and when.
    pub fn next_lapse(&self) -> Option<(Time, JobId)> {
        self.derived.lapses.first().copied()
    }

    /// What a worker should have on it, in order of attempt.
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

    /// Speeds, and the target in force.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// How long a task has had devices of a type.
    fn had(&self, task: TaskId, kind: &str, now: Time) -> Span {
        let job = self.job(task.job).and_then(|job| job.nodes.get(task.node as usize));
        let Some(live) = job.and_then(|node| node.live.get(&task.index)) else { return Span::ZERO };
        let before = live.had.get(&kind.to_ascii_lowercase()).copied().unwrap_or_default();
        match self.kind_given(task) {
            Some(given) if given.eq_ignore_ascii_case(kind) => before + live.running_time(now),
            _ => before,
        }
    }

    /// How long a task has shared devices of a type with others, and how much of that it would have saved alone.
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

    /// How much of a while beside another a task would have saved alone, as far as anyone knows.
    fn lost_beside(&self, task: TaskId, other: TaskId, kind: &str, time: Span) -> Span {
        let kept = self.kept_beside(task, other, kind).unwrap_or(1.0);
        Span::from_secs(time.secs() * (1.0 - kept).max(0.0))
    }

    /// The part of its speed that a task keeps on a type beside another, where anyone knows.
    fn kept_beside(&self, task: TaskId, other: TaskId, kind: &str) -> Option<f64> {
        let spec = |task: TaskId| self.job(task.job).and_then(|job| Some(job.node(task.node)?.1));
        let (spec, other) = (spec(task)?, spec(other)?);
        let (profile, other) = (spec.profile.as_ref()?, other.profile.as_ref()?);
        self.shares.kept_beside(profile, other, spec.needs.gpus, kind)
    }

    /// The other task that was given a task's devices beside it.
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

    /// The other task that runs on a task's devices while it runs there itself, and since when both do.
    fn shares_with(&self, task: TaskId) -> Option<(TaskId, Time)> {
        let other = self.beside(task)?;
        let since = |task: TaskId| self.live(task)?.running_since();
        Some((other, since(task)?.max(since(other)?)))
    }

    fn live(&self, task: TaskId) -> Option<&StartedTask> {
        Some(self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?)
    }

    /// The type of the (first) device a task has.
    fn kind_given(&self, task: TaskId) -> Option<&str> {
        let live = self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?;
        let placement = &live.attempt()?.placement;
        let info = &self.worker(placement.worker)?.info;
        let (index, _) = placement.devices.first()?;
        Some(&info.devices[usize::from(*index)].kind)
    }

    /// Device memory a task requested per device; none where it requested whole devices.
    fn requested_memory(&self, task: TaskId) -> Option<u64> {
        self.job(task.job)?.node(task.node)?.1.needs.gpu_memory
    }

    /// The devices on which an attempt is charged more memory than its task requested, because it uses more: by index,
    /// with the bytes charged.
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

    /// What policies see of it.
    pub fn view(&self) -> View<'_> {
        View::of(self)
    }

    /// Whether an attempt is the latest of its task and on that worker; if so, its entry.
    fn current(&self, attempt: AttemptId) -> Option<&StartedTask> {
        let task = attempt.task;
        let live = self.job(task.job)?.nodes.get(task.node as usize)?.live.get(&task.index)?;
        let in_force = live.attempts == attempt.number;
        #[cfg(feature = "bugs")]
        let in_force = in_force || self.skips_the_fence();
        (in_force && live.attempt().is_some()).then_some(live)
    }
}
