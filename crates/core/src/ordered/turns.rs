//! Whose turn it is: the lines of several users gone through as one, always on with whoever ranks first.
//!
//! Most orders rank tasks, not users; all tasks then stand as if they were of one user, who always has the turn.

use crate::cluster::{View, rate_of};
use crate::ids::TaskId;
use crate::pool::{Placement, Pool, Resources};
use crate::queue::{Key, Queue, QueueItem, Walk};
use crate::spec::Needs;
use crate::time::Time;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// An order among users that changes with what they are given and as time goes on.
pub trait UserOrder {
    /// Smaller goes first. What was `given` to the user in the plan under way is not in the view yet.
    fn rank(&self, view: View<'_>, user: &str, given: Grant, now: Time) -> f64;

    /// When, after now, this order among users changes by itself; they come in their present order.
    fn changes_at(&self, view: View<'_>, users: &[(&str, Grant)], now: Time) -> Option<Time> {
        let _ = (view, users, now);
        None
    }
}

/// What a plan gives a user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Grant {
    /// Of the machines.
    pub held: Resources,
    /// Devices that will be in use by it, as accounts count them.
    pub rate: f64,
}

impl Grant {
    /// What a placement gives.
    pub(super) fn by(pool: &Pool, p: &Placement) -> Grant {
        let held = Resources::of(pool, p);
        Grant { held, rate: rate_of(pool, p, held) as f64 / Resources::DEVICE as f64 }
    }

    /// What a task would be given where devices are the smallest.
    pub(super) fn wanted(pool: &Pool, needs: &Needs) -> Grant {
        Grant { held: Resources::wanted(pool, needs), rate: 0.0 }
    }
}

/// A way through the lines of all users.
pub(super) struct UserWalk<'q, 'v> {
    view: View<'v>,
    now: Time,
    turns: Option<&'q dyn UserOrder>,
    users: SmallVec<[User<'q>; 1]>,
    /// Who is next: rank, the head of the user's line, and the user's place in the list.
    next: BTreeSet<(Key, Key, TaskId, usize)>,
    /// Whose item was given last.
    on: usize,
}

struct User<'q> {
    name: &'q str,
    walk: Walk<'q>,
    given: Grant,
    rank: Key,
}

impl<'q, 'v> UserWalk<'q, 'v> {
    pub(super) fn new(
        view: View<'v>,
        now: Time,
        queues: &'q BTreeMap<String, Queue>,
        turns: Option<&'q dyn UserOrder>,
    ) -> UserWalk<'q, 'v> {
        let new = |(name, queue): (&'q String, &'q Queue)| {
            let (walk, given) = (Walk::new(queue), Grant::default());
            User { name, walk, given, rank: rank(turns, view, name, given, now) }
        };
        let users = queues.iter().map(new).collect();
        let mut all = UserWalk { view, now, turns, users, next: BTreeSet::new(), on: 0 };
        if all.users.len() > 1 {
            (0..all.users.len()).for_each(|user| all.enter(user));
        }
        all
    }

    /// The next item and in whose line it stands; what happens to the line is up to the caller, as in a [`Walk`].
    pub(super) fn next(&mut self) -> Option<(&'q str, QueueItem)> {
        if self.users.len() > 1 {
            self.enter(self.on);
            self.on = self.next.pop_first()?.3;
        }
        let user = self.users.get_mut(self.on)?;
        user.walk.next().map(|item| (user.name, item))
    }

    /// The key of what comes next, where there is but one line to go through.
    pub(super) fn peek(&mut self) -> Option<Key> {
        self.users.first_mut()?.walk.peek().map(|(key, _)| key)
    }

    /// Goes on behind the entry given last.
    pub(super) fn skip(&mut self, item: QueueItem) {
        self.users[self.on].walk.skip(item);
    }

    /// Goes on with the next task of the entry given last.
    pub(super) fn next_of_cohort(&mut self, item: QueueItem) {
        self.users[self.on].walk.next_of_cohort(self.view, item);
    }

    /// The user whose item was given last gets something, and may be after others now.
    pub(super) fn gave(&mut self, what: Grant) {
        let user = &mut self.users[self.on];
        user.given.held += what.held;
        user.given.rate += what.rate;
        user.rank = rank(self.turns, self.view, user.name, user.given, self.now);
    }

    /// When the order of the users changes by itself, once they have what they were given.
    pub(super) fn changes_at(mut self) -> Option<Time> {
        let turns = self.turns?;
        self.users.sort_by_key(|user| user.rank);
        let users: Vec<_> = self.users.iter().map(|user| (user.name, user.given)).collect();
        turns.changes_at(self.view, &users, self.now)
    }

    fn enter(&mut self, at: usize) {
        let user = &mut self.users[at];
        if let Some((key, task)) = user.walk.peek() {
            self.next.insert((user.rank, key, task, at));
        }
    }
}

fn rank(turns: Option<&dyn UserOrder>, view: View<'_>, user: &str, given: Grant, now: Time) -> Key {
    turns.map_or(Key::ARRIVAL, |turns| Key::ascending(turns.rank(view, user, given, now)))
}
