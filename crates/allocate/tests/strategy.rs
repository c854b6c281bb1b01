//! Overstating a throughput gains nothing: what a job really gets is largest when it tells the truth.

mod support;

use proptest::prelude::*;
use warpyard_allocate::{Instance, Options, goal};

/// What job 0 really gets when the solver is told `told`.
fn really_gets(told: &Instance, truth: &[f64]) -> f64 {
    let answer = goal("strategy-proof").expect("a goal").solve(told, Options::default()).expect("an answer");
    truth.iter().zip(answer.allocation.job(0)).map(|(speed, share)| speed * share).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn lying_about_throughputs_never_pays(
        rows in prop::collection::vec(prop::collection::vec(0.5..20.0f64, 3), 2..7),
        counts in prop::collection::vec(1..4u32, 3),
        lie in prop::collection::vec(0.05..20.0f64, 3),
    ) {
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let honest = support::plain(&counts, &rows);
        let mut lying = honest.clone();
        lying.jobs[0].throughputs.iter_mut().zip(&lie).for_each(|(speed, factor)| *speed *= factor);
        let (truth, lied) = (really_gets(&honest, rows[0]), really_gets(&lying, rows[0]));
        prop_assert!(lied <= truth * (1.0 + 1e-6), "honest {truth}, lying {lied}");
    }
}

#[test]
fn alike_jobs_are_discounted_alike_and_nobody_loses_all() {
    let instance =
        support::plain(&[2, 2], &[&[4.0, 1.0], &[4.0, 1.0], &[1.0, 1.0], &[2.0, 3.0], &[2.0, 3.0]]);
    let answer =
        goal("strategy-proof").expect("a goal").solve(&instance, Options::default()).expect("an answer");
    for (a, b) in [(0, 1), (3, 4)] {
        assert!((answer.normalised[a] - answer.normalised[b]).abs() < 1e-6);
    }
    // The mechanism keeps at least 1/e of the shares of the largest product.
    let all = answer.allocation.rows().all(|row| row.iter().sum::<f64>() > 0.05);
    assert!(all, "{:?}", answer.allocation);
}
