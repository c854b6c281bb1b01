//! Overstating a throughput gains nothing: what a job really gets is largest when it tells the truth.

mod support;

#[path = "support/odd.rs"]
mod odd;

use odd::{odd, profile, with_pairs};
use proptest::prelude::*;
use warpyard_allocate::{Instance, Options, Solution, ThroughputTable, goal};

const SHARING: Options = Options {
    types: warpyard_allocate::TypeAwareness::Aware,
    sharing: true,
    placement_model: warpyard_allocate::PlacementModel::Ignored,
};

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

/// What job 0 really gets by an answer: its own speeds, and those of pairs, are what they truly are.
fn really_gets_sharing(answer: &Solution, truth: &Instance) -> f64 {
    let (job, table) = (&truth.jobs[0], truth.pairs.as_ref().expect("a table"));
    let alone = job.throughputs.iter().zip(answer.allocation.job(0)).map(|(speed, share)| speed * share);
    let mut gets: f64 = alone.sum();
    for pair in answer.pairs.iter().filter(|pair| pair.jobs[0] == 0) {
        let other = &truth.jobs[pair.jobs[1]];
        for (t, share) in truth.types.iter().zip(&pair.shares).filter(|(_, share)| **share > 0.0) {
            let both = table.paired(&t.name, &profile(job), &profile(other)).expect("a pair");
            gets += both[0] * share;
        }
    }
    gets
}

/// The table with what every job does alone.
fn with_alone(instance: &mut Instance) {
    let mut table = serde_json::to_value(&instance.pairs).expect("a table");
    for (j, t) in instance.types.iter().enumerate() {
        for job in instance.jobs.iter().filter(|job| job.throughputs[j] > 0.0) {
            table[&t.name][profile(job).to_string()]["null"] = job.throughputs[j].into();
        }
    }
    instance.pairs = Some(serde_json::from_value::<ThroughputTable>(table).expect("a table"));
}

/// No lie of job 0 gets it more than the truth; some of them get it less, or this would be about nothing.
fn lies_where_two_share(seeds: std::ops::Range<u64>, lie: impl Fn(&mut support::Random) -> f64, known: bool) {
    let goal = goal("strategy-proof").expect("a goal");
    let mut mattered = 0;
    for seed in seeds {
        let mut honest = with_pairs(odd(seed), seed);
        honest.entities = None;
        if known {
            with_alone(&mut honest);
        }
        let mut random = support::Random(seed ^ 0x11e5);
        let mut lying = honest.clone();
        lying.jobs[0].throughputs.iter_mut().for_each(|speed| *speed *= lie(&mut random));
        let gets = |told: &Instance| {
            let answer = goal.solve(told, SHARING).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            really_gets_sharing(&answer, &honest)
        };
        let (truth, lied) = (gets(&honest), gets(&lying));
        assert!(lied <= truth * (1.0 + 1e-6), "seed {seed}: honest {truth}, lying {lied}");
        mattered += usize::from(lied < truth * 0.99);
    }
    assert!(mattered > 10, "{mattered}");
}

#[test]
fn overstating_a_throughput_never_pays_where_two_share() {
    lies_where_two_share(0..150, |random| 1.0 + 9.0 * random.unit() * random.unit(), false);
}

#[test]
fn no_lie_pays_where_two_share_and_the_table_knows_everyone_alone() {
    let little_or_much = |random: &mut support::Random| {
        let by = if random.below(2) == 0 { 0.2 } else { 2.0 };
        10.0_f64.powf(by * (random.unit() - 0.5))
    };
    lies_where_two_share(150..450, little_or_much, true);
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
