//! Adjacency lists of the edges and the topological order they imply.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Edge;

/// Adjacency in compressed rows: edges grouped by one end.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Adjacency {
    offset: Vec<u32>,
    pub(super) edges: Vec<(u32, f64)>,
}

impl Adjacency {
    pub(super) fn group(
        tasks: usize,
        edges: &[Edge],
        key: impl Fn(&Edge) -> u32,
        other: impl Fn(&Edge) -> u32,
    ) -> Self {
        let mut offset = vec![0u32; tasks + 1];
        for e in edges {
            offset[key(e) as usize + 1] += 1;
        }
        for i in 0..tasks {
            offset[i + 1] += offset[i];
        }
        let mut next = offset.clone();
        let mut grouped = vec![(0u32, 0.0); edges.len()];
        for e in edges {
            let slot = &mut next[key(e) as usize];
            grouped[*slot as usize] = (other(e), e.data);
            *slot += 1;
        }
        Self { offset, edges: grouped }
    }

    #[inline]
    pub(crate) fn of(&self, task: usize) -> &[(u32, f64)] {
        &self.edges[self.offset[task] as usize..self.offset[task + 1] as usize]
    }
}

/// Lexicographically least topological order and each task's position in it (Kahn's algorithm with a heap); or a
/// cycle, its first task repeated at the end.
pub(super) fn topological(
    successors: &Adjacency,
    predecessors: &Adjacency,
    tasks: usize,
) -> Result<(Vec<u32>, Vec<u32>), Vec<u32>> {
    let mut unmet: Vec<u32> = (0..tasks).map(|t| predecessors.of(t).len() as u32).collect();
    let entries = (0..tasks as u32).filter(|t| unmet[*t as usize] == 0);
    let mut ready: BinaryHeap<Reverse<u32>> = entries.map(Reverse).collect();
    let mut order = Vec::with_capacity(tasks);
    let mut position = vec![0u32; tasks];
    while let Some(Reverse(task)) = ready.pop() {
        position[task as usize] = order.len() as u32;
        order.push(task);
        for &(next, _) in successors.of(task as usize) {
            unmet[next as usize] -= 1;
            if unmet[next as usize] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    if order.len() < tasks { Err(find_cycle(predecessors, &unmet)) } else { Ok((order, position)) }
}

/// Cycle among the tasks that never became ready: each has such a predecessor, so walking back must repeat a task.
fn find_cycle(predecessors: &Adjacency, unmet: &[u32]) -> Vec<u32> {
    let stuck = |t: &u32| unmet[*t as usize] > 0;
    let Some(mut at) = (0..unmet.len() as u32).find(stuck) else { return Vec::new() };
    let mut seen = vec![usize::MAX; unmet.len()];
    let mut path = Vec::new();
    while seen[at as usize] == usize::MAX {
        seen[at as usize] = path.len();
        path.push(at);
        let Some(before) = predecessors.of(at as usize).iter().map(|e| e.0).find(stuck) else { return path };
        at = before;
    }
    let mut cycle = path.split_off(seen[at as usize]);
    cycle.push(at);
    cycle.reverse();
    cycle
}
