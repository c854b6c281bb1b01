//! From classes back to jobs: the time of a class is spread evenly over its jobs, in as few pairs as possible.

use std::collections::BTreeMap;

use super::program::{Duals, Way, Ways};
use crate::goals::bottleneck;
use crate::instance::Instance;
use crate::problem::Problem;
use crate::solution::{Certificate, PairShare, Shares, Solution};

/// Every job's shares alone, and those of pairs.
pub(super) struct Spread {
    pub(super) alone: Vec<f64>,
    pub(super) pairs: BTreeMap<[usize; 2], Vec<f64>>,
    pub(super) types: usize,
}

impl Spread {
    pub(super) fn new(ways: &Ways, solution: &[f64], problem: &Problem) -> Self {
        let mut spread =
            Self { alone: vec![0.0; problem.n * problem.k], pairs: BTreeMap::new(), types: problem.k };
        for (way, &time) in ways.ways.iter().zip(solution) {
            if time > 1e-12 {
                spread.add(ways, way, time);
            }
        }
        spread.trim(problem);
        spread
    }

    fn add(&mut self, ways: &Ways, way: &Way, time: f64) {
        let jobs = |side: usize| &ways.classes[way.classes[side]].jobs;
        let (one, other) = (jobs(0), jobs(1));
        if !way.pair {
            for &m in one {
                self.alone[m * self.types + way.gpu_type] += time / one.len() as f64;
            }
        } else if way.classes[0] == way.classes[1] {
            // Everyone with the next one round the circle; two jobs are a circle of one pair.
            let n = one.len();
            let links = if n == 2 { 1 } else { n };
            for i in 0..links {
                self.pair(one[i], one[(i + 1) % n], way.gpu_type, time / links as f64);
            }
        } else {
            // Laid side by side, each job of one class overlaps few of the other.
            let (step, other_step) = (time / one.len() as f64, time / other.len() as f64);
            let (mut i, mut j, mut left, mut other_left) = (0, 0, step, other_step);
            while i < one.len() && j < other.len() {
                let overlap = left.min(other_left);
                if overlap > 1e-13 * time {
                    self.pair(one[i], other[j], way.gpu_type, overlap);
                }
                left -= overlap;
                other_left -= overlap;
                if left <= 1e-13 * time {
                    (i, left) = (i + 1, step);
                }
                if other_left <= 1e-13 * time {
                    (j, other_left) = (j + 1, other_step);
                }
            }
        }
    }

    fn pair(&mut self, a: usize, b: usize, gpu_type: usize, share: f64) {
        let row = self.pairs.entry([a.min(b), a.max(b)]).or_insert_with(|| vec![0.0; self.types]);
        row[gpu_type] += share;
    }

    /// Takes back what rounding gave out too much.
    fn trim(&mut self, problem: &Problem) {
        let k = self.types;
        let mut time: Vec<f64> = self.alone.chunks_exact(k).map(|row| row.iter().sum()).collect();
        let mut used = problem.usage(&self.alone);
        for ([a, b], row) in &self.pairs {
            let total: f64 = row.iter().sum();
            time[*a] += total;
            time[*b] += total;
            used.iter_mut().zip(row).for_each(|(used, share)| *used += problem.gpus[*a] * share);
        }
        let over_time = time.iter().copied().fold(1.0, f64::max);
        let over = |j: usize| (used[j] / problem.capacity[j].max(1e-300)).max(1.0) * over_time;
        let factors: Vec<f64> = (0..k).map(|j| 1.0 / over(j)).collect();
        let rows = self.alone.chunks_exact_mut(k).chain(self.pairs.values_mut().map(Vec::as_mut_slice));
        rows.for_each(|row| row.iter_mut().zip(&factors).for_each(|(share, factor)| *share *= factor));
    }

    /// The shares as an answer has them.
    pub(super) fn shares(self) -> (Shares, Vec<PairShare>) {
        let pairs = self.pairs.into_iter().map(|(jobs, shares)| PairShare { jobs, shares }).collect();
        (Shares::new(self.types, self.alone), pairs)
    }

    /// The answer, with the classes' prices handed down to their jobs.
    pub(super) fn answer(
        self,
        instance: &Instance,
        problem: &Problem,
        ways: &Ways,
        duals: &Duals,
        objective: f64,
    ) -> Solution {
        let mut speeds: Vec<f64> = (0..problem.n).map(|m| problem.throughput(m, &self.alone)).collect();
        let partners = super::PairSpeeds::new(instance);
        for ([a, b], row) in &self.pairs {
            for (j, share) in row.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                if let Some([x, y]) = partners.paired(&instance.jobs[*a], &instance.jobs[*b], j) {
                    speeds[*a] += x * share;
                    speeds[*b] += y * share;
                }
            }
        }
        let mut certificate = (vec![0.0; problem.n], vec![0.0; problem.n]);
        for (c, class) in ways.classes.iter().enumerate() {
            for &m in &class.jobs {
                (certificate.0[m], certificate.1[m]) = (duals.speed[c], duals.time[c]);
            }
        }
        let binding = (0..problem.n).filter(|&m| certificate.0[m] > 0.0).collect();
        let (allocation, pairs) = self.shares();
        Solution {
            objective,
            normalised: speeds.iter().zip(&problem.mean).map(|(speed, mean)| speed / mean).collect(),
            allocation,
            prices: duals.types.clone(),
            bottleneck: bottleneck(binding, &duals.types, objective),
            pairs,
            shortfalls: Vec::new(),
            certificate: Certificate::Jobs { speed: certificate.0, time: certificate.1 },
        }
    }
}
