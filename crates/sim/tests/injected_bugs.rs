//! That the fault simulator bites: mistakes made on purpose are found within a few seeds. Only a build with the feature
//! `bugs` has them: `cargo test -p warpyard-sim --features bugs --test injected_bugs -- --nocapture`.

use warpyard_sim::faults::{Bug, Level, run, run_with};

/// By then each must have been found.
const WITHIN: u64 = 200;

#[test]
fn skipping_the_attempt_fence_is_found() {
    found(Bug::SkipTheFence);
}

#[test]
fn answering_before_the_commit_is_found() {
    found(Bug::AnswerBeforeCommit);
}

#[test]
fn freeing_a_device_twice_is_found() {
    found(Bug::FreeTwice);
}

#[test]
fn an_attempt_that_outlives_its_lease_is_found() {
    found(Bug::OutliveTheLease);
}

#[test]
fn a_launch_beside_an_attempt_that_was_given_up_is_found() {
    found(Bug::LaunchBesideLingering);
}

#[test]
fn an_end_that_is_forgotten_before_it_is_known_is_found() {
    found(Bug::ForgetUndelivered);
}

#[test]
fn an_attempt_of_another_log_that_is_adopted_is_found() {
    found(Bug::AdoptAnotherLogs);
}

#[test]
fn a_stale_session_that_is_kept_is_found() {
    found(Bug::KeepStaleSession);
}

fn found(bug: Bug) {
    for level in Level::ALL {
        let mut failures = (0..WITHIN).filter_map(|seed| run_with(seed, level, bug).err());
        let failure =
            failures.next().unwrap_or_else(|| panic!("{bug:?} was not found by {} faults", level.word()));
        println!("| {bug:?} | {} | {} | {} |", level.word(), failure.seed + 1, failure.rule);
        assert!(run(failure.seed, level).is_ok(), "without the mistake the same seed holds");
        assert!(!failure.run_log.is_empty(), "and the way there is told");
    }
}
