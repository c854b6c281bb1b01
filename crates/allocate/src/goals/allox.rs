//! Least average completion: jobs are matched to places in queues, one queue per GPU. A job k places before its queue's
//! end delays k completions, its own among them, by its length there; the cheapest matching is the best schedule. Who
//! is first in a queue runs now. Exact for jobs of one GPU; wider ones are matched alike and run where they fit.

use super::isolated::by_rule;
use super::{laid_out, steps};
use crate::answer::Answer;
use crate::goal::{GoalDef, Options, Sense, SolveError};
use crate::instance::Instance;
use crate::problem::Problem;

pub(crate) const DEF: GoalDef = GoalDef {
    name: "allox",
    summary: "least average completion time, by matching jobs to places in queues",
    source: "AlloX (Le et al., EuroSys 2020)",
    sense: Sense::Max,
    sharing: false,
    solve,
};

fn solve(instance: &Instance, options: Options) -> Result<Answer, SolveError> {
    let problem = laid_out(instance, options.types);
    let steps = steps(instance, DEF.name)?;
    let matched = Matching::new(&problem, &steps).solve();
    let mut shares = vec![0.0; problem.n * problem.k];
    for j in 0..problem.k {
        let mut queue: Vec<(usize, usize)> =
            (0..problem.n).filter(|&m| matched[m].0 == j).map(|m| (matched[m].1, m)).collect();
        // The furthest from the end comes first; the shorter of two as far.
        let length = |m: usize| steps[m] / problem.row(m)[j];
        queue.sort_by(|a, b| b.0.cmp(&a.0).then(length(a.1).total_cmp(&length(b.1))).then(a.1.cmp(&b.1)));
        let mut free = problem.capacity[j];
        for (_, m) in queue {
            if problem.gpus[m] <= free {
                free -= problem.gpus[m];
                shares[m * problem.k + j] = 1.0;
            }
        }
    }
    Ok(by_rule(instance, &problem, shares))
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
struct Matching<'a> {
    problem: &'a Problem,
    steps: &'a [f64],
    slots: Vec<Slot>,
    worth: Vec<f64>,
    place: Vec<Option<usize>>,
}

impl<'a> Matching<'a> {
    fn new(problem: &'a Problem, steps: &'a [f64]) -> Self {
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

    /// The type and the place from its queue's end of every job.
    fn solve(mut self) -> Vec<(usize, usize)> {
        for job in 0..self.problem.n {
            self.insert(job);
        }
        let found = |place: &Option<usize>| place.map(|s| (self.slots[s].gpu_type, self.slots[s].from_end));
        self.place.iter().map(|place| found(place).unwrap_or((usize::MAX, 0))).collect()
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
