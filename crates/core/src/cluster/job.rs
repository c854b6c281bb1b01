//! A job in memory: its nodes and the progress of their tasks. Tasks that never started and tasks that have ended are
//! kept as ranges; only those in between have an entry of their own.

use crate::event::{Outcome, RequestedBy, StopReason};
use crate::ids::{JobId, NodeId, TaskId};
use crate::index::Ranges;
use crate::pool::Placement;
use crate::small::SmallMap;
use crate::spec::{AfterJob, Boundary, DependencyCondition, JobSpec, TaskSpec};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Job and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Job id.
    pub id: JobId,
    /// Submitting user.
    pub user: String,
    /// Time of submission.
    pub submitted: Time,
    /// Specification.
    pub spec: Arc<JobSpec>,
    /// Priority, as submitted or as changed since.
    pub priority: i64,
    /// Whether it is held (starts nothing new).
    pub held: bool,
    /// Jobs it still depends on.
    pub waiting: Vec<AfterJob>,
    /// Nodes, as in the specification.
    pub nodes: SmallVec<[Node; 1]>,
    /// End of its last task.
    pub finished: Option<Time>,
    /// End of a granted claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Dependents of each node; empty if no node has any.
    #[serde(skip)]
    pub(super) children: Vec<Vec<(u32, DependencyCondition)>>,
    /// Number of nodes that have not ended.
    #[serde(skip)]
    pub(super) open: u32,
}

/// Node of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Number of dependencies that have not ended as required.
    pub unmet: u32,
    /// Time at which the last of them did.
    pub ready_since: Time,
    /// Tasks that never started and are not held.
    pub fresh: Ranges,
    /// Tasks that are held one by one. Held tasks that never started are here and not in `fresh`, so that both stay
    /// ranges.
    #[serde(default, skip_serializing_if = "Ranges::is_empty")]
    pub held: Ranges,
    /// Tasks that started at least once and have not ended.
    pub live: SmallMap<u32, Box<StartedTask>>,
    /// Tasks that have ended.
    pub done: Outcomes,
    /// Dependency that ended the wrong way, for a skipped node.
    pub skipped_by: Option<Cause>,
    /// Highest attempt number used.
    pub top: u32,
    /// Attempt number that tasks in `fresh` count from: above 0 once the node was retried.
    pub base: u32,
    /// Number of tasks on a worker.
    #[serde(skip)]
    pub(super) active: u32,
    /// Tasks in `live` that are ready: neither held nor in backoff.
    #[serde(skip)]
    pub(super) again: BTreeSet<u32>,
}

/// Positions of ended tasks by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outcomes(pub SmallMap<Outcome, Ranges>);

impl Outcomes {
    /// Number of tasks with this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.0.get(&outcome).map_or(0, Ranges::len)
    }

    /// Number of ended tasks.
    pub fn total(&self) -> u64 {
        self.0.values().map(Ranges::len).sum()
    }

    /// Outcome of the task at a position.
    pub fn of(&self, index: u32) -> Option<Outcome> {
        self.0.iter().find(|(_, at)| at.contains(index)).map(|(o, _)| *o)
    }

    pub(super) fn add(&mut self, outcome: Outcome, range: Range<u32>) {
        self.0.or_default(outcome).insert_range(range);
    }

    /// Removes positions, whatever their outcome.
    pub(super) fn take(&mut self, range: &Range<u32>) {
        for outcome in Outcome::ALL {
            let Some(ended) = self.0.get_mut(&outcome) else { continue };
            ended.take_range(range.clone());
            if ended.is_empty() {
                self.0.remove(&outcome);
            }
        }
    }
}

/// Cause of a skip: a dependency that ended the wrong way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A node of the same job.
    Node(u32),
    /// Another job.
    Job(JobId),
}

/// Task that started at least once and has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedTask {
    /// Number of its latest attempt.
    pub attempts: u32,
    /// Number of failed attempts.
    pub failures: u32,
    /// Number of lost attempts.
    pub losses: u32,
    /// Running time of earlier attempts.
    pub ran: Span,
    /// Running time of earlier attempts that saved their work when they were preempted.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub saved: Span,
    /// Time earlier attempts had devices, by type in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub had: BTreeMap<String, Span>,
    /// Time devices were shared with another task, by type in lower case, up to the last separation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, SharedTime>,
    /// Steps it has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// End of its backoff after repeated failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Phase of its life.
    pub phase: Phase,
}

