//! Conformal bounds: from a history of estimates and what was measured, the factor on the next estimate that the stated share of jobs
//! stays below. Nothing is assumed about how errors are distributed, only that the next job is like those before.

/// An estimate and what the job was then measured to take, in bytes; with the CUDA context both or neither.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// What was estimated.
    pub estimated: u64,
    /// What was measured.
    pub measured: u64,
}

impl Outcome {
    /// How many times the estimate was measured. Bounds and coverage both compare this quotient: a product with the estimate would
    /// round otherwise, and count the very outcome that set a bound as beyond it.
    fn ratio(self) -> Option<f64> {
        (self.estimated > 0).then(|| self.measured as f64 / self.estimated as f64)
    }
}

/// The smallest factor on an estimate that covers the next job with probability `share`: the ratio of rank ⌈(n + 1) · share⌉. None
/// where the history is too short to promise that, as with fewer than 19 outcomes for 95 %.
pub fn bound_ratio(history: impl IntoIterator<Item = Outcome>, share: f64) -> Option<f64> {
    let mut ratios: Vec<f64> = history.into_iter().filter_map(Outcome::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let rank = ((ratios.len() + 1) as f64 * share).ceil() as usize;
    ratios.get(rank.checked_sub(1)?).copied()
}

/// The share of a history that stayed below its estimates times `ratio`, of outcomes with an estimate. None where there are none.
pub fn coverage(history: impl IntoIterator<Item = Outcome>, ratio: f64) -> Option<f64> {
    let (mut covered, mut all) = (0u64, 0u64);
    for reached in history.into_iter().filter_map(Outcome::ratio) {
        all += 1;
        covered += u64::from(reached <= ratio);
    }
    (all > 0).then(|| covered as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn history(measured: &[u64]) -> Vec<Outcome> {
        measured.iter().map(|measured| Outcome { estimated: 1_000, measured: *measured }).collect()
    }

    #[test]
    fn a_short_history_promises_nothing() {
        assert_eq!(bound_ratio(history(&[900; 18]), 0.95), None);
        assert_eq!(bound_ratio(history(&[900; 19]), 0.95), Some(0.9));
        assert_eq!(bound_ratio([], 0.5), None);
        assert_eq!(coverage([], 1.0), None);
    }

    #[test]
    fn one_outlier_in_a_hundred_is_left_out_and_six_are_not() {
        let mut measured = vec![1_000; 100];
        measured[7] = 9_000;
        assert_eq!(bound_ratio(history(&measured), 0.95), Some(1.0));
        measured[..6].fill(2_000);
        assert_eq!(bound_ratio(history(&measured), 0.95), Some(2.0));
    }

    proptest! {
        #[test]
        fn at_least_the_stated_share_of_the_history_is_covered(
            measured in prop::collection::vec(1u64..10_000, 20..200), share in 0.5f64..0.95
        ) {
            let ratio = bound_ratio(history(&measured), share).expect("a long history");
            prop_assert!(coverage(history(&measured), ratio).expect("outcomes") >= share);
        }
    }
}
