//! Policies that are an order and a fit: most of them. The order gives each waiting task a key, the fit says where it
//! goes, and [`BackfillRule`] says what those behind may do while the first in line cannot start.

mod draft;
mod preemption;
mod turns;

pub use turns::{Grant, UserOrder};

use crate::cluster::{Effects, ReadyTask, View};
use crate::command::Rejection;
use crate::event::RequestedBy;
use crate::explain::{self, Explanation, WaitReason};
use crate::fragment::TaskMix;
use crate::ids::{DeviceId, NodeId, TaskId};
use crate::lengths::Lengths;
use crate::limits::LimitKind;
use crate::place::Fit;
use crate::plan::Plan;
use crate::policy::{FAR, Param, Policy, QueuePosition, along, places_along, word};
use crate::queue::{Key, Queue};
use crate::shares::Shares;
use crate::spec::{Boundary, JobSpec};
use crate::time::{Span, Time};
use draft::{PlanBuilder, StartOutcome};
use preemption::{PausedAttempt, Preemption};
use std::collections::{BTreeMap, BTreeSet};
use turns::UserWalk;

/// Where a task stands in line. The key must not change while the task waits, unless an event changes it.
pub trait Order: Send + Sync {
    /// Smaller goes first.
    fn key(&self, task: &ReadyTask<'_>) -> Key;

    /// What the key is, in a line: "P = priority − timeout; the largest P goes first".
    fn formula(&self) -> &'static str;

    /// The same with a task's numbers filled in: "P = 3 − 600 = −597".
    fn numbers(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String;

    /// Sets tasks apart that are not treated alike even with equal needs.
    fn class(&self, task: &ReadyTask<'_>) -> u8 {
        let _ = task;
        0
    }

    /// Devices tasks of a class may not use, in order.
    fn withheld(&self, view: View<'_>, class: u8) -> Vec<DeviceId> {
        let _ = (view, class);
        Vec::new()
    }

    /// Refuses a job this policy would never run.
    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        let _ = (view, job);
        Ok(())
    }

    /// The key of one that runs, to be compared with the keys of those that wait: it gives way to smaller ones.
    fn kept_running(&self, task: &ReadyTask<'_>) -> Key {
        self.key(task)
    }

    /// After how much more running a task's key is another, if that only grows.
    fn sinks_after(&self, task: &ReadyTask<'_>) -> Option<Span> {
        let _ = task;
        None
    }

    /// Takes in what is known of speeds. Before any key is asked for, and again whenever that has changed; all keys are
    /// then asked for anew. Only where tasks go where they end first.
    fn know(&mut self, shares: &Shares) {
        let _ = shares;
    }

    /// An order among users; the key then ranks tasks of one user only.
    fn turns(&self) -> Option<&dyn UserOrder> {
        None
    }
}

/// What may start while the first in line cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillRule {
    /// What does not delay the first in line, as far as expected times tell.
    Reserve,
    /// Nothing.
    Nobody,
    /// Whatever fits.
    Anyone,
    /// What delays none of the first in line, each of which is kept a place of its own.
    ReserveAll {
        /// How many of them.
        depth: u32,
    },
}

impl BackfillRule {
    /// The parameter every ordered policy with a choice has.
    pub const PARAM: Param = word(
        "behind",
        &["reserve", "nobody", "anyone"],
        "what may start while the first in the queue cannot: what does not delay it, nothing, or whatever fits",
    );

    /// The choice of that name; the default for any other word.
    pub fn from_word(word: &str) -> BackfillRule {
        match word {
            "nobody" => BackfillRule::Nobody,
            "anyone" => BackfillRule::Anyone,
            _ => BackfillRule::Reserve,
        }
    }
}

/// How many entries of one line a plan looks at for one short enough to run before a reservation begins.
const DEPTH: u32 = 200;

/// How many of each line a forecast lets overtake those before them.
const OVERTAKING: usize = 20;

/// For how many tasks a place is kept where they go where they end first.
const KEPT_BY_SPEED: u32 = 64;

/// A policy made of an order and a fit.
pub struct Ordered<O> {
    order: O,
    behind: BackfillRule,
    fit: Fit,
    at_most: usize,
    /// Whether the less urgent give way to the more urgent, and at which moments of their work.
    gives_way: Option<Boundary>,
    /// Whether tasks go where they end first by what is known of speeds; and which state of that the order knows.
    by_speed: Option<u64>,
    /// What waits, by user where those take turns.
    queues: BTreeMap<String, Queue>,
    /// Whether the queues have been filled from a view.
    filled: bool,
}