/// Time a task shared its devices with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedTime {
    /// Length of the time.
    pub time: Span,
    /// Part of it lost to interference, as far as speeds were known.
    pub lost: Span,
}

impl std::ops::AddAssign for SharedTime {
    fn add_assign(&mut self, more: SharedTime) {
        self.time += more.time;
        self.lost += more.lost;
    }
}

/// Phase of a task between its first start and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for another attempt.
    Ready {
        /// Start of the wait.
        since: Time,
    },
    /// Was placed; its process is not reported running yet.
    Placed(Attempt),
    /// Is running.
    Running(Attempt),
    /// Is paused.
    Paused(Attempt),
    /// Was asked to stop.
    Stopping {
        /// The attempt.
        attempt: Attempt,
        /// Reason for stopping it.
        why: StopReason,
        /// Whether it was paused when it was asked.
        paused: bool,
    },
}

/// Attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its placement.
    pub placement: Placement,
    /// Time of its placement.
    pub placed: Time,
    /// Start of its process.
    pub started: Option<Time>,
    /// Running time up to `since`.
    pub ran: Span,
    /// Time it last started running or pausing.
    pub since: Time,
    /// Requester of a pause, if one is requested or in effect.
    pub pause: Option<RequestedBy>,
    /// Boundary of its work at which it pauses.
    #[serde(default, skip_serializing_if = "Boundary::is_any")]
    pub pause_at: Boundary,
}

impl Attempt {
    pub(super) fn asked_to_pause(self, by: RequestedBy, at: Boundary) -> Attempt {
        Attempt { pause: Some(by), pause_at: at, ..self }
    }
}

impl StartedTask {
    /// Task about to start for the first time.
    pub(super) fn new(attempts: u32, phase: Phase) -> StartedTask {
        let (ran, saved, had, shared, steps, not_before) = Default::default();
        StartedTask { attempts, failures: 0, losses: 0, ran, saved, had, shared, steps, not_before, phase }
    }

    /// Attempt on a worker, if there is one.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.phase {
            Phase::Ready { .. } => None,
            Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) | Phase::Stopping { attempt: a, .. } => {
                Some(a)
            }
        }
    }

    pub(super) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        match &mut self.phase {
            Phase::Ready { .. } => None,
            Phase::Placed(a) | Phase::Running(a) | Phase::Paused(a) | Phase::Stopping { attempt: a, .. } => {
                Some(a)
            }
        }
    }

    /// Whether its process is paused and stays so: an attempt that was asked to resume needs its slot from then on.
    pub fn is_paused(&self) -> bool {
        match &self.phase {
            Phase::Paused(a) => a.pause.is_some(),
            Phase::Stopping { paused, .. } => *paused,
            _ => false,
        }
    }

    /// Whether it is paused, or was asked for a change that has yet to happen.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. }) || self.attempt().is_some_and(|a| a.pause.is_some())
    }

    /// Expected end of its attempt, unless it is paused.
    pub(super) fn foreseen_end(&self, spec: &TaskSpec) -> Option<Time> {
        let left = spec.expected().unwrap_or(Span::UNKNOWN) - self.saved;
        self.attempt().filter(|_| !self.is_paused()).map(|a| a.since + (left - a.ran))
    }

    /// Time since which its process has been running without a pause, if it runs.
    pub(super) fn running_since(&self) -> Option<Time> {
        match &self.phase {
            Phase::Running(a) | Phase::Stopping { attempt: a, paused: false, .. } => {
                a.started.is_some().then_some(a.since)
            }
            _ => None,
        }
    }

    /// Running time of the current attempt.
    pub fn running_time(&self, now: Time) -> Span {
        match &self.phase {
            Phase::Running(a) | Phase::Stopping { attempt: a, paused: false, .. } if a.started.is_some() => {
                a.ran + now.since(a.since)
            }
            _ => self.attempt().map_or(Span::ZERO, |a| a.ran),
        }
    }
}

impl Node {
    pub(super) fn new(spec: &TaskSpec, now: Time) -> Node {
        Node {
            unmet: spec.after.len() as u32,
            ready_since: now,
            fresh: Ranges::from(0..spec.len()),
            held: Ranges::default(),
            live: SmallMap::new(),
            done: Outcomes::default(),
            skipped_by: None,
            top: 0,
            base: 0,
            active: 0,
            again: BTreeSet::new(),
        }
    }

