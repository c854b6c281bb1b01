//! The tasks that wait for room, in order, kept up to date event by event.
//!
//! Tasks with the same needs stand in one line: if the first of a line does not fit, none behind it does. A plan
//! therefore looks at the heads of lines, and what it costs grows with what it starts, not with what waits.

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

/// Where a task stands in the order; smaller goes first. Ties go to the task submitted earlier.
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
    /// Everyone equal: arrival alone decides.
    pub const ARRIVAL: Key = Key(0, 0);

    /// Small values first.
    pub fn ascending(x: f64) -> Key {
        Key(ordered(x), 0)
    }

    /// Large values first.
    pub fn descending(x: f64) -> Key {
        Key(!ordered(x), 0)
    }

    /// Large integers first.
    pub fn urgent(priority: i64) -> Key {
        Key(!(priority as u64 ^ (1 << 63)), 0)
    }

    /// Among equals, small values first.
    pub fn then(self, x: f64) -> Key {
        Key(self.0, ordered(x))
    }
}

/// The key as text, for someone who goes on from a place in the order later.
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

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseKeyError;

/// A number whose order as an integer is the order of the float.
fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// A task in line, or all those of a node that never started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueEntry {
    /// How many there are.
    pub count: u32,
    /// How long each is taken to run.
    pub expected: Span,
    /// How many more of the node may be on workers at once.
    pub room: u32,
}

impl Weight for QueueEntry {
    fn weight(&self) -> u64 {
        u64::from(self.count)
    }
}

/// Tasks with the same needs, in order.
#[derive(Clone, Debug)]
pub struct SubQueue {
    /// What each needs.
    pub needs: Needs,
    /// What else sets them apart in the eyes of the policy.
    pub class: u8,
    /// Whose limits hold for them, where any do.
    pub limited: Option<Box<str>>,
    waiting: Ranked<(Key, TaskId), QueueEntry>,
    /// How many tasks that is.
    count: u64,
    /// Whether it is among those that became empty.
    left: bool,
}

impl SubQueue {
    /// How many tasks stand in it.
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

/// So many empty lines are kept for the next with the same needs: one who comes when nobody waits costs little then.
const LINES_KEPT: usize = 64;

/// Where the tasks of a node stand: in which line, and where in it.
type NodeEntries = SmallVec<[(usize, Key, TaskId); 1]>;

/// What sets lines of equal needs apart: the class, and whose limits hold.
type SubQueueKey = (u8, Option<Box<str>>);

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    lines: Vec<SubQueue>,
    /// Lines by needs, and by class and whose limits hold.
    by_needs: BTreeMap<Needs, SmallMap<SubQueueKey, usize>>,
    /// Lines that became empty, the longest ago first; someone may stand in them again.
    left: VecDeque<usize>,
    nodes: SmallMap<NodeId, NodeEntries>,
    heads: SmallMap<(Key, TaskId, usize), ()>,
}

