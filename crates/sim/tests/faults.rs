//! The fault simulator over many seeds: nothing it checks is ever broken.

use warpyard_sim::faults::{Failure, Level, RunStats, run};

/// How many runs of each level; lengths vary with the seed.
const LIGHT: u64 = 400;
const HEAVY: u64 = 2_600;

#[test]
fn light_faults_break_nothing() {
    hold(Level::Light, LIGHT);
}

#[test]
fn heavy_faults_break_nothing() {
    hold(Level::Heavy, HEAVY);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run(seed, Level::Heavy), run(seed, Level::Heavy));
    }
}

fn hold(level: Level, seeds: u64) {
    let mut all = RunStats::default();
    for seed in 0..seeds {
        all += run(seed, level).unwrap_or_else(|failure| panic!("{}", told(&failure, level)));
    }
    println!("{seeds} seeds: {all:?}");
    // Runs in which nothing goes on, or nothing goes wrong, would prove nothing.
    assert!(all.jobs > 5 * seeds && all.restarts > seeds / 4 && all.events > 50 * seeds, "{all:?}");
}

fn told(failure: &Failure, level: Level) -> String {
    let Failure { seed, step, rule, what, run_log } = failure;
    let run_log = run_log.join("\n");
    let again = format!("warpyard sim --faults {} --seed {seed}", level.word());
    format!("{run_log}\nseed {seed}, step {step}: {rule}: {what}\nreproduce with: {again}")
}
