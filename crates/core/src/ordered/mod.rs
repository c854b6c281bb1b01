//! Ordered policies: an order (a key for each waiting task) and a fit (where it goes). Most policies are of this
//! form. [`BackfillRule`] says what may start behind a task that cannot.

mod plan_builder;
mod preemption;
mod user_walk;

pub use user_walk::{Grant, UserOrder};

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
use crate::policy::{
    MAX_COUNTED, Param, Policy, QueuePosition, positions_after_by_walk, positions_by_walk, word,
};
use crate::queue::{Key, Queue};
use crate::shares::Shares;
use crate::spec::{Boundary, JobSpec};
use crate::time::{Span, Time};
use plan_builder::{PlanBuilder, StartOutcome};
use preemption::{PausedAttempt, Preemption};
use std::collections::{BTreeMap, BTreeSet};
use user_walk::UserWalk;

/// Order of a queue. A waiting task's key must not change, unless an event changes it.
pub trait Order: Send + Sync {
    /// Key of a waiting task; the smallest goes first.
    fn key(&self, task: &ReadyTask<'_>) -> Key;

    /// Formula of the key, for people: "P = priority − timeout; the largest P goes first".
    fn formula(&self) -> &'static str;

    /// Formula with a task's values: "P = 3 − 600 = −597".
    fn formula_values(&self, task: &ReadyTask<'_>, view: View<'_>, now: Time) -> String;

    /// Class of a task; tasks of different classes are queued apart even if their needs are equal.
    fn class(&self, task: &ReadyTask<'_>) -> u8 {
        let _ = task;
        0
    }

    /// Devices that tasks of a class may not use, sorted.
    fn withheld(&self, view: View<'_>, class: u8) -> Vec<DeviceId> {
        let _ = (view, class);
        Vec::new()
    }

    /// Rejects a job that this policy would never run.
    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        let _ = (view, job);
        Ok(())
    }

    /// Key of a running task, compared with the keys of waiting ones: a smaller key preempts it.
    fn running_key(&self, task: &ReadyTask<'_>) -> Key {
        self.key(task)
    }

    /// Running time after which a running task's key grows, for orders in which it does (multilevel feedback).
    fn key_grows_after(&self, task: &ReadyTask<'_>) -> Option<Span> {
        let _ = task;
        None
    }

    /// Takes over the known speeds: before the first key is requested, and whenever they change, after which all keys
    /// are requested again. Only called for policies that place tasks by speed.
    fn learn_speeds(&mut self, shares: &Shares) {
        let _ = shares;
    }

    /// Order among users, for fair policies; keys then order the tasks of one user only.
    fn user_order(&self) -> Option<&dyn UserOrder> {
        None
    }
}

/// Backfill: what may start while the first task in the queue cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillRule {
    /// Tasks that do not delay the first one, by expected run times (EASY backfill).
    Reserve,
    /// Nothing (strict order).
    Nobody,
    /// Any task that fits.
    Anyone,
    /// Tasks that delay none of the first `depth` tasks, each of which has a reservation (conservative backfill).
    ReserveAll {
        /// Number of reservations.
        depth: u32,
    },
}

impl BackfillRule {
    /// Parameter of every ordered policy that leaves the choice open.
    pub const PARAM: Param = word(
        "behind",
        &["reserve", "nobody", "anyone"],
        "what may start while the first in the queue cannot: what does not delay it, nothing, or whatever fits",
    );

    /// Rule with this parameter value; the default for any other text.
    pub fn from_word(word: &str) -> BackfillRule {
        match word {
            "nobody" => BackfillRule::Nobody,
            "anyone" => BackfillRule::Anyone,
            _ => BackfillRule::Reserve,
        }
    }
}

/// Entries of one sub-queue that a plan examines for one short enough to end before a reservation begins.
const DEPTH: u32 = 200;

/// Tasks of each sub-queue that a forecast considers as possible backfill.
const BACKFILL_CANDIDATES: usize = 20;

/// Reservations of a policy that places tasks by speed.
const RESERVATIONS_BY_SPEED: u32 = 64;

/// Policy made of an order and a fit.
pub struct Ordered<O> {
    order: O,
    backfill: BackfillRule,
    /// Limit on attempts on workers at any time.
    fit: Fit,
    at_most: usize,
    /// Preemption boundary, if more urgent tasks preempt less urgent ones.
    preempts_at: Option<Boundary>,
    /// Revision of the known speeds that the order has taken over, if tasks are placed by speed.
    by_speed: Option<u64>,
    /// Waiting tasks, by user where users have an order; otherwise a single queue under the empty name.
    queues: BTreeMap<String, Queue>,
    /// Whether the queues were filled from a view.
    filled: bool,
}

