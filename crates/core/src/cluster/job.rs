//! A job in memory: its nodes, and how far each of their tasks has come. Tasks that never started and tasks that are
//! over are kept as ranges; only those in between have an entry of their own.

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

/// A job and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Who submitted it.
    pub user: String,
    /// When.
    pub submitted: Time,
    /// What it asks for.
    pub spec: Arc<JobSpec>,
    /// As submitted, or as changed since.
    pub priority: i64,
    /// Whether it starts nothing new.
    pub held: bool,
    /// Jobs it still waits for.
    pub waiting: Vec<AfterJob>,
    /// Its nodes, as in the specification.
    pub nodes: SmallVec<[Node; 1]>,
    /// When its last task ended.
    pub finished: Option<Time>,
    /// Until when a claim lasts, once it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Which nodes wait for each node; empty where none does.
    #[serde(skip)]
    pub(super) children: Vec<Vec<(u32, DependencyCondition)>>,
    /// How many nodes have not ended.
    #[serde(skip)]
    pub(super) open: u32,
}

/// One node of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// How many of its dependencies have not ended the right way yet.
    pub unmet: u32,
    /// When the last of them did.
    pub ready_since: Time,
    /// Tasks that never started and may.
    pub fresh: Ranges,
    /// Tasks that are held one by one. Those that never started are here and not in `fresh`, so that both stay ranges.
    #[serde(default, skip_serializing_if = "Ranges::is_empty")]
    pub held: Ranges,
    /// Tasks that started at least once and are not over.
    pub live: SmallMap<u32, Box<StartedTask>>,
    /// Tasks that are over.
    pub done: Outcomes,
    /// What ended the wrong way, for a node that was skipped.
    pub skipped_by: Option<Cause>,
    /// The highest attempt number used.
    pub top: u32,
    /// The attempt number after which tasks in `fresh` begin to count: above 0 once the node was retried.
    pub base: u32,
    /// How many tasks are on a worker.
    #[serde(skip)]
    pub(super) active: u32,
    /// Tasks in `live` that may be tried again now: neither held nor put off.
    #[serde(skip)]
    pub(super) again: BTreeSet<u32>,
}

/// Positions by outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outcomes(pub SmallMap<Outcome, Ranges>);

impl Outcomes {
    /// How many ended so.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.0.get(&outcome).map_or(0, Ranges::len)
    }

    /// How many ended.
    pub fn total(&self) -> u64 {
        self.0.values().map(Ranges::len).sum()
    }

    /// How one ended.
    pub fn of(&self, index: u32) -> Option<Outcome> {
        self.0.iter().find(|(_, at)| at.contains(index)).map(|(o, _)| *o)
    }

    pub(super) fn add(&mut self, outcome: Outcome, range: Range<u32>) {
        self.0.or_default(outcome).insert_range(range);
    }

    /// Takes positions out, however they ended.
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

/// What ended the wrong way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A node of the same job.
    Node(u32),
    /// Another job.
    Job(JobId),
}

/// A task that started at least once and is not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedTask {
    /// The number of its latest attempt.
    pub attempts: u32,
    /// How many attempts failed.
    pub failures: u32,
    /// How many attempts were lost.
    pub losses: u32,
    /// Running time of all earlier attempts.
    pub ran: Span,
    /// Running time of those that saved what they had done, because they were asked to give way.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub saved: Span,
    /// How long earlier attempts had devices, by type in small letters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub had: BTreeMap<String, Span>,
    /// How long of all that it shared them with another, by type in small letters, up to when they last parted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, SharedTime>,
    /// Steps it said to have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Before when it is not tried again, because it failed several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Where it stands.
    pub phase: Phase,
}

/// Time in which a task shared its devices with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedTime {
    /// How long.
    pub time: Span,
    /// How much of that it would have saved alone, as far as its speeds were known.
    pub lost: Span,
}

impl std::ops::AddAssign for SharedTime {
    fn add_assign(&mut self, more: SharedTime) {
        self.time += more.time;
        self.lost += more.lost;
    }
}