    /// Whether all its tasks have ended.
    pub fn is_done(&self) -> bool {
        self.fresh.is_empty() && self.live.is_empty() && self.held.is_empty()
    }

    /// Number of tasks that have not ended and are on no worker.
    pub fn waiting(&self) -> u64 {
        self.fresh.len() + self.held_fresh().len() + self.live.len() as u64 - u64::from(self.active)
    }

    /// Held tasks that never started.
    pub fn held_fresh(&self) -> Ranges {
        let mut held = self.held.clone();
        for &i in self.live.keys().filter(|_| !self.held.is_empty()) {
            held.remove(i);
        }
        held
    }

    /// First task that has not ended: one that never started, or else one that did.
    pub fn first_open(&self) -> Option<u32> {
        self.fresh.first().or_else(|| self.live.keys().next().copied()).or_else(|| self.held.first())
    }

    /// Entries of started tasks in a range.
    pub(super) fn live_within(&self, range: Range<u32>) -> impl Iterator<Item = (u32, &StartedTask)> + '_ {
        let one = (range.len() == 1).then(|| self.live.get(&range.start).map(|live| (range.start, &**live)));
        let many = one.is_none().then(|| self.live.iter().filter(move |(i, _)| range.contains(i)));
        one.flatten().into_iter().chain(many.into_iter().flatten().map(|(&i, live)| (i, &**live)))
    }

    /// Marks a started task on no worker as ready, unless it is held or in backoff.
    pub(super) fn may_try_again(&mut self, index: u32) {
        let waits = |live: &StartedTask| live.attempt().is_none() && live.not_before.is_none();
        if !self.held.contains(index) && self.live.get(&index).is_some_and(|live| waits(live)) {
            self.again.insert(index);
        }
    }

    /// Number of tasks on a worker.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Whether it ended as a dependency requires; `None` while it has not ended.
    pub fn satisfies(&self, on: DependencyCondition) -> Option<bool> {
        self.is_done().then(|| {
            let ok = self.done.total() == self.done.count(Outcome::Succeeded);
            match on {
                DependencyCondition::Any => true,
                DependencyCondition::Ok => ok,
                DependencyCondition::Fail => !ok && self.done.count(Outcome::Cancelled) == 0,
            }
        })
    }
}

impl Job {
    pub(super) fn new(id: JobId, user: String, submitted: Time, spec: Arc<JobSpec>) -> Job {
        let nodes = spec.tasks.iter().map(|t| Node::new(t, submitted)).collect();
        let (priority, waiting) = (spec.priority, spec.after.clone());
        let mut job = Job {
            id,
            user,
            submitted,
            spec,
            priority,
            held: false,
            waiting,
            nodes,
            finished: None,
            until: None,
            children: Vec::new(),
            open: 0,
        };
        job.link();
        job
    }

    /// Rebuilds the derived fields.
    pub(super) fn link(&mut self) {
        for node in &mut self.nodes {
            node.active = node.live.values().filter(|live| live.attempt().is_some()).count() as u32;
            node.again.clear();
            for i in node.live.keys().copied().collect::<Vec<_>>() {
                node.may_try_again(i);
            }
        }
        self.open = self.nodes.iter().filter(|n| !n.is_done()).count() as u32;
        if self.spec.tasks.iter().all(|t| t.after.is_empty()) {
            return;
        }
        self.children = vec![Vec::new(); self.nodes.len()];
        for (i, task) in self.spec.tasks.iter().enumerate() {
            for dep in &task.after {
                self.children[dep.node as usize].push((i as u32, dep.on));
            }
        }
    }

