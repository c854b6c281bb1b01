//! Training: the same bytes from the same seed and steps, however often it was interrupted.
#![cfg(feature = "train")]

use warpyard_dag::learned::train::{Lessons, LessonsError, Training, train};

const SMALL: Training = Training { seed: 3, instances: 6, search: 4, imitate: 2, improve: 6 };

/// Trains from `start` for at most `steps` of improvement.
fn trained(start: Option<Lessons>, steps: usize) -> Lessons {
    let done = std::cell::Cell::new(start.as_ref().map_or(0, Lessons::steps));
    let stop = || done.get() >= steps;
    let tell = |_, lessons: Option<&Lessons>| done.set(lessons.map_or(0, Lessons::steps));
    train(&SMALL, start, stop, tell).unwrap().unwrap()
}

#[test]
fn the_same_seed_and_steps_give_the_same_bytes_interrupted_or_not() {
    let at_once = trained(None, 6);
    assert_eq!(at_once.to_bytes(&SMALL), trained(None, 6).to_bytes(&SMALL));
    let half = trained(None, 2).to_bytes(&SMALL);
    let resumed = trained(Some(Lessons::from_bytes(&half, &SMALL).unwrap()), 6);
    assert_eq!(at_once.to_bytes(&SMALL), resumed.to_bytes(&SMALL));
    assert_eq!(at_once.steps(), 6);
    assert_ne!(half, at_once.to_bytes(&SMALL));
}

#[test]
fn training_goes_on_only_with_the_settings_it_was_begun_with() {
    let begun = trained(None, 1);
    let bytes = begun.to_bytes(&SMALL);
    let other = Lessons::from_bytes(&bytes, &Training { seed: 4, ..SMALL }).unwrap_err();
    assert_eq!(other.to_string(), "its training was begun with seed 3, not 4");
    let finished = begun.network().to_safetensors();
    assert!(matches!(Lessons::from_bytes(&finished, &SMALL), Err(LessonsError::Finished)));
}
