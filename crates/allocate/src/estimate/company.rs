//! The part of its speed that a profile keeps beside another, where nobody has tried the two. Some mind company more than
//! others, and some are harder to bear than others: a matrix of whom and beside whom, a row for each type, completed as
//! speeds on types are.

use super::Estimator;
use std::collections::BTreeMap;

/// What is known of profiles beside one another.
///
/// ```
/// use warpyard_allocate::Company;
/// let mut company = Company::default();
/// company.measured("v100", "a", "b", 0.9);
/// company.measured("v100", "a", "c", 0.6);
/// company.measured("v100", "b", "a", 0.9);
/// let completed = company.complete();
/// assert_eq!(completed.kept("v100", "a", "b"), Some(0.9));
/// let guess = completed.kept("v100", "b", "c").unwrap();
/// assert!((0.5..0.8).contains(&guess), "{guess}");
/// assert_eq!(completed.kept("v100", "d", "a"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Company {
    /// A column for everyone who was ever beside someone.
    partners: BTreeMap<String, usize>,
    known: BTreeMap<(String, String), BTreeMap<usize, f64>>,
}

/// The same with what nobody measured estimated.
#[derive(Debug, Clone)]
pub struct Completed {
    partners: BTreeMap<String, usize>,
    rows: BTreeMap<(String, String), Vec<f64>>,
}

/// What a profile is taken to keep at least where nobody measured it; and never more than all.
const LEAST: f64 = 0.01;

impl Company {
    /// Notes the part of its speed that a profile keeps beside a partner on a type; 0 says that they cannot share.
    pub fn measured(&mut self, gpu_type: &str, profile: &str, partner: &str, kept: f64) {
        self.column(profile);
        let column = self.column(partner);
        self.known.entry((gpu_type.to_owned(), profile.to_owned())).or_default().insert(column, kept);
    }

    fn column(&mut self, profile: &str) -> usize {
        let next = self.partners.len();
        *self.partners.entry(profile.to_owned()).or_insert(next)
    }

    /// Estimates whatever was not measured.
    pub fn complete(&self) -> Completed {
        let mut estimator = Estimator::new(self.partners.len());
        let name = |(gpu_type, profile): &(String, String)| format!("{gpu_type}\n{profile}");
        for (row, by_partner) in &self.known {
            by_partner.iter().for_each(|(&column, &kept)| estimator.measured(&name(row), column, kept));
        }
        let mut all = estimator.all();
        let rows = self.known.iter().filter_map(|(row, by_partner)| {
            let mut kept = all.remove(name(row).as_str())?;
            for (column, kept) in kept.iter_mut().enumerate() {
                *kept = by_partner.get(&column).copied().unwrap_or(kept.clamp(LEAST, 1.0));
            }
            Some((row.clone(), kept))
        });
        Completed { partners: self.partners.clone(), rows: rows.collect() }
    }
}

impl Completed {
    /// The part of its speed that a profile keeps beside a partner on a type; `None` for one of which nothing is known there.
    pub fn kept(&self, gpu_type: &str, profile: &str, partner: &str) -> Option<f64> {
        let row = self.rows.get(&(gpu_type.to_owned(), profile.to_owned()))?;
        self.partners.get(partner).map(|&column| row[column])
    }
}