/// Where a task stands between its first start and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits to be tried again.
    Ready {
        /// Since when.
        since: Time,
    },
    /// Was given a place; its process is not known to run yet.
    Placed(Attempt),
    /// Runs.
    Running(Attempt),
    /// Stands still.
    Paused(Attempt),
    /// Was asked to end.
    Stopping {
        /// The attempt.
        attempt: Attempt,
        /// Why.
        why: StopReason,
        /// Whether it stood still when it was asked.
        paused: bool,
    },
}

/// An attempt that is not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Where it runs.
    pub placement: Placement,
    /// When it was placed.
    pub placed: Time,
    /// When its process began.
    pub started: Option<Time>,
    /// Running time up to `since`.
    pub ran: Span,
    /// When it last began to run or to stand still.
    pub since: Time,
    /// Who wants it to stand still, if anyone does.
    pub pause: Option<RequestedBy>,
    /// At which moment of its work.
    #[serde(default, skip_serializing_if = "Boundary::is_any")]
    pub pause_at: Boundary,
}

impl Attempt {
    pub(super) fn asked_to_pause(self, by: RequestedBy, at: Boundary) -> Attempt {
        Attempt { pause: Some(by), pause_at: at, ..self }
    }
}

impl StartedTask {
    /// A task about to be tried for the first time.
    pub(super) fn new(attempts: u32, phase: Phase) -> StartedTask {
        let (ran, saved, had, shared, steps, not_before) = Default::default();
        StartedTask { attempts, failures: 0, losses: 0, ran, saved, had, shared, steps, not_before, phase }
    }

    /// The attempt that is on a worker, if one is.
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

    /// Whether its process stands still and is to stay so: one that is to go on needs its place among the tasks of its
    /// devices from then on.
    pub fn is_paused(&self) -> bool {
        match &self.phase {
            Phase::Paused(a) => a.pause.is_some(),
            Phase::Stopping { paused, .. } => *paused,
            _ => false,
        }
    }

