//! Genome of a schedule for the searches: a topological order and a machine per task. Inserting the tasks in that
//! order decodes it.

use super::search_context::start_order;
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::schedule::Schedule;

/// Topological order and machine of every task.
#[derive(Debug, Clone)]
pub(super) struct Genome {
    pub(super) order: Vec<u32>,
    pub(super) machine: Vec<u32>,
}

impl Genome {
    /// Encodes a schedule: its tasks by start.
    pub(super) fn of(instance: &Instance, schedule: &Schedule) -> Self {
        let machine = schedule.slots.iter().map(|slot| slot.machine).collect();
        Self { order: start_order(instance, schedule), machine }
    }

    /// One-point crossover of the orders: a prefix of `self`, then the remaining tasks in the order of `other`. A
    /// prefix of a topological order followed by the others in a topological order is topological again.
    pub(super) fn cross(&self, other: &Self, draw: &mut SplitMix64) -> Self {
        let head = draw.index(self.order.len() + 1);
        let mut taken = vec![false; self.order.len()];
        let mut order = self.order[..head].to_vec();
        order.iter().for_each(|task| taken[*task as usize] = true);
        order.extend(other.order.iter().filter(|task| !taken[**task as usize]));
        // Machines are exchanged in a contiguous range of the order, so that tasks placed together stay together.
        let mut machine = self.machine.clone();
        let (a, b) = (draw.index(machine.len() + 1), draw.index(machine.len() + 1));
        let stretch = a.min(b)..a.max(b);
        for task in &order[stretch] {
            machine[*task as usize] = other.machine[*task as usize];
        }
        Self { order, machine }
    }

    /// Moves up to `most` tasks within their precedence window or to other machines.
    pub(super) fn mutate(&mut self, instance: &Instance, most: usize, draw: &mut SplitMix64) {
        let tasks = self.order.len();
        let mut position = vec![0usize; tasks];
        self.order.iter().enumerate().for_each(|(at, task)| position[*task as usize] = at);
        for _ in 0..1 + draw.index(most) {
            let task = draw.index(tasks);
            if draw.below(2) == 0 {
                self.machine[task] = random_cheap_machine(instance, task, draw);
            } else {
                self.shift(instance, task, &mut position, draw);
            }
        }
    }

    /// Moves a task to a random position between its last predecessor and its first successor.
    fn shift(&mut self, instance: &Instance, task: usize, position: &mut [usize], draw: &mut SplitMix64) {
        /// Longest move in positions: longer ones cost more time than they gain.
        const MAX_SHIFT: usize = 500;
        let at = position[task];
        let place = |edge: &(u32, f64)| position[edge.0 as usize];
        let low = instance.predecessors(task).iter().map(place).max().map_or(0, |last| last + 1);
        let high = instance.successors(task).iter().map(place).min().unwrap_or(position.len());
        let (low, high) = (low.max(at.saturating_sub(MAX_SHIFT)), high.min(at + MAX_SHIFT + 1));
        let to = low + draw.index(high - low);
        if to < at {
            self.order[to..=at].rotate_right(1);
        } else {
            self.order[at..=to].rotate_left(1);
        }
        for place in at.min(to)..=at.max(to) {
            position[self.order[place] as usize] = place;
        }
    }
}

/// Cheapest of a few randomly drawn machines.
fn random_cheap_machine(instance: &Instance, task: usize, draw: &mut SplitMix64) -> u32 {
    let costs = instance.costs(task);
    let drawn = [0; 4].map(|_| draw.index(costs.len()));
    let few = 1 + draw.index(drawn.len());
    drawn[..few].iter().copied().min_by(|a, b| costs[*a].total_cmp(&costs[*b])).map_or(0, |m| m as u32)
}