impl<O: Order> Ordered<O> {
    /// A policy with an empty cache.
    pub fn new(order: O, behind: BackfillRule) -> Ordered<O> {
        let (queues, filled) = (BTreeMap::new(), false);
        let (fit, at_most, gives_way) = (Fit::default(), usize::MAX, None);
        Ordered { order, behind, fit, at_most, gives_way, by_speed: None, queues, filled }
    }

    /// Uses another rule to choose among fitting places.
    pub fn fit(self, fit: Fit) -> Ordered<O> {
        Ordered { fit, ..self }
    }

    /// Has the less urgent give way to the more urgent, at these moments of their work. Not for an order among users.
    pub fn preempting(self, at: Boundary) -> Ordered<O> {
        Ordered { gives_way: Some(at), ..self }
    }

    /// Has tasks whose speeds are known go where they end first, be it on a device that is not free yet. From the first
    /// speed that is known, places are kept for those that wait, whatever else may go behind the first in line.
    pub fn by_speed(self) -> Ordered<O> {
        Ordered { by_speed: Some(0), ..self }
    }

    /// Has at most this many attempts on workers at any time.
    pub fn at_most(self, at_most: usize) -> Ordered<O> {
        Ordered { at_most, ..self }
    }

    fn sync(&mut self, view: View<'_>, node: NodeId) {
        let order = &self.order;
        let user = self.user_of(view, node);
        let queue = match self.queues.get_mut(user) {
            Some(queue) => queue,
            None => self.queues.entry(user.to_owned()).or_default(),
        };
        queue.sync(view, node, |t| (order.key(t), order.class(t)));
        if queue.is_empty() && order.turns().is_some() {
            self.queues.remove(user);
        }
    }

