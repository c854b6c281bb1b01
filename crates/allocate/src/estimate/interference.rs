//! Interference estimation: the fraction of its speed a profile retains beside another on the same GPU, where the pair
//! was not measured. Some profiles suffer more and some cause more interference: a matrix of profile and partner per
//! type, completed as speeds on types are.

use super::Estimator;
use std::collections::BTreeMap;

/// Measured interference between profiles.
///
/// ```
/// use warpyard_allocate::InterferenceEstimator;
/// let mut interference = InterferenceEstimator::default();
/// interference.record("v100", "a", "b", 0.9);
/// interference.record("v100", "a", "c", 0.6);
/// interference.record("v100", "b", "a", 0.9);
/// let model = interference.complete();
/// assert_eq!(model.retained("v100", "a", "b"), Some(0.9));
/// let guess = model.retained("v100", "b", "c").unwrap();
/// assert!((0.5..0.8).contains(&guess), "{guess}");
/// assert_eq!(model.retained("v100", "d", "a"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct InterferenceEstimator {
    /// Column of each profile that ever had a partner.
    partners: BTreeMap<String, usize>,
    measured: BTreeMap<(String, String), BTreeMap<usize, f64>>,
}

/// Interference between profiles, with unmeasured pairs estimated.
#[derive(Debug, Clone)]
pub struct InterferenceModel {
    partners: BTreeMap<String, usize>,
    rows: BTreeMap<(String, String), Vec<f64>>,
}

/// Lower bound of an estimated fraction; the upper bound is 1.
const MIN_RETAINED: f64 = 0.01;

impl InterferenceEstimator {
    /// Records the fraction of its speed that a profile retains beside a partner on a type; 0 means that they cannot
    /// share.
    pub fn record(&mut self, gpu_type: &str, profile: &str, partner: &str, kept: f64) {
        self.column(profile);
        let column = self.column(partner);
        self.measured.entry((gpu_type.to_owned(), profile.to_owned())).or_default().insert(column, kept);
    }

    fn column(&mut self, profile: &str) -> usize {
        let next = self.partners.len();
        *self.partners.entry(profile.to_owned()).or_insert(next)
    }

    /// Estimates the unmeasured pairs.
    pub fn complete(&self) -> InterferenceModel {
        let mut estimator = Estimator::new(self.partners.len());
        let name = |(gpu_type, profile): &(String, String)| format!("{gpu_type}\n{profile}");
        for (row, by_partner) in &self.measured {
            by_partner.iter().for_each(|(&column, &kept)| estimator.record(&name(row), column, kept));
        }
        let mut all = estimator.all();
        let rows = self.measured.iter().filter_map(|(row, by_partner)| {
            let mut kept = all.remove(name(row).as_str())?;
            for (column, kept) in kept.iter_mut().enumerate() {
                *kept = by_partner.get(&column).copied().unwrap_or(kept.clamp(MIN_RETAINED, 1.0));
            }
            Some((row.clone(), kept))
        });
        InterferenceModel { partners: self.partners.clone(), rows: rows.collect() }
    }
}

impl InterferenceModel {
    /// Fraction of its speed that a profile retains beside a partner on a type; `None` for a profile unknown there.
    pub fn retained(&self, gpu_type: &str, profile: &str, partner: &str) -> Option<f64> {
        let row = self.rows.get(&(gpu_type.to_owned(), profile.to_owned()))?;
        self.partners.get(partner).map(|&column| row[column])
    }
}
