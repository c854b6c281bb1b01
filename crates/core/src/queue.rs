//! Queue of ready tasks, in order, kept up to date event by event.
//!
//! Tasks with equal needs share a sub-queue: if the first of a sub-queue does not fit, none behind it does. A plan
//! therefore looks at the heads of sub-queues, and its cost grows with what it starts, not with what waits.

use crate::cluster::{ReadyTask, View};
use crate::ids::{NodeId, TaskId};
use crate::ranked::{Ranked, Weight};
use crate::small::{self, SmallMap};
use crate::spec::Needs;
use crate::time::Span;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

/// Sort key of a task; the smallest goes first. On equal keys, the task submitted earlier does.
///
/// ```
/// use warpyard_core::queue::Key;
/// let urgent = Key::descending(5.0).then(10.0);
/// let usual = Key::descending(0.0).then(1.0);
/// assert!(urgent < usual);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64, u64);

impl Key {
    /// Key that is equal for all tasks: arrival alone decides.
    pub const ARRIVAL: Key = Key(0, 0);

    /// Key that puts small values first.
    pub fn ascending(x: f64) -> Key {
        Key(ordered(x), 0)
    }

    /// Key that puts large values first.
    pub fn descending(x: f64) -> Key {
        Key(!ordered(x), 0)
    }

    /// Key that puts large integers first.
    pub fn urgent(priority: i64) -> Key {
        Key(!(priority as u64 ^ (1 << 63)), 0)
    }

    /// Key that puts small values first among equals.
    pub fn then(self, x: f64) -> Key {
        Key(self.0, ordered(x))
    }
}

/// Text form of a key, for a client that continues from a queue position later.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.0, self.1)
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Key, ParseKeyError> {
        let (first, then) = text.split_once('-').ok_or(ParseKeyError)?;
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| ParseKeyError);
        Ok(Key(number(first)?, number(then)?))
    }
}

/// The text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseKeyError;

/// Integer whose order is the order of the float.
fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// Entry of a sub-queue: a task to retry, or all tasks of a node that never started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueEntry {
    /// Number of tasks.
    pub count: u32,
    /// Expected run time of each.
    pub expected: Span,
    /// How many more tasks of the node may be on workers at once.
    pub room: u32,
}

impl Weight for QueueEntry {
    fn weight(&self) -> u64 {
        u64::from(self.count)
    }
}

/// Sub-queue: tasks with equal needs, in order.
#[derive(Clone, Debug)]
pub struct SubQueue {
    /// Needs of each task.
    pub needs: Needs,
    /// Class that the policy put them in.
    pub class: u8,
    /// User whose limits apply to them, if any do.
    pub limited: Option<Box<str>>,
    waiting: Ranked<(Key, TaskId), QueueEntry>,
    /// Number of tasks.
    count: u64,
    /// Whether it is listed among the empty sub-queues.
    listed_empty: bool,
}

impl SubQueue {
    /// Number of tasks in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn enter(&mut self, at: (Key, TaskId), waiting: QueueEntry) {
        self.count += u64::from(waiting.count);
        self.waiting.insert(at, waiting);
    }

    fn leave(&mut self, at: (Key, TaskId)) {
        self.count -= self.waiting.remove(&at).map_or(0, |waiting| u64::from(waiting.count));
    }
}

/// Number of empty sub-queues that are kept for the next task with the same needs, which then costs no allocation.
const EMPTY_KEPT: usize = 64;

/// Entry of a node. Each waiting job has one, so that it names its first task by its index alone.
#[derive(Clone, Copy, Debug)]
struct NodeEntry {
    key: Key,
    sub_queue: u32,
    /// Index of the first task.
    index: u32,
}

/// Entries of a node.
type NodeEntries = SmallVec<[NodeEntry; 1]>;

/// Key of a sub-queue among those of equal needs: class, and user whose limits apply.
type SubQueueKey = (u8, Option<Box<str>>);

/// Queue: all sub-queues.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    sub_queues: Vec<SubQueue>,
    /// Sub-queues by needs, then by class and limited user.
    by_needs: BTreeMap<Needs, SmallMap<SubQueueKey, usize>>,
    /// Empty sub-queues, the longest empty first; they may be reused.
    empty: VecDeque<usize>,
    nodes: SmallMap<NodeId, NodeEntries>,
    heads: SmallMap<(Key, TaskId, usize), ()>,
}

