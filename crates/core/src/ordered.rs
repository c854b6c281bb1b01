//! Policies that are an order and a fit: most of them. The order gives each waiting task a key, the fit says where it
//! goes, and [`Behind`] says what those behind may do while the first in line cannot start.

use crate::cluster::{Effects, ReadyTask, View};
use crate::command::Rejected;
use crate::explain::{self, Reason, Why};
use crate::ids::{DeviceId, NodeId, TaskId};
use crate::place::{Fit, Search};
use crate::plan::{Plan, Start};
use crate::policy::{Param, Policy, word};
use crate::pool::{Ledger, Placement};
use crate::queue::{Item, Key, Queue, Walk};
use crate::reserve::{Reservation, reserve};
use crate::spec::JobSpec;
use crate::time::Time;
use std::collections::BTreeMap;

/// Where a task stands in line. The key must not change while the task waits, unless an event changes it.
pub trait Order: Send {
    /// Smaller goes first.
    fn key(&self, task: &ReadyTask<'_>) -> Key;

    /// Sets tasks apart that are not treated alike even with equal needs.
    fn class(&self, task: &ReadyTask<'_>) -> u8 {
        let _ = task;
        0
    }

    /// Devices tasks of a class may not use.
    fn withheld(&self, view: View<'_>, class: u8) -> Vec<DeviceId> {
        let _ = (view, class);
        Vec::new()
    }

    /// Refuses a job this policy would never run.
    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejected> {
        let _ = (view, job);
        Ok(())
    }
}

/// What may start while the first in line cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// What does not delay the first in line, as far as expected times tell.
    Reserve,
    /// Nothing.
    Nobody,
    /// Whatever fits.
    Anyone,
}

impl Behind {
    /// The parameter every ordered policy with a choice has.
    pub const PARAM: Param = word(
        "behind",
        &["reserve", "nobody", "anyone"],
        "what may start while the first in line cannot: what does not delay it, nothing, or whatever fits",
    );

    /// The choice of that name; the default for any other word.
    pub fn from_word(word: &str) -> Behind {
        match word {
            "nobody" => Behind::Nobody,
            "anyone" => Behind::Anyone,
            _ => Behind::Reserve,
        }
    }
}

/// How many entries of one line a plan looks at for one short enough to run before a reservation begins.
const DEPTH: u32 = 200;

/// A policy made of an order and a fit.
pub struct Ordered<O> {
    order: O,
    behind: Behind,
    fit: Fit,
    at_most: usize,
    queue: Queue,
    /// Whether the queue has been filled from a view.
    filled: bool,
}

impl<O: Order> Ordered<O> {
    /// A policy with an empty cache.
    pub fn new(order: O, behind: Behind) -> Ordered<O> {
        let (queue, filled) = (Queue::default(), false);
        Ordered { order, behind, fit: Fit::default(), at_most: usize::MAX, queue, filled }
    }

    /// Uses another rule to choose among fitting places.
    pub fn fit(self, fit: Fit) -> Ordered<O> {
        Ordered { fit, ..self }
    }

    /// Has at most this many attempts on workers at any time.
    pub fn at_most(self, at_most: usize) -> Ordered<O> {
        Ordered { at_most, ..self }
    }

    fn sync(&mut self, view: View<'_>, node: NodeId) {
        let order = &self.order;
        self.queue.sync(view, node, |t| (order.key(t), order.class(t)));
    }

    fn fill(&mut self, view: View<'_>) {
        if !self.filled {
            self.filled = true;
            view.ready_nodes().for_each(|node| self.sync(view, node));
        }
    }

    /// Goes through the line, starting what may start; what it finds for the first that cannot is left in the draft.
    fn draft<'a>(&self, view: View<'a>, now: Time) -> Draft<'a> {
        let mut draft = Draft::new(view, now, self.fit);
        let mut walk = Walk::new(&self.queue);
        let mut looked = BTreeMap::new();
        while let Some(item) = walk.next() {
            if view.active() + draft.plan.start.len() >= self.at_most {
                break;
            }
            if !draft.has_room(&item) {
                walk.skip(item);
                continue;
            }
            let line = self.queue.line(item.line);
            let withheld = draft.withheld(line.class, |class| self.order.withheld(view, class));
            match draft.start(&item, &line.needs, &withheld) {
                Tried::Started => walk.next_of_cohort(view, item),
                Tried::WouldDelay => {
                    let depth = looked.entry(item.line).or_insert(0u32);
                    *depth += 1;
                    if *depth < DEPTH {
                        walk.skip(item);
                    }
                }
                Tried::NoRoom if draft.kept.is_some() => {}
                Tried::NoRoom => match self.behind {
                    Behind::Nobody => break,
                    Behind::Anyone => {}
                    Behind::Reserve => draft.reserve(&item, &line.needs, &withheld),
                },
            }
        }
        draft
    }
}