    /// In whose line a node's tasks stand; in nobody's where users do not take turns.
    fn user_of<'v>(&self, view: View<'v>, node: NodeId) -> &'v str {
        match self.order.turns() {
            Some(_) => view.job(node.job).map_or("", |job| &job.user),
            None => "",
        }
    }

    fn anyone_waits(&self) -> bool {
        self.queues.values().any(|queue| !queue.is_empty())
    }

    /// Whether anything stands still, or was asked to, by the wish of a policy.
    fn anyone_stands(view: View<'_>) -> bool {
        let by_policy = |task| view.attempt(task).is_some_and(|(a, _)| a.pause == Some(RequestedBy::Policy));
        view.unsettled().any(by_policy)
    }

    fn fill(&mut self, view: View<'_>) {
        let revision = view.shares().revision();
        if self.by_speed.is_some_and(|known| known != revision) {
            self.by_speed = Some(revision);
            self.order.know(view.shares());
            self.queues.clear();
            self.filled = false;
        }
        if !self.filled {
            self.filled = true;
            view.ready_nodes().for_each(|node| self.sync(view, node));
        }
    }

    fn in_turn<'v>(&self, view: View<'v>, now: Time) -> UserWalk<'_, 'v> {
        UserWalk::new(view, now, &self.queues, self.order.turns())
    }

    /// An empty plan in the making.
    fn draft<'a>(&self, view: View<'a>, now: Time) -> PlanBuilder<'a> {
        let lengths = self.by_speed.and_then(|_| Lengths::known(view));
        let behind =
            if lengths.is_some() { BackfillRule::ReserveAll { depth: KEPT_BY_SPEED } } else { self.behind };
        PlanBuilder::new(view, now, self.fit, behind, self.workload(view), lengths)
    }

    /// Goes through the line, starting what may start; what it finds for those that cannot is left in the draft.
    fn go_through(&self, draft: &mut PlanBuilder<'_>) {
        let (view, now) = (draft.view, draft.now);
        let mut walk = self.in_turn(view, now);
        let mut still = self.weigh(draft).into_iter().peekable();
        // Whether a place is kept, and whether it may be elsewhere, or another's, and leave room where it was, once this is
        // carried out: where something starts after it was kept, or others were asked to give way for it.
        let (mut keeps, mut moves) = (false, false);
        let mut looked = BTreeMap::new();
        loop {
            // One that stands still comes before its equals that wait.
            let next = walk.peek();
            if let Some(one) = still.next_if(|one| next.is_none_or(|key| one.key <= key)) {
                draft.go_on(one);
                continue;
            }
            let Some((user, item)) = walk.next() else { break };
            if view.active() + draft.plan.start.len() >= self.at_most {
                break;
            }
            if !draft.has_room(&item) {
                walk.skip(item);
                continue;
            }
            let line = self.queues[user].line(item.line);
            if let Err(at) = draft.allows(line, &item) {
                let depth = looked.entry((user, item.line)).or_insert(0u32);
                *depth += 1;
                // Another of the line may promise less time; of all else they ask for the same.
                if matches!(at.what, LimitKind::GpuTime { .. }) && *depth < DEPTH {
                    walk.skip(item);
                }
                continue;
            }
            let withheld = draft.withheld(line.class, |class| self.order.withheld(view, class));
            match draft.start(&item, &line.needs, &withheld) {
                StartOutcome::Started(given) => {
                    moves |= keeps || draft.kept.is_some();
                    walk.gave(given);
                    walk.next_of_cohort(item);
                }
                StartOutcome::Kept => {
                    keeps = true;
                    walk.next_of_cohort(item);
                }
                StartOutcome::WouldDelay => {
                    let depth = looked.entry((user, item.line)).or_insert(0u32);
                    *depth += 1;
                    if *depth < DEPTH {
                        walk.skip(item);
                    }
                }
                StartOutcome::NoRoom if draft.behind == BackfillRule::Nobody => break,
                StartOutcome::NoRoom => {}
            }
        }
        // Whoever waits for what these hold would wait for ever if they did not go on.
        still.for_each(|one| draft.go_on(one));
        if self.behind != BackfillRule::Anyone {
            draft.plan.wake_at = walk.changes_at();
        }
        draft.plan.wake_at = draft.plan.wake_at.into_iter().chain(draft.thinks_again_at).min();
        if let Some(preemption) = &draft.preemption {
            draft.plan.wake_at = draft.plan.wake_at.into_iter().chain(preemption.sinks_at(now)).min();
        }
        draft.plan.again = moves || keeps && draft.preemption.is_some() && !draft.plan.is_empty();
    }

    /// The tasks that wait and run, if it matters where they would fit.
    fn workload(&self, view: View<'_>) -> TaskMix {
        if self.fit != Fit::Gradient {
            return TaskMix::default();
        }
        let waiting = self.queues.values().flat_map(Queue::lines).map(|line| (&line.needs, line.count()));
        let running = view.ends().filter_map(|(_, task, _)| Some((&view.attempt(task)?.1.needs, 1)));
        TaskMix::of(waiting.chain(running))
    }

    /// Looks at those that run, if they may have to give way; gives those that stand still, the most urgent first.
    fn weigh<'a>(&self, draft: &mut PlanBuilder<'a>) -> Vec<PausedAttempt<'a>> {
        let Some(at) = self.gives_way else {
            draft.let_go_on();
            return Vec::new();
        };
        let (preemption, still) = Preemption::new(self, at, draft.view, draft.now);
        draft.preemption = Some(preemption);
        still
    }

    /// How many are considered before a task, if it is not too far back to say.
    fn ahead(&self, view: View<'_>, task: TaskId, now: Time) -> Option<u64> {
        if let Some(queue) = self.by_keys(view) {
            let (_, key) = queue.find(task)?;
            return Some(queue.ahead(view, key, task));
        }
        self.line(view, FAR, now).iter().position(|t| *t == task).map(|at| at as u64)
    }

    /// The only queue, where tasks stand in it by their keys alone: no user takes turns and none has a limit.
    fn by_keys(&self, view: View<'_>) -> Option<&Queue> {
        let by_keys = self.order.turns().is_none() && !view.has_limits();
        self.queues.values().next().filter(|_| by_keys)
    }
}

impl<O: Order> Policy for Ordered<O> {
    fn observe(&mut self, view: View<'_>, effects: &Effects) {
        if self.filled {
            effects.nodes.iter().for_each(|&node| self.sync(view, node));
        }
        self.fill(view);
    }