impl Queue {
    /// Brings a node's entries up to date.
    pub fn sync(&mut self, view: View<'_>, node: NodeId, place: impl Fn(&ReadyTask<'_>) -> (Key, u8)) {
        for (line, key, task) in self.nodes.remove(&node).unwrap_or_default() {
            self.change(line, |line| line.leave((key, task)));
        }
        if !view.has_ready(node) {
            return;
        }
        let limited = view.limited(node.job);
        let mut entries = NodeEntries::new();
        for ready in view.ready(node) {
            let (key, class) = place(&ready);
            let line = self.line_for(&ready.spec.needs, class, limited);
            let waiting = QueueEntry { count: ready.count, expected: ready.expected(), room: ready.room };
            self.change(line, |line| line.enter((key, ready.task), waiting));
            entries.push((line, key, ready.task));
        }
        if !entries.is_empty() {
            self.nodes.insert(node, entries);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The line a task stands in and its place in the order.
    pub fn find(&self, task: TaskId) -> Option<(usize, Key)> {
        let entries = self.nodes.get(&task.node_id())?;
        let own = entries.iter().find(|(_, _, t)| *t == task);
        own.or_else(|| entries.iter().rfind(|(_, _, t)| *t < task)).map(|&(line, key, _)| (line, key))
    }

    /// The first of a node's tasks in line.
    pub fn find_first(&self, node: NodeId) -> Option<(Key, TaskId)> {
        self.nodes.get(&node)?.iter().map(|(_, key, task)| (*key, *task)).min()
    }

    /// How many tasks come before one that has this place in the order.
    pub fn ahead(&self, view: View<'_>, key: Key, task: TaskId) -> u64 {
        let fresh = view.job(task.job).map(|job| &job.nodes[task.node as usize].fresh);
        let fresh = fresh.filter(|fresh| fresh.contains(task.index));
        // Those of a node that never started stand there as one entry, where the first of them is.
        let mut entries = self.nodes.get(&task.node_id()).into_iter().flatten();
        let cohort = fresh.and_then(|fresh| entries.find(|e| e.1 == key && fresh.contains(e.2.index)));
        let entry = cohort.map_or(task, |e| e.2);
        self.before(&(key, entry)) + fresh.map_or(0, |fresh| fresh.below(task.index))
    }

    /// How many tasks stand in line before a place.
    fn before(&self, place: &(Key, TaskId)) -> u64 {
        self.lines.iter().map(|line| line.waiting.weight_below(place)).sum()
    }

    /// Entries behind a place in the order, whoever stands there now, or from the start: the place of each, and how many tasks
    /// are before it.
    pub fn entries_after(
        &self,
        after: Option<(Key, TaskId)>,
    ) -> impl Iterator<Item = (Key, TaskId, u64)> + '_ {
        let mut before = after.as_ref().map_or(0, |after| {
            let here = self.lines.iter().filter_map(|line| line.waiting.get(after));
            self.before(after) + here.map(Weight::weight).sum::<u64>()
        });
        let first = |(at, line): (usize, &SubQueue)| {
            let next = match &after {
                Some(after) => line.waiting.after(after),
                None => line.waiting.first(),
            };
            next.map(|(place, _)| (*place, at))
        };
        let mut heads: BTreeSet<((Key, TaskId), usize)> =
            self.lines.iter().enumerate().filter_map(first).collect();
        std::iter::from_fn(move || {
            let (place, at) = heads.pop_first()?;
            let waiting = &self.lines[at].waiting;
            heads.extend(waiting.after(&place).map(|(next, _)| (*next, at)));
            let ahead = before;
            before += waiting.get(&place).map_or(0, Weight::weight);
            Some((place.0, place.1, ahead))
        })
    }

    /// One line.
    pub fn line(&self, at: usize) -> &SubQueue {
        &self.lines[at]
    }

    /// All lines in which someone stands.
    pub fn lines(&self) -> impl Iterator<Item = &SubQueue> {
        self.lines.iter().filter(|line| line.count > 0)
    }

    /// The first few of each line, the lines in order of their heads.
    pub fn heads(&self, each: usize) -> impl Iterator<Item = TaskId> + '_ {
        let lines = self.heads.keys().map(|(_, _, line)| &self.lines[*line].waiting);
        lines.flat_map(move |waiting| waiting.keys().take(each).map(|(_, task)| *task))
    }

    fn line_for(&mut self, needs: &Needs, class: u8, limited: Option<&str>) -> usize {
        let kind: SubQueueKey = (class, limited.map(Box::from));
        if let Some(&at) = self.by_needs.get(needs).and_then(|kinds| kinds.get(&kind)) {
            return at;
        }
        let limited = kind.1.clone();
        let line = SubQueue {
            needs: needs.clone(),
            class,
            limited,
            waiting: Ranked::default(),
            count: 0,
            left: false,
        };
        let at = match self.give_up_a_line() {
            Some(at) => {
                self.lines[at] = line;
                at
            }
            None => {
                self.lines.push(line);
                self.lines.len() - 1
            }
        };
        self.by_needs.entry(needs.clone()).or_default().insert(kind, at);
        at
    }

    /// Gives up an empty line, if there are more than enough.
    fn give_up_a_line(&mut self) -> Option<usize> {
        while self.left.len() > LINES_KEPT {
            let at = self.left.pop_front()?;
            let line = &mut self.lines[at];
            line.left = false;
            if line.waiting.is_empty() {
                let kinds = self.by_needs.get_mut(&line.needs)?;
                kinds.remove(&(line.class, line.limited.clone()));
                if kinds.is_empty() {
                    self.by_needs.remove(&line.needs);
                }
                return Some(at);
            }
        }
        None
    }

    /// Changes a line and keeps the set of heads right.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut SubQueue)) {
        let line = &mut self.lines[at];
        let before = line.waiting.first().map(|(&k, _)| k);
        change(line);
        let after = line.waiting.first().map(|(&k, _)| k);
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
                if !std::mem::replace(&mut self.lines[at].left, true) {
                    self.left.push_back(at);
                }
            }
        }
    }
}

