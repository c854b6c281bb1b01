//! A schedule as its searches hold it: an order that respects every edge, and a machine for every task.

use super::workbench::starts;
use crate::instance::Instance;
use crate::random::SplitMix64;
use crate::schedule::Schedule;

#[derive(Debug, Clone)]
pub(super) struct Genome {
    pub(super) order: Vec<u32>,
    pub(super) machine: Vec<u32>,
}

impl Genome {
    pub(super) fn of(instance: &Instance, schedule: &Schedule) -> Self {
        let machine = schedule.slots.iter().map(|slot| slot.machine).collect();
        Self { order: starts(instance, schedule), machine }
    }

    /// The head of `self`'s order, the rest in the order of `other`: each task still after those it waits for.
    pub(super) fn cross(&self, other: &Self, draw: &mut SplitMix64) -> Self {
        let head = draw.index(self.order.len() + 1);
        let mut taken = vec![false; self.order.len()];
        let mut order = self.order[..head].to_vec();
        order.iter().for_each(|task| taken[*task as usize] = true);
        order.extend(other.order.iter().filter(|task| !taken[**task as usize]));
        // Machines come in stretches, so that tasks that fit together stay together.
        let mut machine = self.machine.clone();
        let (a, b) = (draw.index(machine.len() + 1), draw.index(machine.len() + 1));
        let stretch = a.min(b)..a.max(b);
        for task in &order[stretch] {
            machine[*task as usize] = other.machine[*task as usize];
        }
        Self { order, machine }
    }

    /// Moves tasks as far as their edges let them, or sends them to other machines; `most` changes or fewer.
    pub(super) fn mutate(&mut self, instance: &Instance, most: usize, draw: &mut SplitMix64) {
        let tasks = self.order.len();
        let mut position = vec![0usize; tasks];
        self.order.iter().enumerate().for_each(|(at, task)| position[*task as usize] = at);
        for _ in 0..1 + draw.index(most) {
            let task = draw.index(tasks);
            if draw.below(2) == 0 {
                self.machine[task] = another_machine(instance, task, draw);
            } else {
                self.shift(instance, task, &mut position, draw);
            }
        }
    }

    /// Moves a task to a place between the last it waits for and the first that waits for it.
    fn shift(&mut self, instance: &Instance, task: usize, position: &mut [usize], draw: &mut SplitMix64) {
        /// Further moves cost more than they bring.
        const FAR: usize = 500;
        let at = position[task];
        let place = |edge: &(u32, f64)| position[edge.0 as usize];
        let low = instance.predecessors(task).iter().map(place).max().map_or(0, |last| last + 1);
        let high = instance.successors(task).iter().map(place).min().unwrap_or(position.len());
        let (low, high) = (low.max(at.saturating_sub(FAR)), high.min(at + FAR + 1));
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

/// The cheapest of a few machines drawn at random.
fn another_machine(instance: &Instance, task: usize, draw: &mut SplitMix64) -> u32 {
    let costs = instance.costs(task);
    let drawn = [0; 4].map(|_| draw.index(costs.len()));
    let few = 1 + draw.index(drawn.len());
    drawn[..few].iter().copied().min_by(|a, b| costs[*a].total_cmp(&costs[*b])).map_or(0, |m| m as u32)
}