impl<O: Order> Policy for Ordered<O> {
    fn observe(&mut self, view: View<'_>, effects: &Effects) {
        if self.filled {
            effects.nodes.iter().for_each(|&node| self.sync(view, node));
        } else {
            self.fill(view);
        }
    }

    fn plan(&mut self, view: View<'_>, now: Time) -> Plan {
        self.fill(view);
        self.draft(view, now).plan
    }

    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Why {
        if let Some(why) = explain::without_policy(view, task) {
            return why;
        }
        let Some((_, spec)) = view.job(task.job).and_then(|j| j.node(task.node)) else {
            return Why::plain(Reason::NotItsTurn);
        };
        let found = self.queue.find(task);
        let ahead = found.map(|(_, key)| self.queue.ahead(view, key, task));
        let first_ahead = self.line(view, 4).into_iter().take_while(|t| *t != task).collect();
        let class = found.map_or(0, |(line, _)| self.queue.line(line).class);
        let withheld = self.order.withheld(view, class);
        let reason = match explain::room(view, &spec.needs, &withheld) {
            Err(reason) => reason,
            Ok(()) => {
                let draft = self.draft(view, now);
                match draft.kept {
                    _ if draft.plan.start.iter().any(|s| s.task == task) => Reason::Next,
                    Some((for_task, kept)) => Reason::Reserved { for_task, from: kept.at },
                    None => Reason::NotItsTurn,
                }
            }
        };
        Why { reason, ahead, first_ahead }
    }

    fn line(&self, view: View<'_>, most: usize) -> Vec<TaskId> {
        let mut walk = Walk::new(&self.queue);
        let mut line = Vec::new();
        while let Some(item) = walk.next().filter(|_| line.len() < most) {
            line.push(item.task);
            walk.next_of_cohort(view, item);
        }
        line
    }

    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejected> {
        self.order.accept(view, job)
    }
}

enum Tried {
    Started,
    /// There is room, but it is kept for another by the time this one would end.
    WouldDelay,
    NoRoom,
}

/// A plan in the making.
struct Draft<'a> {
    view: View<'a>,
    now: Time,
    fit: Fit,
    plan: Plan,
    ledger: Ledger<'a>,
    /// When what this plan starts is expected to end.
    ends: Vec<(Time, Placement)>,
    /// How many more of a node may start.
    room: BTreeMap<NodeId, u32>,
    withheld: BTreeMap<u8, Vec<DeviceId>>,
    /// What is kept for the first that cannot start.
    kept: Option<(TaskId, Reservation<'a>)>,
}

impl<'a> Draft<'a> {
    fn new(view: View<'a>, now: Time, fit: Fit) -> Draft<'a> {
        Draft {
            view,
            now,
            fit,
            plan: Plan::default(),
            ledger: Ledger::over(view.pool()),
            ends: Vec::new(),
            room: BTreeMap::new(),
            withheld: BTreeMap::new(),
            kept: None,
        }
    }

    fn has_room(&mut self, item: &Item) -> bool {
        *self.room.entry(item.task.node_id()).or_insert(item.room) > 0
    }

    fn withheld(&mut self, class: u8, ask: impl FnOnce(u8) -> Vec<DeviceId>) -> Vec<DeviceId> {
        self.withheld.entry(class).or_insert_with(|| ask(class)).clone()
    }

    fn start(&mut self, item: &Item, needs: &crate::spec::Needs, withheld: &[DeviceId]) -> Tried {
        let end = self.now + item.expected;
        let later = self.kept.as_ref().filter(|(_, kept)| end > kept.at).map(|(_, kept)| &kept.then);
        let search = Search { now: &self.ledger, later, withheld, fit: self.fit };
        let Some(placement) = search.place(needs) else {
            let blocked_by_reservation =
                later.is_some() && Search { later: None, ..search }.place(needs).is_some();
            return if blocked_by_reservation { Tried::WouldDelay } else { Tried::NoRoom };
        };
        if let Some((_, kept)) = &mut self.kept
            && end > kept.at
        {
            kept.then.charge(&placement);
        }
        self.ledger.charge(&placement);
        self.ends.push((end, placement.clone()));
        *self.room.get_mut(&item.task.node_id()).expect("asked before") -= 1;
        self.plan.start.push(Start { task: item.task, placement });
        Tried::Started
    }

    fn reserve(&mut self, item: &Item, needs: &crate::spec::Needs, withheld: &[DeviceId]) {
        let search = Search { now: &self.ledger, later: None, withheld, fit: self.fit };
        let kept = reserve(self.view, self.now, &self.ledger, &self.ends, search, needs);
        self.kept = kept.map(|kept| (item.task, kept));
    }
}