/// An entry met on a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueItem {
    /// Which line it stands in.
    pub line: usize,
    /// Its place in the order.
    pub key: Key,
    /// The entry's own task: the first of those it stands for.
    pub entry: TaskId,
    /// The task meant now.
    pub task: TaskId,
    /// How long it is taken to run.
    pub expected: Span,
    /// How many more of its node may be on workers at once.
    pub room: u32,
}

/// A way through the queue in order, on which lines can be left and cohorts entered task by task.
pub struct Walk<'q> {
    queue: &'q Queue,
    heads: std::iter::Peekable<small::Iter<'q, (Key, TaskId, usize), ()>>,
    /// Lines begun: the next item of each.
    begun: BTreeMap<(Key, TaskId, usize), QueueItem>,
}

impl<'q> Walk<'q> {
    /// A walk from the start.
    pub fn new(queue: &'q Queue) -> Walk<'q> {
        Walk { queue, heads: queue.heads.iter().peekable(), begun: BTreeMap::new() }
    }

    /// What [`Walk::next`] would come to, without going there.
    pub fn peek(&mut self) -> Option<(Key, TaskId)> {
        let head = self.heads.peek().map(|&(&(key, task, _), ())| (key, task));
        let begun = self.begun.first_key_value().map(|(&(key, task, _), _)| (key, task));
        match (head, begun) {
            (Some(head), Some(begun)) => Some(head.min(begun)),
            (head, begun) => head.or(begun),
        }
    }

    /// The next item; what happens to its line is then up to the caller: [`Walk::skip`] goes on behind it,
    /// [`Walk::next_of_cohort`] to its sibling, and doing nothing leaves the line.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not be steered between two items")]
    pub fn next(&mut self) -> Option<QueueItem> {
        let fresh_first = match (self.heads.peek(), self.begun.first_key_value()) {
            (Some(&(&head, ())), Some((&begun, _))) => head < begun,
            (head, _) => head.is_some(),
        };
        if !fresh_first {
            return self.begun.pop_first().map(|(_, item)| item);
        }
        let (&(key, task, line), ()) = self.heads.next()?;
        let waiting = *self.queue.lines[line].waiting.get(&(key, task)).expect("a head stands in its line");
        Some(QueueItem { line, key, entry: task, task, expected: waiting.expected, room: waiting.room })
    }

    /// Goes on behind an entry in its line.
    pub fn skip(&mut self, item: QueueItem) {
        let line = &self.queue.lines[item.line].waiting;
        let next = line.after(&(item.key, item.entry));
        if let Some((&(key, task), waiting)) = next {
            let QueueEntry { expected, room, .. } = *waiting;
            self.begin(QueueItem { line: item.line, key, entry: task, task, expected, room });
        }
    }

    /// Goes on with the next task of the same entry, or behind it if that was the last.
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
        self.begun.insert((item.key, item.task, item.line), item);
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
