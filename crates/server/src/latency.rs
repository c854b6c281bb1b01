//! Latency histograms, exposed as Prometheus metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bucket bounds for steps of the engine, in seconds.
const QUICK: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// Bucket bounds for waiting times of tasks, in seconds.
const PATIENT: &[f64] = &[0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

/// The latency histograms of a server.
pub(crate) struct LatencyHistograms {
    /// Waiting time of a task: from ready to placed.
    pub(crate) wait: Histogram,
    /// Duration of a turn without its commit.
    pub(crate) plan: Histogram,
    /// Duration of the commit of a turn.
    pub(crate) commit: Histogram,
    /// Replication lag: from an event to its being visible in the replica.
    pub(crate) lag: Histogram,
}

impl Default for LatencyHistograms {
    fn default() -> LatencyHistograms {
        let quick = || Histogram::new(QUICK);
        LatencyHistograms { wait: Histogram::new(PATIENT), plan: quick(), commit: quick(), lag: quick() }
    }
}

/// A histogram with fixed buckets.
pub(crate) struct Histogram {
    ends: &'static [f64],
    /// Observations in each bucket, and beyond the last.
    counts: Vec<AtomicU64>,
    micros: AtomicU64,
}

impl Histogram {
    fn new(ends: &'static [f64]) -> Histogram {
        let counts = (0..=ends.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { ends, counts, micros: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let class = self.ends.partition_point(|end| *end < seconds);
        self.counts[class].fetch_add(1, Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Relaxed);
    }

    /// The cumulative count at each bound, the count of all observations, and their sum in seconds.
    pub(crate) fn read(&self) -> (Vec<(f64, u64)>, u64, f64) {
        let mut below = 0;
        let mut class = |(end, count): (&f64, &AtomicU64)| {
            below += count.load(Relaxed);
            (*end, below)
        };
        let buckets: Vec<_> = self.ends.iter().zip(&self.counts).map(&mut class).collect();
        let all = below + self.counts[self.ends.len()].load(Relaxed);
        (buckets, all, self.micros.load(Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_its_class_and_all_above() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 500, 2_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.read(), (vec![(0.1, 2), (1.0, 3)], 4, 2.65));
    }
}
