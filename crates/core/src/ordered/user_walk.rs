//! Fair sharing among users: a walk through the queues of all users that always continues with the user who ranks first.
//!
//! Most orders rank tasks, not users; all tasks are then in the queue of a single user.

use crate::cluster::{View, rate_of};
use crate::ids::TaskId;
use crate::pool::{Placement, Pool, Resources};
use crate::queue::{Key, Queue, QueueItem, Walk};
use crate::spec::Needs;
use crate::time::Time;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Order among users, which changes with what they are granted and as time passes.
pub trait UserOrder {
    /// Rank of a user; the smallest goes first. What the plan under construction `granted` the user is not in the view yet.
    fn rank(&self, view: View<'_>, user: &str, granted: Grant, now: Time) -> f64;

    /// Next time at which the order of these users, given in their present order, changes without an event.
    fn changes_at(&self, view: View<'_>, users: &[(&str, Grant)], now: Time) -> Option<Time> {
        let _ = (view, users, now);
        None
    }
}

/// Resources that a plan grants a user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Grant {
    /// Amounts of devices, CPUs and memory.
    pub resources: Resources,
    /// Devices in use because of it, as usage accounts count them.
    pub rate: f64,
}

impl Grant {
    /// Grant of a placement.
    pub(super) fn of(pool: &Pool, p: &Placement) -> Grant {
        let resources = Resources::of(pool, p);
        Grant { resources, rate: rate_of(pool, p, resources) as f64 / Resources::DEVICE as f64 }
    }

    /// Grant of a request, on the smallest devices there are.
    pub(super) fn requested(pool: &Pool, needs: &Needs) -> Grant {
        Grant { resources: Resources::requested(pool, needs), rate: 0.0 }
    }
}

/// Walk through the queues of all users.
pub(super) struct UserWalk<'q, 'v> {
    view: View<'v>,
    now: Time,
    order: Option<&'q dyn UserOrder>,
    users: SmallVec<[User<'q>; 1]>,
    /// Users by rank, then by the head of their queue; the last number is the index in `users`.
    next: BTreeSet<(Key, Key, TaskId, usize)>,
    /// User of the item returned last.
    current: usize,
}

struct User<'q> {
    name: &'q str,
    walk: Walk<'q>,
    granted: Grant,
    rank: Key,
}

impl<'q, 'v> UserWalk<'q, 'v> {
    pub(super) fn new(
        view: View<'v>,
        now: Time,
        queues: &'q BTreeMap<String, Queue>,
        order: Option<&'q dyn UserOrder>,
    ) -> UserWalk<'q, 'v> {
        let new = |(name, queue): (&'q String, &'q Queue)| {
            let (walk, granted) = (Walk::new(queue), Grant::default());
            User { name, walk, granted, rank: rank(order, view, name, granted, now) }
        };
        let users = queues.iter().map(new).collect();
        let mut all = UserWalk { view, now, order, users, next: BTreeSet::new(), current: 0 };
        // A single user needs no ranking, which spares most policies the set.
        if all.users.len() > 1 {
            (0..all.users.len()).for_each(|user| all.enter(user));
        }
        all
    }

    /// Next item, and the user whose queue it is in. As with [`Walk`], the caller decides how the walk continues there.
    pub(super) fn next(&mut self) -> Option<(&'q str, QueueItem)> {
        if self.users.len() > 1 {
            // The previous call took the current user out of the set, and head and rank may have changed since. A grant changes
            // nobody else's, so no other entry is stale. At first the user is still in the set, under this very entry.
            self.enter(self.current);
            self.current = self.next.pop_first()?.3;
        }
        let user = self.users.get_mut(self.current)?;
        user.walk.next().map(|item| (user.name, item))
    }

    /// Key of the next item, if there is a single queue.
    pub(super) fn peek(&mut self) -> Option<Key> {
        self.users.first_mut()?.walk.peek().map(|(key, _)| key)
    }

    /// Continues behind the entry returned last.
    pub(super) fn skip(&mut self, item: QueueItem) {
        self.users[self.current].walk.skip(item);
    }

    /// Continues with the next task of the entry returned last.
    pub(super) fn next_of_cohort(&mut self, item: QueueItem) {
        self.users[self.current].walk.next_of_cohort(self.view, item);
    }

    /// Grants the current user resources, which may put other users before them.
    pub(super) fn grant(&mut self, grant: Grant) {
        let user = &mut self.users[self.current];
        user.granted.resources += grant.resources;
        user.granted.rate += grant.rate;
        // The user is not in the set now, so their rank may change; `next` enters them under the new one.
        user.rank = rank(self.order, self.view, user.name, user.granted, self.now);
    }

    /// Next time at which the order of the users changes without an event, counting what they were granted.
    pub(super) fn changes_at(mut self) -> Option<Time> {
        let order = self.order?;
        // In the order that the plan leaves behind, which may differ from the one the walk began with.
        self.users.sort_by_key(|user| user.rank);
        let users: Vec<_> = self.users.iter().map(|user| (user.name, user.granted)).collect();
        order.changes_at(self.view, &users, self.now)
    }

    fn enter(&mut self, at: usize) {
        let user = &mut self.users[at];
        // A user whose queue is at its end leaves the walk. Users of equal rank go in the order of the heads of their queues.
        if let Some((key, task)) = user.walk.peek() {
            self.next.insert((user.rank, key, task, at));
        }
    }
}

fn rank(order: Option<&dyn UserOrder>, view: View<'_>, user: &str, granted: Grant, now: Time) -> Key {
    order.map_or(Key::ARRIVAL, |order| Key::ascending(order.rank(view, user, granted, now)))
}
