//! Throughput estimation for unmeasured combinations. Log speeds of profiles on types form a matrix of nearly low
//! rank: a profile is fast or slow, a type is fast or slow, and some profiles gain more from faster types than others.
//! Measured entries are completed by alternating least squares; a measurement always overrides its estimate.

mod interference;

pub use interference::{InterferenceEstimator, InterferenceModel};

use std::collections::BTreeMap;

/// Measured speeds by profile and type, and estimates for the others.
///
/// ```
/// use warpyard_allocate::Estimator;
/// let mut estimator = Estimator::new(2);
/// estimator.record("a", 0, 10.0);
/// estimator.record("a", 1, 20.0);
/// estimator.record("b", 0, 3.0);
/// let estimate = estimator.speeds("b").unwrap()[1];
/// assert!((estimate - 6.0).abs() < 0.5);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimator {
    types: usize,
    measured_speeds: BTreeMap<String, Vec<Option<f64>>>,
}

/// Ridge penalty on a row's deviation from its mean speed.
const RIDGE: f64 = 0.5;
const SWEEPS: usize = 60;

impl Estimator {
    /// Estimator for the given number of types.
    pub fn new(types: usize) -> Self {
        Self { types, measured_speeds: BTreeMap::new() }
    }

    /// Records a measured speed in steps per second; 0 means that the profile cannot run there. Invalid speeds are
    /// ignored.
    pub fn record(&mut self, profile: &str, gpu_type: usize, speed: f64) {
        if speed.is_finite() && speed >= 0.0 && gpu_type < self.types {
            let row =
                self.measured_speeds.entry(profile.to_owned()).or_insert_with(|| vec![None; self.types]);
            row[gpu_type] = Some(speed);
        }
    }

    /// Measured speed, if any.
    pub fn measured(&self, profile: &str, gpu_type: usize) -> Option<f64> {
        self.measured_speeds.get(profile)?.get(gpu_type).copied().flatten()
    }

    /// Speed of a profile on every type, measured or estimated; `None` for an unknown profile.
    pub fn speeds(&self, profile: &str) -> Option<Vec<f64>> {
        let row = self.measured_speeds.get(profile)?;
        row.iter().any(|speed| speed.is_some_and(|s| s > 0.0)).then(|| self.fit().complete(row))
    }

    /// Speeds of all profiles.
    pub fn all(&self) -> BTreeMap<&str, Vec<f64>> {
        let fit = self.fit();
        let any = |row: &&Vec<Option<f64>>| row.iter().any(|speed| speed.is_some_and(|s| s > 0.0));
        self.measured_speeds
            .iter()
            .filter(|(_, row)| any(row))
            .map(|(name, row)| (name.as_str(), fit.complete(row)))
            .collect()
    }

    fn fit(&self) -> Fit {
        let rows: Vec<Vec<(usize, f64)>> = self.measured_speeds.values().map(|row| logs(row)).collect();
        let mut fit = Fit { level: vec![0.0; self.types], slope: initial_slope(self.types) };
        for _ in 0..SWEEPS {
            let factors: Vec<(f64, f64)> = rows.iter().map(|row| fit.factors(row)).collect();
            fit.refit(&rows, &factors);
        }
        fit
    }
}

fn logs(row: &[Option<f64>]) -> Vec<(usize, f64)> {
    let log = |(j, speed): (usize, &Option<f64>)| speed.filter(|s| *s > 0.0).map(|s| (j, s.ln()));
    row.iter().enumerate().filter_map(log).collect()
}

/// Log speed of profile p on type j ≈ mean(p) + level(j) + gain(p)·slope(j).
struct Fit {
    level: Vec<f64>,
    slope: Vec<f64>,
}

/// Any non-constant start; the sweeps find the direction that matters.
fn initial_slope(types: usize) -> Vec<f64> {
    let middle = (types as f64 - 1.0) / 2.0;
    (0..types).map(|j| (j as f64 - middle) / types.max(1) as f64).collect()
}

impl Fit {
    /// Mean and gain of a row, by least squares over its measured entries.
    fn factors(&self, row: &[(usize, f64)]) -> (f64, f64) {
        let (mut n, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(j, log) in row {
            let (x, y) = (self.slope[j], log - self.level[j]);
            (n, sx, sy, sxx, sxy) = (n + 1.0, sx + x, sy + y, sxx + x * x, sxy + x * y);
        }
        if n == 0.0 {
            return (0.0, 0.0);
        }
        let gain = (sxy - sx * sy / n) / (sxx - sx * sx / n + RIDGE);
        ((sy - gain * sx) / n, gain)
    }

    /// Levels and slopes of the types, by least squares over all rows.
    fn refit(&mut self, rows: &[Vec<(usize, f64)>], factors: &[(f64, f64)]) {
        let mut sums = vec![[0.0; 5]; self.level.len()];
        for (row, (mean, gain)) in rows.iter().zip(factors) {
            for &(j, log) in row {
                let (x, y) = (*gain, log - mean);
                let more = [1.0, x, y, x * x, x * y];
                sums[j].iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        for (j, [n, sx, sy, sxx, sxy]) in sums.into_iter().enumerate().filter(|(_, sum)| sum[0] > 0.0) {
            self.slope[j] = (sxy - sx * sy / n) / (sxx - sx * sx / n + RIDGE);
            self.level[j] = (sy - self.slope[j] * sx) / n;
        }
    }

    fn complete(&self, row: &[Option<f64>]) -> Vec<f64> {
        let (mean, gain) = self.factors(&logs(row));
        let estimate = |j: usize| (mean + self.level[j] + gain * self.slope[j]).exp();
        row.iter().enumerate().map(|(j, measured)| measured.unwrap_or_else(|| estimate(j))).collect()
    }
}
