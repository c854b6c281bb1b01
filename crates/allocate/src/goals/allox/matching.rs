//! Minimum-cost assignment of jobs to queue positions, with the duals that prove it.

use crate::problem::Problem;

/// Assignment and its duals: a job in a position costs at least its dual plus the price of the position.
pub(super) struct Assignment {
    /// Type and position from the queue's end of every job.
    pub(super) positions: Vec<(usize, usize)>,
    /// Dual of every job.
    pub(super) job_duals: Vec<f64>,
    /// Prices, none above 0, of every type's positions, the last of the queue first.
    pub(super) position_prices: Vec<Vec<f64>>,
}

/// Equal positions: as far from the end on one type, one per GPU.
struct PositionClass {
    gpu_type: usize,
    from_end: usize,
    room: usize,
    jobs: Vec<usize>,
    price: f64,
}

/// Assignment problem by shortest augmenting paths (Kuhn and Munkres; Jonker and Volgenant).
pub(super) struct AssignmentProblem<'a> {
    problem: &'a Problem,
    steps: &'a [f64],
    classes: Vec<PositionClass>,
    worth: Vec<f64>,
    place: Vec<Option<usize>>,
}

impl<'a> AssignmentProblem<'a> {
    pub(super) fn new(problem: &'a Problem, steps: &'a [f64]) -> Self {
        let mut classes = Vec::new();
        for (gpu_type, &count) in problem.capacity.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            for from_end in 1..=problem.n.div_ceil(count as usize) {
                classes.push(PositionClass {
                    gpu_type,
                    from_end,
                    room: count as usize,
                    jobs: Vec::new(),
                    price: 0.0,
                });
            }
        }
        let (worth, place) = (vec![0.0; problem.n], vec![None; problem.n]);
        Self { problem, steps, classes, worth, place }
    }

    fn cost(&self, job: usize, class: usize) -> f64 {
        let PositionClass { gpu_type, from_end, .. } = self.classes[class];
        let speed = self.problem.row(job)[gpu_type];
        if speed > 0.0 { from_end as f64 * self.steps[job] / speed } else { f64::INFINITY }
    }

    pub(super) fn solve(mut self) -> Assignment {
        for job in 0..self.problem.n {
            self.insert(job);
        }
        let mut position_prices = vec![Vec::new(); self.problem.k];
        for class in &self.classes {
            position_prices[class.gpu_type].push(class.price.min(0.0));
        }
        let positions = self.place.iter().map(|place| {
            // Every job runs on some type, and each type has positions for all jobs.
            let class = &self.classes[place.expect("every job has a place")];
            (class.gpu_type, class.from_end)
        });
        let positions = positions.collect();
        Assignment { positions, job_duals: self.worth, position_prices }
    }

    fn insert(&mut self, job: usize) {
        let classes = self.classes.len();
        let (mut distances, mut predecessors) = (vec![f64::INFINITY; classes], vec![job; classes]);
        let mut reached = vec![false; classes];
        let mut tree = vec![job];
        let mut scanned = 0;
        // Dijkstra over reduced costs from the new job until a class with a free position is reached; duals move along
        // so that reduced costs stay non-negative.
        let end = loop {
            for &row in &tree[scanned..] {
                for class in (0..classes).filter(|&s| !reached[s]) {
                    let distance = self.cost(row, class) - self.worth[row] - self.classes[class].price;
                    if distance < distances[class] {
                        (distances[class], predecessors[class]) = (distance, row);
                    }
                }
            }
            scanned = tree.len();
            let next =
                (0..classes).filter(|&s| !reached[s]).min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
            let Some(next) = next.filter(|&s| distances[s].is_finite()) else { return };
            let step = distances[next];
            tree.iter().for_each(|&row| self.worth[row] += step);
            for class in 0..classes {
                if reached[class] { self.classes[class].price -= step } else { distances[class] -= step }
            }
            reached[next] = true;
            if self.classes[next].jobs.len() < self.classes[next].room {
                break next;
            }
            tree.extend(&self.classes[next].jobs);
        };
        // Augment: every job on the path moves to the class it was reached through.
        let mut class = end;
        loop {
            let row = predecessors[class];
            let before = self.place[row].replace(class);
            self.classes[class].jobs.push(row);
            let Some(before) = before else { return };
            self.classes[before].jobs.retain(|&other| other != row);
            class = before;
        }
    }
}