impl Queue {
    /// Updates a node's entries.
    pub fn sync(&mut self, view: View<'_>, node: NodeId, place: impl Fn(&ReadyTask<'_>) -> (Key, u8)) {
        for NodeEntry { key, sub_queue, index } in self.nodes.remove(&node).unwrap_or_default() {
            self.change(sub_queue as usize, |sub_queue| sub_queue.leave((key, node.task(index))));
        }
        if !view.has_ready(node) {
            return;
        }
        let limited = view.limited(node.job);
        let mut entries = NodeEntries::new();
        for ready in view.ready(node) {
            let (key, class) = place(&ready);
            let sub_queue = self.sub_queue_for(&ready.spec.needs, class, limited);
            let waiting = QueueEntry { count: ready.count, expected: ready.expected(), room: ready.room };
            self.change(sub_queue, |sub_queue| sub_queue.enter((key, ready.task), waiting));
            entries.push(NodeEntry { key, sub_queue: sub_queue as u32, index: ready.task.index });
        }
        if !entries.is_empty() {
            self.nodes.insert(node, entries);
        }
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sub-queue and key of a task.
    pub fn find(&self, task: TaskId) -> Option<(usize, Key)> {
        let entries = self.nodes.get(&task.node_id())?;
        let own = entries.iter().find(|entry| entry.index == task.index);
        own.or_else(|| entries.iter().rfind(|entry| entry.index < task.index))
            .map(|entry| (entry.sub_queue as usize, entry.key))
    }

    /// Key and task of a node's first entry.
    pub fn find_first(&self, node: NodeId) -> Option<(Key, TaskId)> {
        self.nodes.get(&node)?.iter().map(|entry| (entry.key, node.task(entry.index))).min()
    }

    /// Number of tasks before one with this key.
    pub fn ahead(&self, view: View<'_>, key: Key, task: TaskId) -> u64 {
        let fresh = view.job(task.job).map(|job| &job.nodes[task.node as usize].fresh);
        let fresh = fresh.filter(|fresh| fresh.contains(task.index));
        // The fresh tasks of a node are one entry, at the position of the first of them.
        let mut entries = self.nodes.get(&task.node_id()).into_iter().flatten();
        let cohort = fresh.and_then(|fresh| entries.find(|e| e.key == key && fresh.contains(e.index)));
        let entry = cohort.map_or(task, |e| task.node_id().task(e.index));
        self.before(&(key, entry)) + fresh.map_or(0, |fresh| fresh.below(task.index))
    }

    /// Number of tasks before a position.
    fn before(&self, place: &(Key, TaskId)) -> u64 {
        self.sub_queues.iter().map(|sub_queue| sub_queue.waiting.weight_below(place)).sum()
    }

    /// Entries after a position (whether or not a task still has it), or from the start, each with the number of
    /// tasks before it.
    pub fn entries_after(
        &self,
        after: Option<(Key, TaskId)>,
    ) -> impl Iterator<Item = (Key, TaskId, u64)> + '_ {
        let mut before = after.as_ref().map_or(0, |after| {
            let here = self.sub_queues.iter().filter_map(|sub_queue| sub_queue.waiting.get(after));
            self.before(after) + here.map(Weight::weight).sum::<u64>()
        });
        let first = |(at, sub_queue): (usize, &SubQueue)| {
            let next = match &after {
                Some(after) => sub_queue.waiting.after(after),
                None => sub_queue.waiting.first(),
            };
            next.map(|(place, _)| (*place, at))
        };
        let mut heads: BTreeSet<((Key, TaskId), usize)> =
            self.sub_queues.iter().enumerate().filter_map(first).collect();
        std::iter::from_fn(move || {
            let (place, at) = heads.pop_first()?;
            let waiting = &self.sub_queues[at].waiting;
            heads.extend(waiting.after(&place).map(|(next, _)| (*next, at)));
            let ahead = before;
            before += waiting.get(&place).map_or(0, Weight::weight);
            Some((place.0, place.1, ahead))
        })
    }

    /// Sub-queue with this index.
    pub fn sub_queue(&self, at: usize) -> &SubQueue {
        &self.sub_queues[at]
    }

    /// Sub-queues that are not empty.
    pub fn sub_queues(&self) -> impl Iterator<Item = &SubQueue> {
        self.sub_queues.iter().filter(|sub_queue| sub_queue.count > 0)
    }

    /// First few tasks of each sub-queue, in order of their heads.
    pub fn heads(&self, each: usize) -> impl Iterator<Item = TaskId> + '_ {
        let sub_queues = self.heads.keys().map(|(_, _, sub_queue)| &self.sub_queues[*sub_queue].waiting);
        sub_queues.flat_map(move |waiting| waiting.keys().take(each).map(|(_, task)| *task))
    }

    fn sub_queue_for(&mut self, needs: &Needs, class: u8, limited: Option<&str>) -> usize {
        let kind: SubQueueKey = (class, limited.map(Box::from));
        if let Some(&at) = self.by_needs.get(needs).and_then(|kinds| kinds.get(&kind)) {
            return at;
        }
        let limited = kind.1.clone();
        let sub_queue = SubQueue {
            needs: needs.clone(),
            class,
            limited,
            waiting: Ranked::default(),
            count: 0,
            listed_empty: false,
        };
        let at = match self.free_sub_queue() {
            Some(at) => {
                self.sub_queues[at] = sub_queue;
                at
            }
            None => {
                self.sub_queues.push(sub_queue);
                self.sub_queues.len() - 1
            }
        };
        self.by_needs.entry(needs.clone()).or_default().insert(kind, at);
        at
    }

    /// Frees an empty sub-queue, if more than enough are kept.
    fn free_sub_queue(&mut self) -> Option<usize> {
        while self.empty.len() > EMPTY_KEPT {
            let at = self.empty.pop_front()?;
            let sub_queue = &mut self.sub_queues[at];
            sub_queue.listed_empty = false;
            if sub_queue.waiting.is_empty() {
                let kinds = self.by_needs.get_mut(&sub_queue.needs)?;
                kinds.remove(&(sub_queue.class, sub_queue.limited.clone()));
                if kinds.is_empty() {
                    self.by_needs.remove(&sub_queue.needs);
                }
                return Some(at);
            }
        }
        None
    }

    /// Changes a sub-queue and updates the index of heads.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut SubQueue)) {
        let sub_queue = &mut self.sub_queues[at];
        let before = sub_queue.waiting.first().map(|(&k, _)| k);
        change(sub_queue);
        let after = sub_queue.waiting.first().map(|(&k, _)| k);
        if before == after {
            return;
        }
        if let Some((key, task)) = before {
            self.heads.remove(&(key, task, at));
        }
        match after {
            Some((key, task)) => {
                self.heads.insert((key, task, at), ());
            }
            None => {
                if !std::mem::replace(&mut self.sub_queues[at].listed_empty, true) {
                    self.empty.push_back(at);
                }
            }
        }
    }
}

