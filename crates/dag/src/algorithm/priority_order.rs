//! List order for priorities that need not decrease along edges: the ready task of highest priority first.

use std::collections::BinaryHeap;

use crate::instance::Instance;

/// Ready task in the heap: greater means higher priority, then lower index.
#[derive(PartialEq)]
struct ReadyTask {
    priority: f64,
    task: u32,
}

impl Eq for ReadyTask {}

impl PartialOrd for ReadyTask {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReadyTask {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.priority.total_cmp(&other.priority).then(other.task.cmp(&self.task))
    }
}

/// Topological order that always continues with the ready task of highest priority.
pub(crate) fn priority_order(instance: &Instance, priority: &[f64]) -> Vec<u32> {
    let ready_task = |task: u32| ReadyTask { priority: priority[task as usize], task };
    let mut unmet: Vec<u32> = (0..instance.tasks()).map(|t| instance.predecessors(t).len() as u32).collect();
    let entries = (0..instance.tasks() as u32).filter(|t| unmet[*t as usize] == 0);
    let mut ready: BinaryHeap<ReadyTask> = entries.map(ready_task).collect();
    let mut order = Vec::with_capacity(instance.tasks());
    while let Some(ReadyTask { task, .. }) = ready.pop() {
        order.push(task);
        for &(next, _) in instance.successors(task as usize) {
            unmet[next as usize] -= 1;
            if unmet[next as usize] == 0 {
                ready.push(ready_task(next));
            }
        }
    }
    order
}