    fn plan(&mut self, view: View<'_>, now: Time) -> Plan {
        self.fill(view);
        if !self.anyone_waits() && !Self::anyone_stands(view) {
            return Plan::default();
        }
        let mut draft = self.draft(view, now);
        self.go_through(&mut draft);
        draft.plan
    }

    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Explanation {
        if let Some(why) = explain::without_policy(view, task, now) {
            return why;
        }
        let Some((_, spec)) = view.job(task.job).and_then(|j| j.node(task.node)) else {
            return Explanation::plain(WaitReason::NotItsTurn);
        };
        let ahead = self.ahead(view, task, now);
        let first_ahead = self.line(view, 4, now).into_iter().take_while(|t| *t != task).collect();
        let queue = self.queues.get(self.user_of(view, task.node_id()));
        let class = queue.and_then(|q| q.find(task).map(|(line, _)| q.line(line).class)).unwrap_or(0);
        let withheld = self.order.withheld(view, class);
        let reason = match explain::room(view, &spec.needs, &withheld) {
            Err(reason) => reason,
            Ok(()) => {
                let mut draft = self.draft(view, now);
                self.go_through(&mut draft);
                match draft.kept_first {
                    _ if draft.plan.start.iter().any(|s| s.task == task) => WaitReason::Next,
                    Some((for_task, from)) if for_task == task => WaitReason::EndsSooner { from },
                    Some((for_task, from)) => WaitReason::Reserved { for_task, from },
                    // What is free is of types it gets nowhere on.
                    None if draft.knows_speeds_of(task) => WaitReason::NoRoom,
                    None => WaitReason::NotItsTurn,
                }
            }
        };
        Explanation { reason, ahead, first_ahead }
    }

    fn line(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        let mut walk = self.in_turn(view, now);
        let mut line = Vec::new();
        let allowance = view.allowance(now);
        while let Some((user, item)) = walk.next().filter(|_| line.len() < most) {
            let limited = self.queues[user].line(item.line).limited.is_some();
            if limited && view.spec(item.task).is_some_and(|(job, spec)| allowance.lets(job, spec).is_err()) {
                walk.skip(item);
                continue;
            }
            line.push(item.task);
            if self.order.turns().is_some() {
                walk.gave(Grant::wanted(view.pool(), &self.queues[user].line(item.line).needs));
            }
            walk.next_of_cohort(item);
        }
        line
    }

    fn places(&self, view: View<'_>, nodes: &[NodeId], now: Time) -> BTreeMap<NodeId, QueuePosition> {
        let Some(queue) = self.by_keys(view) else {
            return places_along(self, view, nodes, now);
        };
        let place = |node: &NodeId| {
            let (key, task) = queue.find_first(*node)?;
            Some((*node, QueuePosition { key: Some(key), task, before: Some(queue.ahead(view, key, task)) }))
        };
        nodes.iter().filter_map(place).collect()
    }

    fn line_after(
        &self,
        view: View<'_>,
        after: Option<QueuePosition>,
        most: usize,
        now: Time,
    ) -> Vec<QueuePosition> {
        let Some(queue) = self.by_keys(view) else {
            return along(self, view, after, most, now);
        };
        let mut seen = BTreeSet::new();
        let entries = queue.entries_after(after.and_then(|after| Some((after.key?, after.task))));
        // A node with tasks to be tried again stands in line more than once.
        let first = |task: &TaskId| queue.find_first(task.node_id()).is_none_or(|(_, first)| first == *task);
        let entries = entries.filter(|(_, task, _)| first(task) && seen.insert(task.node_id()));
        entries
            .map(|(key, task, before)| QueuePosition { key: Some(key), task, before: Some(before) })
            .take(most)
            .collect()
    }

    fn contenders(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        let mut first = self.line(view, most, now);
        if first.len() == most {
            // Lines of other needs, all of which may be behind.
            first.extend(self.queues.values().flat_map(|queue| queue.heads(OVERTAKING)).take(most));
        }
        first
    }

    fn formula(&self) -> &'static str {
        self.order.formula()
    }

    fn numbers(&self, view: View<'_>, task: TaskId, now: Time) -> Option<String> {
        // Those to be tried again stand for themselves, the rest of an array for one another.
        let mut ready = view.ready(task.node_id());
        let own = ready.find(|r| r.task == task || r.count > 1)?;
        Some(self.order.numbers(&own, view, now))
    }

    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        self.order.accept(view, job)
    }
}
