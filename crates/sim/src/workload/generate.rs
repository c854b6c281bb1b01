//! Workloads made from a seed: the same seed gives the same jobs on every machine.

use super::TraceJob;
use crate::random::Random;

/// How long jobs run, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// 10 to a power evenly drawn from this range.
    LogUniform {
        /// The smallest exponent.
        from: f64,
        /// The largest.
        to: f64,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Half of them are shorter than this.
        median: f64,
        /// The deviation of the natural logarithm.
        deviation: f64,
    },
    /// Drawn from these.
    Empirical(Vec<f64>),
}

/// What a workload is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// How many jobs there are.
    pub jobs: u64,
    /// The mean time between two of them in seconds, exponential; 0 submits all at once.
    pub gap: f64,
    /// How long they run.
    pub lengths: Lengths,
    /// How many GPUs they want, each with its weight.
    pub gpus: Vec<(u16, f64)>,
    /// The timeout is the run time times something evenly drawn between 1 and this.
    pub overestimate: f64,
    /// Priorities from 0 up to below this, evenly drawn.
    pub priorities: u64,
    /// How many users there are.
    pub users: u64,
}

impl Default for Generator {
    fn default() -> Generator {
        Generator {
            jobs: 1000,
            gap: 25.0,
            lengths: Lengths::LogUniform { from: 1.0, to: 3.0 },
            gpus: vec![(1, 1.0)],
            overestimate: 1.0,
            priorities: 1,
            users: 1,
        }
    }
}

impl Generator {
    /// The jobs, in order of submission.
    pub fn generate(self, seed: u64) -> impl Iterator<Item = TraceJob> {
        let mut random = Random::new(seed);
        let mut at = 0.0;
        (0..self.jobs).map(move |_| {
            if self.gap > 0.0 {
                at += random.exponential(self.gap);
            }
            let runs = self.lengths.draw(&mut random);
            let gpus = weighted(&self.gpus, random.unit());
            let timeout = Some(runs * (1.0 + (self.overestimate - 1.0) * random.unit()));
            let priority = random.below(self.priorities.max(1)) as i64;
            let user = format!("user{}", random.below(self.users.max(1)) + 1);
            TraceJob { submitted: at, runs, timeout, gpus, gpu_memory: None, priority, user }
        })
    }
}

impl Lengths {
    fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Lengths::LogUniform { from, to } => 10f64.powf(from + (to - from) * random.unit()),
            Lengths::LogNormal { median, deviation } => median * (deviation * random.normal()).exp(),
            Lengths::Empirical(of) => of.get(random.below(of.len() as u64) as usize).copied().unwrap_or(0.0),
        }
    }
}

fn weighted(of: &[(u16, f64)], at: f64) -> u16 {
    let total: f64 = of.iter().map(|(_, weight)| weight).sum();
    let mut left = at * total;
    for &(value, weight) in of {
        left -= weight;
        if left < 0.0 {
            return value;
        }
    }
    of.last().map_or(1, |(value, _)| *value)
}
