//! That the fault simulator bites: mistakes made on purpose are found within a few seeds. Only a build with the feature
//! `bugs` has them: `cargo test -p warpyard-sim --features bugs --test bites -- --nocapture`.

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

fn found(bug: Bug) {
    for level in Level::ALL {
        let mut failures = (0..WITHIN).filter_map(|seed| run_with(seed, level, bug).err());
        let failure =
            failures.next().unwrap_or_else(|| panic!("{bug:?} was not found by {} faults", level.word()));
        println!("| {bug:?} | {} | {} | {} |", level.word(), failure.seed + 1, failure.rule);
        assert!(run(failure.seed, level).is_ok(), "without the mistake the same seed holds");
        assert!(!failure.story.is_empty(), "and the way there is told");
    }
}
