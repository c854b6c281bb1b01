//! Certificates that the check must reject: non-finite proofs, negative prices, and shares that do not match their
//! claims.

mod support;

use warpyard_allocate::{
    Certificate, CheckError, Instance, Options, Profile, Shares, Solution, ThroughputTable, check, goal,
};

const SHARING: Options = Options {
    types: warpyard_allocate::TypeAwareness::Aware,
    sharing: true,
    placement_model: warpyard_allocate::PlacementModel::Ignored,
};

/// Two unlike jobs, and a third like the second, on one GPU that two may share.
fn shared() -> Instance {
    let mut instance = support::plain(&[1], &[&[2.0], &[5.0], &[5.0]]);
    let profile = |name: &str| Profile { name: name.into(), gpus: 1 };
    for (job, name) in instance.jobs.iter_mut().zip(["a", "b", "b"]) {
        job.profile = Some(name.into());
    }
    let mut table = ThroughputTable::default();
    table.insert_pair("type0", profile("a"), profile("b"), [1.5, 4.5]);
    instance.pairs = Some(table);
    instance
}

/// What checking says of an answer that was changed.
fn refused(instance: &Instance, name: &str, options: Options, change: impl Fn(&mut Solution)) -> CheckError {
    let goal = goal(name).expect("a goal");
    let mut answer = goal.solve(instance, options).expect("an answer");
    check(instance, goal, options, &answer).expect("it stands up to checking");
    change(&mut answer);
    check(instance, goal, options, &answer).expect_err("refused")
}

#[test]
fn empty_certificates_are_rejected() {
    let worthless = refused(&shared(), "max-min", SHARING, |answer| {
        answer.prices = vec![0.0];
        answer.certificate = Certificate::Jobs { speed: vec![0.0; 3], time: vec![0.0; 3] };
    });
    assert!(matches!(worthless, CheckError::Unproved { .. }), "{worthless}");
    let worthless = refused(&shared(), "strategy-proof", SHARING, |answer| {
        let Certificate::SharedDiscounts { duals, .. } = &mut answer.certificate else { panic!("no worth") };
        duals.speed = vec![0.0; 3];
    });
    assert!(matches!(worthless, CheckError::Unproved { .. }), "{worthless}");
}

/// Below nothing a price makes bounds that meet whatever was found.
#[test]
fn invalid_prices_are_rejected() {
    for price in [-10.0, f64::INFINITY, f64::NAN] {
        for options in [Options::default(), SHARING] {
            let priced = refused(&shared(), "max-min", options, |answer| answer.prices = vec![price]);
            assert_eq!(priced, CheckError::Certificate, "{price}");
        }
    }
    let cheap = refused(&shared(), "max-min", SHARING, |answer| {
        let Certificate::Jobs { time, .. } = &mut answer.certificate else { panic!("no worth") };
        time.iter_mut().for_each(|time| *time -= 0.1);
    });
    assert_eq!(cheap, CheckError::Certificate);
}

#[test]
fn shares_beyond_the_discount_are_rejected() {
    let unpaired = |answer: &mut Solution| answer.pairs.clear();
    let nothing = |answer: &mut Solution| answer.allocation = Shares::new(1, vec![0.0; 3]);
    let halved = |answer: &mut Solution| answer.pairs.iter_mut().for_each(|pair| pair.shares[0] *= 0.5);
    let neither = |answer: &mut Solution| {
        unpaired(answer);
        nothing(answer);
    };
    let changes: [&dyn Fn(&mut Solution); 4] = [&unpaired, &nothing, &halved, &neither];
    for (i, change) in changes.into_iter().enumerate() {
        let less = refused(&shared(), "strategy-proof", SHARING, change);
        assert!(matches!(less, CheckError::Discount { .. }), "change {i}: {less}");
    }
}