/// Entry met on a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueItem {
    /// Index of its sub-queue.
    pub sub_queue: usize,
    /// Key of the entry.
    pub key: Key,
    /// First of the tasks it stands for.
    pub entry: TaskId,
    /// Current task.
    pub task: TaskId,
    /// Expected run time.
    pub expected: Span,
    /// How many more tasks of its node may be on workers at once.
    pub room: u32,
}

/// Walk through the queue in order, on which the caller may leave a sub-queue or step through the tasks of an entry.
pub struct Walk<'q> {
    queue: &'q Queue,
    heads: std::iter::Peekable<small::Iter<'q, (Key, TaskId, usize), ()>>,
    /// Sub-queues entered: the next item of each.
    entered: BTreeMap<(Key, TaskId, usize), QueueItem>,
}

impl<'q> Walk<'q> {
    /// Walk from the start.
    pub fn new(queue: &'q Queue) -> Walk<'q> {
        Walk { queue, heads: queue.heads.iter().peekable(), entered: BTreeMap::new() }
    }

    /// Position that [`Walk::next`] would return, without advancing.
    pub fn peek(&mut self) -> Option<(Key, TaskId)> {
        let head = self.heads.peek().map(|&(&(key, task, _), ())| (key, task));
        let entered = self.entered.first_key_value().map(|(&(key, task, _), _)| (key, task));
        match (head, entered) {
            (Some(head), Some(entered)) => Some(head.min(entered)),
            (head, entered) => head.or(entered),
        }
    }

    /// Next item. How the walk continues in its sub-queue is up to the caller: [`Walk::skip`] continues behind the
    /// entry, [`Walk::next_of_cohort`] with its next task, and doing neither leaves the sub-queue.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not be steered between two items")]
    pub fn next(&mut self) -> Option<QueueItem> {
        let fresh_first = match (self.heads.peek(), self.entered.first_key_value()) {
            (Some(&(&head, ())), Some((&entered, _))) => head < entered,
            (head, _) => head.is_some(),
        };
        if !fresh_first {
            return self.entered.pop_first().map(|(_, item)| item);
        }
        let (&(key, task, sub_queue), ()) = self.heads.next()?;
        let waiting =
            *self.queue.sub_queues[sub_queue].waiting.get(&(key, task)).expect("a head is in its sub-queue");
        Some(QueueItem { sub_queue, key, entry: task, task, expected: waiting.expected, room: waiting.room })
    }

    /// Continues behind an entry in its sub-queue.
    pub fn skip(&mut self, item: QueueItem) {
        let sub_queue = &self.queue.sub_queues[item.sub_queue].waiting;
        let next = sub_queue.after(&(item.key, item.entry));
        if let Some((&(key, task), waiting)) = next {
            let QueueEntry { expected, room, .. } = *waiting;
            self.begin(QueueItem { sub_queue: item.sub_queue, key, entry: task, task, expected, room });
        }
    }

    /// Continues with the next task of the same entry, or behind the entry if that was the last.
    pub fn next_of_cohort(&mut self, view: View<'_>, item: QueueItem) {
        let task = item.task;
        let fresh = view.job(task.job).map(|job| &job.nodes[task.node as usize].fresh);
        let sibling = fresh.filter(|f| f.contains(task.index)).and_then(|f| f.next_from(task.index + 1));
        match sibling {
            Some(index) => self.begin(QueueItem { task: task.node_id().task(index), ..item }),
            None => self.skip(item),
        }
    }

    fn begin(&mut self, item: QueueItem) {
        self.entered.insert((item.key, item.task, item.sub_queue), item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_order_as_their_numbers_do(a in -1e18f64..1e18, b in -1e18f64..1e18, p: i64, q: i64) {
            prop_assert_eq!(Key::ascending(a).cmp(&Key::ascending(b)), a.total_cmp(&b));
            prop_assert_eq!(Key::descending(a).cmp(&Key::descending(b)), b.total_cmp(&a));
            prop_assert_eq!(Key::urgent(p).cmp(&Key::urgent(q)), q.cmp(&p));
        }
    }
}
