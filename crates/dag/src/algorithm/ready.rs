//! The order in which tasks become ready, the most urgent first: for priorities that do not follow the edges.

use std::collections::BinaryHeap;

use crate::instance::Instance;

/// A ready task; the more urgent is the greater, then the lower index.
#[derive(PartialEq)]
struct Waiting {
    priority: f64,
    task: u32,
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.priority.total_cmp(&other.priority).then(other.task.cmp(&self.task))
    }
}

/// All tasks, each after those it waits for, always the most urgent of those that are ready.
pub(crate) fn by_priority(instance: &Instance, priority: &[f64]) -> Vec<u32> {
    let waiting = |task: u32| Waiting { priority: priority[task as usize], task };
    let mut unmet: Vec<u32> = (0..instance.tasks()).map(|t| instance.predecessors(t).len() as u32).collect();
    let entries = (0..instance.tasks() as u32).filter(|t| unmet[*t as usize] == 0);
    let mut ready: BinaryHeap<Waiting> = entries.map(waiting).collect();
    let mut order = Vec::with_capacity(instance.tasks());
    while let Some(Waiting { task, .. }) = ready.pop() {
        order.push(task);
        for &(next, _) in instance.successors(task as usize) {
            unmet[next as usize] -= 1;
            if unmet[next as usize] == 0 {
                ready.push(waiting(next));
            }
        }
    }
    order
}