    /// Outcome of the job as a whole; `None` while it has not ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.finished?;
        let count = |o| self.nodes.iter().map(|n| n.done.count(o)).sum::<u64>();
        let worst = [Outcome::Failed, Outcome::TimedOut, Outcome::Lost, Outcome::Cancelled];
        let skipped = || count(Outcome::Succeeded) == 0 && count(Outcome::Skipped) > 0;
        Some(
            worst
                .into_iter()
                .find(|&o| count(o) > 0)
                .unwrap_or_else(|| if skipped() { Outcome::Skipped } else { Outcome::Succeeded }),
        )
    }

    /// Whether it ended as a dependency requires; `None` while it has not ended.
    pub fn satisfies(&self, on: DependencyCondition) -> Option<bool> {
        let outcome = self.outcome()?;
        Some(match on {
            DependencyCondition::Any => true,
            DependencyCondition::Ok => outcome == Outcome::Succeeded,
            DependencyCondition::Fail => !matches!(outcome, Outcome::Succeeded | Outcome::Cancelled),
        })
    }

    /// Node and its specification.
    pub fn node(&self, node: u32) -> Option<(&Node, &TaskSpec)> {
        Some((self.nodes.get(node as usize)?, &self.spec.tasks[node as usize]))
    }

    /// Ready tasks of a node: those to retry one by one, then the fresh ones together.
    pub(super) fn ready(&self, node: u32) -> impl Iterator<Item = ReadyTask<'_>> + '_ {
        let (state, spec) = self.node(node).expect("the node is one of the job's");
        let room = self.room(node);
        let id = NodeId { job: self.id, node };
        let make = move |task: TaskId, count: u32, since: Time, attempts: u32| ReadyTask {
            task,
            count,
            room,
            since,
            attempts,
            ran: Span::ZERO,
            saved: Span::ZERO,
            job: self,
            spec,
        };
        let again = state.again.iter().map(move |&i| {
            let live = &state.live[&i];
            let Phase::Ready { since } = live.phase else {
                unreachable!("only tasks that wait are to be tried again")
            };
            let StartedTask { attempts, ran, saved, .. } = **live;
            ReadyTask { ran, saved, ..make(id.task(i), 1, since, attempts) }
        });
        let fresh = state
            .fresh
            .first()
            .map(move |i| make(id.task(i), state.fresh.len() as u32, state.ready_since, state.base));
        again.chain(fresh).filter(move |_| room > 0)
    }

    /// Task on a worker in the form of a ready one, so that orders can rank it: as if it waited from now on, with its
    /// work saved.
    pub(super) fn under_way(&self, task: TaskId, now: Time) -> Option<PlacedTask<'_>> {
        let (node, spec) = self.node(task.node)?;
        let live = node.live.get(&task.index)?;
        let attempt = live.attempt()?;
        let ran = live.running_time(now);
        let as_ready = ReadyTask {
            task,
            count: 1,
            room: 1,
            since: attempt.placed,
            attempts: live.attempts,
            ran: live.ran + ran,
            saved: live.saved + ran,
            job: self,
            spec,
        };
        Some(PlacedTask { as_ready, attempt, phase: &live.phase })
    }

    /// Whether any task of the node is ready.
    pub(super) fn has_ready(&self, node: u32) -> bool {
        let state = &self.nodes[node as usize];
        !(state.again.is_empty() && state.fresh.is_empty()) && self.room(node) > 0
    }

    /// How many more tasks of a node may be on workers; 0 while the node is blocked.
    fn room(&self, node: u32) -> u32 {
        let (state, spec) = self.node(node).expect("the node is one of the job's");
        let open = !self.held && self.waiting.is_empty() && state.unmet == 0;
        if open { spec.at_once().map_or(u32::MAX, |n| n.saturating_sub(state.active)) } else { 0 }
    }
}

/// Task that is on a worker.
#[derive(Clone, Copy, Debug)]
pub struct PlacedTask<'a> {
    /// The task as if it were ready.
    pub as_ready: ReadyTask<'a>,
    /// Its attempt.
    pub attempt: &'a Attempt,
    /// Its phase.
    pub phase: &'a Phase,
}

/// Ready tasks: one to retry, or all tasks of a node that never started.
#[derive(Clone, Copy, Debug)]
pub struct ReadyTask<'a> {
    /// First of the tasks.
    pub task: TaskId,
    /// Number of tasks.
    pub count: u32,
    /// How many more tasks of the node may be on workers at once.
    pub room: u32,
    /// Start of the wait.
    pub since: Time,
    /// Number of its latest attempt.
    pub attempts: u32,
    /// Running time of earlier attempts.
    pub ran: Span,
    /// Running time of earlier attempts that saved their work.
    pub saved: Span,
    /// The job.
    pub job: &'a Job,
    /// Specification of the node.
    pub spec: &'a TaskSpec,
}

impl ReadyTask<'_> {
    /// Expected remaining run time; a year in all if nothing is known.
    pub fn expected(&self) -> Span {
        self.spec.expected().unwrap_or(Span::UNKNOWN) - self.saved
    }

    /// Maximum run time; a year if none is set.
    pub fn timeout(&self) -> Span {
        self.spec.timeout.unwrap_or(Span::UNKNOWN)
    }
}
