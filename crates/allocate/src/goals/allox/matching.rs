//! The cheapest matching of jobs to places in queues, and the worths and prices that prove it.

use crate::problem::Problem;

/// Every job's place, and what proves that none is cheaper: a job in a place costs at least its worth and the place's price.
pub(super) struct Matched {
    /// The type and the place from its queue's end of every job.
    pub(super) of: Vec<(usize, usize)>,
    /// What every job costs at least, before its place's price.
    pub(super) worth: Vec<f64>,
    /// Prices, none above 0, of every type's places, the last of the queue first.
    pub(super) places: Vec<Vec<f64>>,
}

/// Places of one type as far from the end: as many as there are GPUs.
struct Slot {
    gpu_type: usize,
    from_end: usize,
    room: usize,
    jobs: Vec<usize>,
    price: f64,
}

/// The assignment problem, jobs to slots, by shortest augmenting paths (Kuhn and Munkres; Jonker and Volgenant).
pub(super) struct Matching<'a> {
    problem: &'a Problem,
    steps: &'a [f64],
    slots: Vec<Slot>,
    worth: Vec<f64>,
    place: Vec<Option<usize>>,
}

impl<'a> Matching<'a> {
    pub(super) fn new(problem: &'a Problem, steps: &'a [f64]) -> Self {
        let mut slots = Vec::new();
        for (gpu_type, &count) in problem.capacity.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            for from_end in 1..=problem.n.div_ceil(count as usize) {
                slots.push(Slot { gpu_type, from_end, room: count as usize, jobs: Vec::new(), price: 0.0 });
            }
        }
        let (worth, place) = (vec![0.0; problem.n], vec![None; problem.n]);
        Self { problem, steps, slots, worth, place }
    }

    fn cost(&self, job: usize, slot: usize) -> f64 {
        let Slot { gpu_type, from_end, .. } = self.slots[slot];
        let speed = self.problem.row(job)[gpu_type];
        if speed > 0.0 { from_end as f64 * self.steps[job] / speed } else { f64::INFINITY }
    }

    pub(super) fn solve(mut self) -> Matched {
        for job in 0..self.problem.n {
            self.insert(job);
        }
        let mut places = vec![Vec::new(); self.problem.k];
        for slot in &self.slots {
            places[slot.gpu_type].push(slot.price.min(0.0));
        }
        let of = self.place.iter().map(|place| {
            // An instance has a type for every job, and each type has places for all.
            let slot = &self.slots[place.expect("every job has a place")];
            (slot.gpu_type, slot.from_end)
        });
        let of = of.collect();
        Matched { of, worth: self.worth, places }
    }

    fn insert(&mut self, job: usize) {
        let slots = self.slots.len();
        let (mut nearest, mut via) = (vec![f64::INFINITY; slots], vec![job; slots]);
        let mut reached = vec![false; slots];
        let mut tree = vec![job];
        let mut fresh = 0;
        let end = loop {
            for &row in &tree[fresh..] {
                for slot in (0..slots).filter(|&s| !reached[s]) {
                    let far = self.cost(row, slot) - self.worth[row] - self.slots[slot].price;
                    if far < nearest[slot] {
                        (nearest[slot], via[slot]) = (far, row);
                    }
                }
            }
            fresh = tree.len();
            let next = (0..slots).filter(|&s| !reached[s]).min_by(|&a, &b| nearest[a].total_cmp(&nearest[b]));
            let Some(next) = next.filter(|&s| nearest[s].is_finite()) else { return };
            let step = nearest[next];
            tree.iter().for_each(|&row| self.worth[row] += step);
            for slot in 0..slots {
                if reached[slot] { self.slots[slot].price -= step } else { nearest[slot] -= step }
            }
            reached[next] = true;
            if self.slots[next].jobs.len() < self.slots[next].room {
                break next;
            }
            tree.extend(&self.slots[next].jobs);
        };
        let mut slot = end;
        loop {
            let row = via[slot];
            let before = self.place[row].replace(slot);
            self.slots[slot].jobs.push(row);
            let Some(before) = before else { return };
            self.slots[before].jobs.retain(|&other| other != row);
            slot = before;
        }
    }
}
