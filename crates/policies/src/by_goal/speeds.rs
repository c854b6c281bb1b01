//! How fast profiles run on the types there are: as measured or said, as estimated from those where nobody did, and
//! equally fast everywhere for a task of which nothing is known. Only a cache over the state.

use std::collections::BTreeMap;
use warpyard_allocate::Estimator;
use warpyard_core::shares::Shares;
use warpyard_core::spec::TaskSpec;

/// The speeds of every profile anything is known of, on these types.
#[derive(Default)]
pub(super) struct Speeds {
    revision: u64,
    kinds: Vec<String>,
    rows: BTreeMap<String, BTreeMap<u16, Vec<f64>>>,
}

impl Speeds {
    /// Makes them those of this state.
    pub(super) fn refresh(&mut self, shares: &Shares, kinds: &[String]) {
        if self.revision == shares.revision() && self.kinds == kinds {
            return;
        }
        (self.revision, self.kinds) = (shares.revision(), kinds.to_vec());
        let mut estimator = Estimator::new(kinds.len());
        let mut known: BTreeMap<(&str, u16), Vec<Option<f64>>> = BTreeMap::new();
        for (profile, gpus, kind, speed) in shares.speeds() {
            let Some(j) = kinds.iter().position(|k| k == kind) else { continue };
            let row = known.entry((profile, gpus)).or_insert_with(|| vec![None; kinds.len()]);
            row[j] = Some(speed.steps_per_second);
            estimator.measured(&format!("{profile} on {gpus}"), j, speed.steps_per_second);
        }
        self.rows.clear();
        let gaps = known.values().any(|row| row.contains(&None));
        let mut completed = if gaps { estimator.all() } else { BTreeMap::new() };
        for ((profile, gpus), row) in known {
            let whole: Option<Vec<f64>> = row.iter().copied().collect();
            let row = whole.or_else(|| completed.remove(format!("{profile} on {gpus}").as_str()));
            if let Some(row) = row {
                self.rows.entry(profile.to_owned()).or_default().insert(gpus, row);
            }
        }
    }

    /// Steps a second of a task on each type.
    pub(super) fn of(&self, spec: &TaskSpec) -> Vec<f64> {
        let row = spec.profile.as_ref().and_then(|profile| self.rows.get(profile)?.get(&spec.needs.gpus));
        row.cloned().unwrap_or_else(|| vec![1.0; self.kinds.len()])
    }
}
