//! Numeric form of an instance for the solvers: flat rows of speeds, with zeros wherever a job cannot run.

use crate::goal::TypeAwareness;
use crate::instance::Instance;

/// Numeric instance: `n` jobs on `k` types.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// Number of jobs.
    pub(crate) n: usize,
    /// Number of types.
    pub(crate) k: usize,
    /// Steps per second, `n` rows of `k`; 0 where the job needs more GPUs than the type has.
    pub(crate) speed: Vec<f64>,
    /// GPUs each job needs at once.
    pub(crate) gpus: Vec<f64>,
    /// Each job's weight.
    pub(crate) weight: Vec<f64>,
    /// P: mean speed of each job over the cluster's GPUs.
    pub(crate) mean: Vec<f64>,
    /// Speed of each job on its fastest type.
    pub(crate) fastest: Vec<f64>,
    /// GPUs of each type.
    pub(crate) capacity: Vec<f64>,
}

impl Problem {
    pub(crate) fn new(instance: &Instance, types: TypeAwareness) -> Self {
        let (n, k) = (instance.jobs.len(), instance.types.len());
        let capacity: Vec<f64> = instance.types.iter().map(|t| f64::from(t.count)).collect();
        let all: f64 = capacity.iter().sum();
        let mut speed = Vec::with_capacity(n * k);
        let mut mean = Vec::with_capacity(n);
        let mut fastest = Vec::with_capacity(n);
        for job in &instance.jobs {
            let p = job.throughputs.iter().zip(&capacity).map(|(t, c)| t * c).sum::<f64>() / all;
            let row = speed.len();
            speed.extend(job.throughputs.iter().zip(&capacity).map(|(&t, &c)| {
                let runs = t > 0.0 && f64::from(job.gpus) <= c;
                match (runs, types) {
                    (false, _) => 0.0,
                    (true, TypeAwareness::Aware) => t,
                    (true, TypeAwareness::Blind) => p,
                }
            }));
            mean.push(p);
            fastest.push(speed[row..].iter().copied().fold(0.0, f64::max));
        }
        Self {
            n,
            k,
            speed,
            gpus: instance.jobs.iter().map(|job| f64::from(job.gpus)).collect(),
            weight: instance.jobs.iter().map(|job| job.weight).collect(),
            mean,
            fastest,
            capacity,
        }
    }

    /// Speeds of job `m`.
    pub(crate) fn row(&self, m: usize) -> &[f64] {
        &self.speed[m * self.k..(m + 1) * self.k]
    }

    /// Speed of job `m` under shares `x`.
    pub(crate) fn throughput(&self, m: usize, x: &[f64]) -> f64 {
        self.row(m).iter().zip(&x[m * self.k..(m + 1) * self.k]).map(|(t, x)| t * x).sum()
    }

    /// Factor from a job's speed to its fair level, s / P.
    pub(crate) fn level_per_step(&self, m: usize) -> f64 {
        self.gpus[m] / self.mean[m]
    }

    /// GPUs of each type that shares `x` use.
    pub(crate) fn usage(&self, x: &[f64]) -> Vec<f64> {
        let mut usage = vec![0.0; self.k];
        for (m, row) in x.chunks_exact(self.k).enumerate() {
            for (u, share) in usage.iter_mut().zip(row) {
                *u += self.gpus[m] * share;
            }
        }
        usage
    }

    /// Scales down shares that exceed a job's time or a type's GPUs by rounding.
    pub(crate) fn trim(&self, x: &mut [f64]) {
        for row in x.chunks_exact_mut(self.k) {
            let total: f64 = row.iter().sum();
            if total > 1.0 {
                row.iter_mut().for_each(|share| *share /= total);
            }
        }
        let usage = self.usage(x);
        // A sum over many jobs is exact only to so many digits; summing in another order must not find an excess
        // either.
        let rounding = 1.0 - 1e-16 * (self.n + 16) as f64;
        for j in 0..self.k {
            if usage[j] > self.capacity[j] * rounding {
                let factor = self.capacity[j] * rounding / usage[j];
                x.chunks_exact_mut(self.k).for_each(|row| row[j] *= factor);
            }
        }
    }
}
