//! Speeds of profiles on the available types: as measured or stated, otherwise estimated, and equal everywhere for a
//! task without a profile. Likewise in pairs on the same devices, for profiles that may be co-located
//! (`Shares::may_colocate`). Only a cache over the state.

use super::fnv::Fnv;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_allocate::{
    Estimator, InterferenceEstimator, InterferenceModel, Profile, ThroughputTable, TypeAwareness,
};
use warpyard_core::shares::Shares;
use warpyard_core::spec::TaskSpec;

/// Speeds of every known profile on these types.
#[derive(Default)]
pub(super) struct Speeds {
    revision: u64,
    kinds: Vec<String>,
    rows: BTreeMap<String, BTreeMap<u16, Vec<f64>>>,
    /// Retained fractions by profile and number of devices.
    kept: BTreeMap<String, BTreeMap<u16, RetainedSpeeds>>,
    /// Fingerprint of all of it.
    number: u64,
}

/// Fraction of its speed that a profile retains on each type, where known, by partner.
type RetainedSpeeds = BTreeMap<String, Vec<Option<f64>>>;

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
            estimator.record(&wide(profile, gpus), j, speed.steps_per_second);
        }
        self.rows.clear();
        let gaps = known.values().any(|row| row.contains(&None));
        let mut model = if gaps { estimator.all() } else { BTreeMap::new() };
        for ((profile, gpus), row) in known {
            let whole: Option<Vec<f64>> = row.iter().copied().collect();
            let row = whole.or_else(|| model.remove(wide(profile, gpus).as_str()));
            if let Some(row) = row {
                self.rows.entry(profile.to_owned()).or_default().insert(gpus, row);
            }
        }
        self.refresh_pairs(shares);
    }

    fn refresh_pairs(&mut self, shares: &Shares) {
        self.kept.clear();
        let (mut interference, mut widths) = (InterferenceEstimator::default(), BTreeSet::new());
        let mut number = Fnv::default();
        for (profile, gpus, kind, other, speed) in shares.speeds_beside() {
            let Some(kept) = self.alone(profile, gpus, kind).map(|alone| speed.steps_per_second / alone)
            else {
                continue;
            };
            interference.record(kind, &wide(profile, gpus), &wide(other, gpus), kept);
            widths.insert(gpus);
            [profile, kind, other].into_iter().for_each(|word| number.bytes(word.as_bytes()));
            number.word(u64::from(gpus));
            number.word(kept.to_bits());
        }
        self.number = number.0;
        let mut model: Option<InterferenceModel> = None;
        for gpus in widths {
            for (j, kind) in self.kinds.clone().iter().enumerate() {
                for (one, other) in shares.colocatable_pairs(gpus, kind) {
                    let Some(alone) = self.alone(one, gpus, kind) else { continue };
                    let kept = match shares.speed_beside(one, other, gpus, kind) {
                        Some(known) => known.steps_per_second / alone,
                        None => {
                            let model = model.get_or_insert_with(|| interference.complete());
                            let kept = model.retained(kind, &wide(one, gpus), &wide(other, gpus));
                            let Some(kept) = kept else { continue };
                            kept
                        }
                    };
                    let by_other = self.kept.entry(one.to_owned()).or_default().entry(gpus).or_default();
                    let row = by_other.entry(other.to_owned());
                    row.or_insert_with(|| vec![None; self.kinds.len()])[j] = Some(kept);
                }
            }
        }
    }

    /// Steps a second of a profile alone on a type, if it runs there.
    fn alone(&self, profile: &str, gpus: u16, kind: &str) -> Option<f64> {
        let j = self.kinds.iter().position(|k| k == kind)?;
        Some(self.rows.get(profile)?.get(&gpus)?[j]).filter(|alone| *alone > 0.0)
    }

    /// Steps a second of a task on each type.
    pub(super) fn of(&self, spec: &TaskSpec) -> Vec<f64> {
        let row = spec.profile.as_ref().and_then(|profile| self.rows.get(profile)?.get(&spec.needs.gpus));
        row.cloned().unwrap_or_else(|| vec![1.0; self.kinds.len()])
    }

    /// Whether a task may be put beside another at all.
    pub(super) fn shares(&self, spec: &TaskSpec) -> bool {
        let known = |profile: &String| self.kept.get(profile)?.get(&spec.needs.gpus);
        spec.profile.as_ref().and_then(known).is_some()
    }

    /// The parts of their speeds that two tasks keep together on each type; none where nobody knows.
    pub(super) fn kept(&self, one: &TaskSpec, other: &TaskSpec) -> Vec<Option<[f64; 2]>> {
        let of = |a: &TaskSpec, b: &TaskSpec| {
            self.kept.get(a.profile.as_ref()?)?.get(&a.needs.gpus)?.get(b.profile.as_ref()?)
        };
        let both = of(one, other).zip(of(other, one)).filter(|_| one.needs.gpus == other.needs.gpus);
        let part = |j: usize| both.and_then(|(a, b)| Some([a[j]?, b[j]?]));
        (0..self.kinds.len()).map(part).collect()
    }

    /// What is known of pairs, as the solver reads it: speeds that fit those of the tasks alone. Who takes all types for
    /// equal takes what is kept for the mean over them.
    pub(super) fn pairs(&self, types: TypeAwareness) -> ThroughputTable {
        let mut table = ThroughputTable::default();
        for (profile, by_gpus) in &self.kept {
            for (&gpus, by_other) in by_gpus {
                for other in by_other.keys() {
                    self.enter(&mut table, [profile, other], gpus, types);
                }
            }
        }
        table
    }

    fn enter(
        &self,
        table: &mut ThroughputTable,
        [one, other]: [&String; 2],
        gpus: u16,
        types: TypeAwareness,
    ) {
        let kept = |a: &String, b: &String| self.kept.get(a)?.get(&gpus)?.get(b);
        let row = |name: &String| self.rows.get(name)?.get(&gpus).cloned();
        let Some(((mut a, mut b), (x, y))) = kept(one, other)
            .zip(kept(other, one))
            .and_then(|(x, y)| Some(((row(one)?, row(other)?), (x.clone(), y.clone()))))
        else {
            return;
        };
        let (mut x, mut y) = (x, y);
        if types == TypeAwareness::Blind {
            [&mut a, &mut b].into_iter().for_each(|row| super::round_input::blind(row));
            [&mut x, &mut y].into_iter().for_each(|kept| mean(kept));
        }
        for (j, kind) in self.kinds.iter().enumerate() {
            if let (Some(x), Some(y)) = (x[j], y[j]) {
                let named = |name: &String| Profile { name: name.clone(), gpus: u32::from(gpus) };
                table.insert_pair(kind, named(one), named(other), [x * a[j], y * b[j]]);
            }
        }
    }

    /// A number for what is known of pairs: another, where that is something else.
    pub(super) fn number_of_pairs(&self) -> u64 {
        self.number
    }
}

/// A profile at a width: another where it runs on another number of devices.
fn wide(profile: &str, gpus: u16) -> String {
    format!("{profile} on {gpus}")
}

/// The same mean wherever anything is known.
fn mean(kept: &mut [Option<f64>]) {
    let known: Vec<f64> = kept.iter().copied().flatten().collect();
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    kept.iter_mut().flatten().for_each(|kept| *kept = mean);
}