    /// Whether it has been asked for something that has yet to happen to it, or stands still.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. }) || self.attempt().is_some_and(|a| a.pause.is_some())
    }

    /// When its attempt is expected to end, unless it stands still.
    pub(super) fn foreseen_end(&self, spec: &TaskSpec) -> Option<Time> {
        let left = spec.expected().unwrap_or(Span::UNKNOWN) - self.saved;
        self.attempt().filter(|_| !self.is_paused()).map(|a| a.since + (left - a.ran))
    }

    /// Since when its process has been running without a break, if it runs.
    pub(super) fn running_since(&self) -> Option<Time> {
        match &self.phase {
            Phase::Running(a) | Phase::Stopping { attempt: a, paused: false, .. } => {
                a.started.is_some().then_some(a.since)
            }
            _ => None,
        }
    }

    /// Running time of the attempt up to now.
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

    /// Whether all its tasks are over.
    pub fn is_done(&self) -> bool {
        self.fresh.is_empty() && self.live.is_empty() && self.held.is_empty()
    }

    /// How many tasks are neither over nor on a worker.
    pub fn waiting(&self) -> u64 {
        self.fresh.len() + self.held_fresh().len() + self.live.len() as u64 - u64::from(self.active)
    }

    /// Tasks that never started and are held.
    pub fn held_fresh(&self) -> Ranges {
        let mut held = self.held.clone();
        for &i in self.live.keys().filter(|_| !self.held.is_empty()) {
            held.remove(i);
        }
        held
    }

    /// The first task that is not over: one that never started, then one that did.
    pub fn first_open(&self) -> Option<u32> {
        self.fresh.first().or_else(|| self.live.keys().next().copied()).or_else(|| self.held.first())
    }

    /// The entries of tasks in a range that began and are not over.
    pub(super) fn live_within(&self, range: Range<u32>) -> impl Iterator<Item = (u32, &StartedTask)> + '_ {
        let one = (range.len() == 1).then(|| self.live.get(&range.start).map(|live| (range.start, &**live)));
        let many = one.is_none().then(|| self.live.iter().filter(move |(i, _)| range.contains(i)));
        one.flatten().into_iter().chain(many.into_iter().flatten().map(|(&i, live)| (i, &**live)))
    }

    /// Notes that a task that began and is on no worker may be tried again, unless it is held or put off.
    pub(super) fn may_try_again(&mut self, index: u32) {
        let waits = |live: &StartedTask| live.attempt().is_none() && live.not_before.is_none();
        if !self.held.contains(index) && self.live.get(&index).is_some_and(|live| waits(live)) {
            self.again.insert(index);
        }
    }

    /// How many tasks are on a worker.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Whether it ended the way a dependency asks; `None` while it has not ended.
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

    /// Rebuilds what is derived from the rest.
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

    /// How it ended as a whole; `None` while it has not.
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

    /// Whether it ended the way a dependency asks; `None` while it has not ended.
    pub fn satisfies(&self, on: DependencyCondition) -> Option<bool> {
        let outcome = self.outcome()?;
        Some(match on {
            DependencyCondition::Any => true,
            DependencyCondition::Ok => outcome == Outcome::Succeeded,
            DependencyCondition::Fail => !matches!(outcome, Outcome::Succeeded | Outcome::Cancelled),
        })
    }

    /// A node and its specification.
    pub fn node(&self, node: u32) -> Option<(&Node, &TaskSpec)> {
        Some((self.nodes.get(node as usize)?, &self.spec.tasks[node as usize]))
    }

    /// The node's tasks that could start now, were there room: those to be tried again one by one, then the rest
    /// together.
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

    /// A task that is on a worker, ranked as those that wait are: as it would be if it waited from now on, having saved
    /// what it did.
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

    /// Whether any of the node's tasks could start now, were there room.
    pub(super) fn has_ready(&self, node: u32) -> bool {
        let state = &self.nodes[node as usize];
        !(state.again.is_empty() && state.fresh.is_empty()) && self.room(node) > 0
    }

    /// How many more of a node's tasks may be on workers; none while it waits for something else than room there.
    fn room(&self, node: u32) -> u32 {
        let (state, spec) = self.node(node).expect("the node is one of the job's");
        let open = !self.held && self.waiting.is_empty() && state.unmet == 0;
        if open { spec.at_once().map_or(u32::MAX, |n| n.saturating_sub(state.active)) } else { 0 }
    }
}

/// A task that is on a worker.
#[derive(Clone, Copy, Debug)]
pub struct PlacedTask<'a> {
    /// As those that wait are seen.
    pub as_ready: ReadyTask<'a>,
    /// Its attempt.
    pub attempt: &'a Attempt,
    /// Where it stands.
    pub phase: &'a Phase,
}

/// Tasks that wait only for room: one that was tried before, or all those of a node that never started.
#[derive(Clone, Copy, Debug)]
pub struct ReadyTask<'a> {
    /// The (first) task.
    pub task: TaskId,
    /// How many there are like it.
    pub count: u32,
    /// How many more of the node may be on workers at once.
    pub room: u32,
    /// Since when it waits.
    pub since: Time,
    /// The number of its latest attempt.
    pub attempts: u32,
    /// Running time of earlier attempts.
    pub ran: Span,
    /// Running time of those of them that saved what they had done.
    pub saved: Span,
    /// Its job.
    pub job: &'a Job,
    /// What it asks for.
    pub spec: &'a TaskSpec,
}

impl ReadyTask<'_> {
    /// How long it is taken to run from here on; a year in all where nobody said.
    pub fn expected(&self) -> Span {
        self.spec.expected().unwrap_or(Span::UNKNOWN) - self.saved
    }

    /// How long it may run at most; a year where nobody said.
    pub fn timeout(&self) -> Span {
        self.spec.timeout.unwrap_or(Span::UNKNOWN)
    }
}