impl<O: Order> Ordered<O> {
    /// Policy with an empty cache.
    pub fn new(order: O, backfill: BackfillRule) -> Ordered<O> {
        let (queues, filled) = (BTreeMap::new(), false);
        let (fit, at_most, preempts_at) = (Fit::default(), usize::MAX, None);
        Ordered { order, backfill, fit, at_most, preempts_at, by_speed: None, queues, filled }
    }

    /// Sets the fit.
    pub fn fit(self, fit: Fit) -> Ordered<O> {
        Ordered { fit, ..self }
    }

    /// Has more urgent tasks preempt less urgent ones, at these boundaries of their work. Not for orders among users.
    pub fn preempting(self, at: Boundary) -> Ordered<O> {
        Ordered { preempts_at: Some(at), ..self }
    }

    /// Places tasks of known speed where they end first, even on a device that is not free yet. As soon as any speed
    /// is known, waiting tasks get reservations, whatever the backfill rule.
    pub fn by_speed(self) -> Ordered<O> {
        Ordered { by_speed: Some(0), ..self }
    }

    /// Limits the attempts on workers at any time.
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
        if queue.is_empty() && order.user_order().is_some() {
            self.queues.remove(user);
        }
    }

    /// Name of the queue that a node's tasks are in: its user, or the empty name where users have no order.
    fn user_of<'v>(&self, view: View<'v>, node: NodeId) -> &'v str {
        match self.order.user_order() {
            Some(_) => view.job(node.job).map_or("", |job| &job.user),
            None => "",
        }
    }

    fn has_waiting(&self) -> bool {
        self.queues.values().any(|queue| !queue.is_empty())
    }

    /// Whether any attempt is paused, or was asked to pause, by a policy.
    fn has_paused(view: View<'_>) -> bool {
        let by_policy = |task| view.attempt(task).is_some_and(|(a, _)| a.pause == Some(RequestedBy::Policy));
        view.unsettled().any(by_policy)
    }

    fn fill(&mut self, view: View<'_>) {
        let revision = view.shares().revision();
        if self.by_speed.is_some_and(|known| known != revision) {
            self.by_speed = Some(revision);
            self.order.learn_speeds(view.shares());
            self.queues.clear();
            self.filled = false;
        }
        if !self.filled {
            self.filled = true;
            view.ready_nodes().for_each(|node| self.sync(view, node));
        }
    }

    fn walk<'v>(&self, view: View<'v>, now: Time) -> UserWalk<'_, 'v> {
        UserWalk::new(view, now, &self.queues, self.order.user_order())
    }

    /// Builder of an empty plan.
    fn builder<'a>(&self, view: View<'a>, now: Time) -> PlanBuilder<'a> {
        let lengths = self.by_speed.and_then(|_| Lengths::known(view));
        let backfill = match lengths {
            Some(_) => BackfillRule::ReserveAll { depth: RESERVATIONS_BY_SPEED },
            None => self.backfill,
        };
        PlanBuilder::new(view, now, self.fit, backfill, self.task_mix(view), lengths)
    }

    /// Walks the queues in order and starts what may start. Reservations made on the way stay in the builder, for
    /// explanations.
    fn build_plan(&self, builder: &mut PlanBuilder<'_>) {
        let mut walk = self.walk(builder.view, builder.now);
        self.start_in_order(builder, &mut walk);
        // Under `anyone` no user's turn can be missed: whatever fits has started already.
        let order_changes = if self.backfill == BackfillRule::Anyone { None } else { walk.changes_at() };
        let key_grows =
            builder.preemption.as_ref().and_then(|preemption| preemption.key_grows_at(builder.now));
        builder.plan.wake_at = order_changes.into_iter().chain(builder.revisit_at).chain(key_grows).min();
    }

    fn start_in_order(&self, builder: &mut PlanBuilder<'_>, walk: &mut UserWalk<'_, '_>) {
        let view = builder.view;
        let mut paused = self.prepare_preemption(builder).into_iter().peekable();
        // Whether a reservation exists, and whether carrying out this plan may move it (to another place or task) and so
        // leave capacity where it was: something started after it was made, or attempts were preempted for it.
        let (mut reserved, mut moves) = (false, false);
        // Entries examined of each sub-queue, so that a plan's cost does not grow with what waits.
        let mut examined = BTreeMap::new();
        let mut may_examine_next = |user, sub_queue| {
            let count = examined.entry((user, sub_queue)).or_insert(0u32);
            *count += 1;
            *count < DEPTH
        };
        loop {
            // On equal keys, a paused attempt goes before waiting tasks: it holds memory and has work to lose.
            let next = walk.peek();
            if let Some(attempt) = paused.next_if(|attempt| next.is_none_or(|key| attempt.key <= key)) {
                builder.resume(attempt);
                continue;
            }
            let Some((user, item)) = walk.next() else { break };
            if view.active() + builder.plan.start.len() >= self.at_most {
                break;
            }
            // The array runs as many tasks at once as it may; others of the sub-queue are not affected.
            if !builder.has_room(&item) {
                walk.skip(item);
                continue;
            }
            let sub_queue = self.queues[user].sub_queue(item.sub_queue);
            if let Err(exceeded) = builder.allows(sub_queue, &item) {
                // Quotas are equal within a sub-queue except for GPU time: a shorter task behind may still be within it.
                let may_differ = matches!(exceeded.what, LimitKind::GpuTime { .. });
                if may_examine_next(user, item.sub_queue) && may_differ {
                    walk.skip(item);
                }
                continue;
            }
            let withheld = builder.withheld(sub_queue.class, |class| self.order.withheld(view, class));
            match builder.start(&item, &sub_queue.needs, &withheld) {
                StartOutcome::Started(grant) => {
                    moves |= reserved || builder.reservation.is_some();
                    walk.grant(grant);
                    walk.next_of_cohort(item);
                }
                StartOutcome::Reserved => {
                    reserved = true;
                    walk.next_of_cohort(item);
                }
                // A shorter task of the same needs may still end before the reservation begins.
                StartOutcome::WouldDelay => {
                    if may_examine_next(user, item.sub_queue) {
                        walk.skip(item);
                    }
                }
                StartOutcome::NoRoom if builder.backfill == BackfillRule::Nobody => break,
                // Not skipping the item leaves its whole sub-queue: nothing with equal needs fits either.
                StartOutcome::NoRoom => {}
            }
        }
        // Paused attempts hold memory that a waiting task may need: if they did not resume, both would wait for ever.
        paused.for_each(|attempt| builder.resume(attempt));
        builder.plan.again = moves || reserved && builder.preemption.is_some() && !builder.plan.is_empty();
    }

    /// Needs of waiting and running tasks, for the fit that minimises fragmentation.
    fn task_mix(&self, view: View<'_>) -> TaskMix {
        if self.fit != Fit::Gradient {
            return TaskMix::default();
        }
        let waiting = self
            .queues
            .values()
            .flat_map(Queue::sub_queues)
            .map(|sub_queue| (&sub_queue.needs, sub_queue.count()));
        let running = view.ends().filter_map(|(_, task, _)| Some((&view.attempt(task)?.1.needs, 1)));
        TaskMix::of(waiting.chain(running))
    }

    /// Prepares preemption, if the policy preempts; returns the paused attempts, the most urgent first.
    fn prepare_preemption<'a>(&self, builder: &mut PlanBuilder<'a>) -> Vec<PausedAttempt<'a>> {
        let Some(at) = self.preempts_at else {
            builder.resume_all();
            return Vec::new();
        };
        let (preemption, paused) = Preemption::new(self, at, builder.view, builder.now);
        builder.preemption = Some(preemption);
        paused
    }

    /// Number of tasks considered before this one; none if it is too far back to count.
    fn ahead(&self, view: View<'_>, task: TaskId, now: Time) -> Option<u64> {
        if let Some(queue) = self.key_ordered(view) {
            let (_, key) = queue.find(task)?;
            return Some(queue.ahead(view, key, task));
        }
        self.queue_order(view, MAX_COUNTED, now).iter().position(|t| *t == task).map(|at| at as u64)
    }

    /// The single queue, if positions in it depend on keys alone: no order among users and no limits.
    fn key_ordered(&self, view: View<'_>) -> Option<&Queue> {
        let key_ordered = self.order.user_order().is_none() && !view.has_limits();
        self.queues.values().next().filter(|_| key_ordered)
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
        if !self.has_waiting() && !Self::has_paused(view) {
            return Plan::default();
        }
        let mut builder = self.builder(view, now);
        self.build_plan(&mut builder);
        builder.plan
    }

    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Explanation {
        if let Some(explanation) = explain::without_policy(view, task, now) {
            return explanation;
        }
        let Some((_, spec)) = view.job(task.job).and_then(|j| j.node(task.node)) else {
            return Explanation::plain(WaitReason::NotItsTurn);
        };
        let ahead = self.ahead(view, task, now);
        let first_ahead = self.queue_order(view, 4, now).into_iter().take_while(|t| *t != task).collect();
        let queue = self.queues.get(self.user_of(view, task.node_id()));
        let class = queue.and_then(|q| q.find(task).map(|(at, _)| q.sub_queue(at).class)).unwrap_or(0);
        let withheld = self.order.withheld(view, class);
        let reason = match explain::room(view, &spec.needs, &withheld) {
            Err(reason) => reason,
            Ok(()) => {
                let mut builder = self.builder(view, now);
                self.build_plan(&mut builder);
                match builder.first_reservation {
                    _ if builder.plan.start.iter().any(|s| s.task == task) => WaitReason::Next,
                    Some((for_task, from)) if for_task == task => WaitReason::EndsSooner { from },
                    Some((for_task, from)) => WaitReason::Reserved { for_task, from },
                    // Only device types that the task makes no progress on are free.
                    None if builder.knows_speeds_of(task) => WaitReason::NoRoom,
                    None => WaitReason::NotItsTurn,
                }
            }
        };
        Explanation { reason, ahead, first_ahead }
    }

    fn queue_order(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        let mut walk = self.walk(view, now);
        let mut order = Vec::new();
        let allowance = view.allowance(now);
        while let Some((user, item)) = walk.next().filter(|_| order.len() < most) {
            let limited = self.queues[user].sub_queue(item.sub_queue).limited.is_some();
            if limited
                && view.spec(item.task).is_some_and(|(job, spec)| allowance.permits(job, spec).is_err())
            {
                walk.skip(item);
                continue;
            }
            order.push(item.task);
            if self.order.user_order().is_some() {
                walk.grant(Grant::requested(view.pool(), &self.queues[user].sub_queue(item.sub_queue).needs));
            }
            walk.next_of_cohort(item);
        }
        order
    }

    fn positions(&self, view: View<'_>, nodes: &[NodeId], now: Time) -> BTreeMap<NodeId, QueuePosition> {
        let Some(queue) = self.key_ordered(view) else {
            return positions_by_walk(self, view, nodes, now);
        };
        let place = |node: &NodeId| {
            let (key, task) = queue.find_first(*node)?;
            Some((*node, QueuePosition { key: Some(key), task, before: Some(queue.ahead(view, key, task)) }))
        };
        nodes.iter().filter_map(place).collect()
    }

    fn positions_after(
        &self,
        view: View<'_>,
        after: Option<QueuePosition>,
        most: usize,
        now: Time,
    ) -> Vec<QueuePosition> {
        let Some(queue) = self.key_ordered(view) else {
            return positions_after_by_walk(self, view, after, most, now);
        };
        let mut seen = BTreeSet::new();
        let entries = queue.entries_after(after.and_then(|after| Some((after.key?, after.task))));
        // A node with tasks to retry has several entries.
        let first = |task: &TaskId| queue.find_first(task.node_id()).is_none_or(|(_, first)| first == *task);
        let entries = entries.filter(|(_, task, _)| first(task) && seen.insert(task.node_id()));
        entries
            .map(|(key, task, before)| QueuePosition { key: Some(key), task, before: Some(before) })
            .take(most)
            .collect()
    }

    fn contenders(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        let mut first = self.queue_order(view, most, now);
        if first.len() == most {
            // Sub-queues of other needs, all of which may be further back.
            first.extend(self.queues.values().flat_map(|queue| queue.heads(BACKFILL_CANDIDATES)).take(most));
        }
        first
    }

    fn formula(&self) -> &'static str {
        self.order.formula()
    }

    fn formula_values(&self, view: View<'_>, task: TaskId, now: Time) -> Option<String> {
        // A task to retry has its own entry; the fresh tasks of an array share one.
        let mut ready = view.ready(task.node_id());
        let own = ready.find(|r| r.task == task || r.count > 1)?;
        Some(self.order.formula_values(&own, view, now))
    }

    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        self.order.accept(view, job)
    }
}
