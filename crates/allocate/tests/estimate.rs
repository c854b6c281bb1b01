//! Completing the published table from part of it.

mod support;

use warpyard_allocate::{Estimator, InterferenceEstimator, ThroughputTable};

#[test]
fn held_out_entries_of_the_published_table_are_recovered() {
    let Some(path) = support::data("simulation_throughputs.json") else { return };
    let table: ThroughputTable =
        serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("a table");
    let types = ["k80", "p100", "v100"];
    let mut random = support::Random(3);
    let mut estimator = Estimator::new(types.len());
    let mut hidden = Vec::new();
    for profile in table.profiles("v100") {
        let skip = random.below(2 * types.len());
        for (j, t) in types.iter().enumerate() {
            let Some(speed) = table.alone(t, profile).filter(|s| *s > 0.0) else { continue };
            if j == skip {
                hidden.push((profile.to_string(), j, speed));
            } else {
                estimator.record(&profile.to_string(), j, speed);
            }
        }
    }
    let all = estimator.all();
    let mut errors: Vec<f64> = hidden
        .iter()
        .filter_map(|(p, j, speed)| Some((all.get(p.as_str())?[*j] / speed).ln().abs()))
        .collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() > 25, "{} hidden", errors.len());
    let median = errors[errors.len() / 2];
    eprintln!("{} hidden entries, median error {:.0} %", errors.len(), 100.0 * (median.exp() - 1.0));
    assert!(median < 0.4_f64, "half of them within 50 %: {median}");
}

#[test]
fn a_measurement_overrides_its_estimate() {
    let mut estimator = Estimator::new(2);
    for (profile, speeds) in [("a", [1.0, 2.0]), ("b", [10.0, 21.0])] {
        speeds.iter().enumerate().for_each(|(j, speed)| estimator.record(profile, j, *speed));
    }
    estimator.record("c", 0, 5.0);
    let guess = estimator.speeds("c").expect("known on one type")[1];
    assert!((8.0..13.0).contains(&guess), "{guess}");
    estimator.record("c", 1, 40.0);
    assert_eq!(estimator.speeds("c"), Some(vec![5.0, 40.0]));
    assert_eq!(estimator.speeds("d"), None);
    estimator.record("d", 0, f64::NAN);
    assert_eq!(estimator.speeds("d"), None);
}

/// A third of the pairs are taken out of the published table, and found again from the others.
#[test]
fn held_out_pairs_of_the_published_table_are_recovered() {
    let Some(path) = support::data("simulation_throughputs.json") else { return };
    let table: ThroughputTable =
        serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("a table");
    let mut random = support::Random(5);
    let (mut interference, mut hidden) = (InterferenceEstimator::default(), Vec::new());
    for kind in ["k80", "p100", "v100"] {
        for (one, other, both) in table.pairs(kind).filter(|(one, _, both)| one.gpus == 1 && both[0] > 0.0) {
            let Some(alone) = table.alone(kind, one).filter(|alone| *alone > 0.0) else { continue };
            let (one, other, kept) = (one.to_string(), other.to_string(), both[0] / alone);
            if random.below(3) == 0 {
                hidden.push((kind, one, other, kept));
            } else {
                interference.record(kind, &one, &other, kept);
            }
        }
    }
    let completed = interference.complete();
    let error = |(kind, one, other, kept): &(&str, String, String, f64)| {
        Some((completed.retained(kind, one, other)? - kept).abs())
    };
    let mut errors: Vec<f64> = hidden.iter().filter_map(error).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() > 100, "{} hidden", errors.len());
    let mean = hidden.iter().map(|hidden| hidden.3).sum::<f64>() / hidden.len() as f64;
    let mut plain: Vec<f64> = hidden.iter().map(|hidden| (hidden.3 - mean).abs()).collect();
    plain.sort_by(f64::total_cmp);
    let (median, by_mean) = (errors[errors.len() / 2], plain[plain.len() / 2]);
    eprintln!(
        "{} hidden pairs: half within {median:.3} of the speed alone; by their mean {by_mean:.3}",
        errors.len()
    );
    assert!(median < 0.5 * by_mean, "taking everyone for the mean is nearly as good: {median} and {by_mean}");
}
