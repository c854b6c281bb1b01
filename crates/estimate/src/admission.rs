//! Admission bounds: how much memory to reserve for a job, from its estimate and from what jobs before it were measured to take.
//! The more that was measured, the nearer to the job: the margin of public measurements, then that of other models measured on
//! the same machines, then the peaks of the same model.

use crate::DEFAULT_BOUND_RATIO;
use crate::conformal::{Outcome, bound_ratio};

/// Margin on the largest of a few measured peaks of the same model, before they are enough for a conformal bound: public repeats of
/// one training differ by up to 8 % (`bench/RESULTS.md`).
const REPEAT_MARGIN: f64 = 1.1;

/// Range of the ratio that other models may call for. Their estimates are sent by whoever submitted them, and one that claimed
/// next to nothing must not make everybody else reserve whole devices.
const OTHER_MODELS: std::ops::RangeInclusive<f64> = 0.5..=4.0;

/// Measurements that a bound can be computed from. Estimated and measured bytes both include the CUDA context: what is assumed for
/// it is only wrong by a constant, which would be a large factor on the peak of a small model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measurements<'a> {
    /// Runs of the same model on the type of device the bound is for.
    pub same_model: &'a [Outcome],
    /// One run of each other model.
    pub other_models: &'a [Outcome],
}

/// What a bound was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The margin that public measurements call for.
    Published,
    /// The ratios of measured to estimated memory of this many other models.
    OtherModels(usize),
    /// The peaks of this many runs of the same model.
    SameModel(usize),
}

/// The bound without any measurement: the peak with the margin of public measurements, and the context.
pub fn published_bound(peak: u64, context: u64) -> u64 {
    scaled(peak, DEFAULT_BOUND_RATIO).saturating_add(context)
}

/// The bound of a job in bytes, context included, that the stated share of jobs stays below.
pub fn bound(peak: u64, context: u64, measured: Measurements<'_>, share: f64) -> (u64, Basis) {
    let Measurements { same_model, other_models } = measured;
    let total = peak.saturating_add(context);
    if let Some(most) = same_model.iter().map(|run| run.measured).max() {
        // All runs are put in terms of this estimate, which may be a newer one than theirs.
        let runs = same_model.iter().map(|run| Outcome { estimated: total, ..*run });
        let conformal = bound_ratio(runs, share).map(|ratio| scaled(total, ratio));
        let bytes = conformal.unwrap_or_else(|| scaled(most, REPEAT_MARGIN));
        return (bytes, Basis::SameModel(same_model.len()));
    }
    match bound_ratio(other_models.iter().copied(), share) {
        Some(ratio) => {
            let ratio = ratio.clamp(*OTHER_MODELS.start(), *OTHER_MODELS.end());
            (scaled(total, ratio), Basis::OtherModels(other_models.len()))
        }
        None => (published_bound(peak, context), Basis::Published),
    }
}

/// Saturates at the largest number there is, as every size here does.
fn scaled(bytes: u64, ratio: f64) -> u64 {
    (bytes as f64 * ratio).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn runs(count: usize, estimated: u64, measured: u64) -> Vec<Outcome> {
        vec![Outcome { estimated, measured }; count]
    }

    #[test]
    fn the_nearest_measurements_decide() {
        let (peak, context) = (4 * GIB, GIB / 2);
        let of = |same: &[Outcome], other: &[Outcome]| {
            bound(peak, context, Measurements { same_model: same, other_models: other }, 0.95)
        };
        assert_eq!(of(&[], &[]), (published_bound(peak, context), Basis::Published));
        // Eighteen models are one too few to promise 95 %.
        assert_eq!(of(&[], &runs(18, GIB, 2 * GIB)).1, Basis::Published);
        assert_eq!(of(&[], &runs(19, GIB, 2 * GIB)), (9 * GIB, Basis::OtherModels(19)));
        let one = runs(1, GIB, 3 * GIB);
        let (bytes, basis) = of(&one, &runs(19, GIB, 2 * GIB));
        assert_eq!((bytes, basis), (scaled(3 * GIB, 1.1), Basis::SameModel(1)));
        let (bytes, basis) = of(&runs(40, GIB, 3 * GIB), &[]);
        assert!(bytes.abs_diff(3 * GIB) <= 1, "a conformal bound of equal peaks is that peak: {bytes}");
        assert_eq!(basis, Basis::SameModel(40));
    }

    #[test]
    fn a_false_estimate_of_others_changes_bounds_only_so_far() {
        let absurd = runs(50, 1, 100 * GIB);
        let of = |other| bound(GIB, 0, Measurements { same_model: &[], other_models: other }, 0.95).0;
        assert_eq!(of(&absurd), 4 * GIB);
        assert_eq!(of(&runs(50, 100 * GIB, 1)), GIB / 2);
    }
}
