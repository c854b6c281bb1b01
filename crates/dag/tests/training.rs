//! Training: the same bytes from the same seed and steps, however often it was interrupted.
#![cfg(feature = "train")]

use warpyard_dag::learned::train::{Lesson, Lessons, LessonsError, Stage, Training, train};

const SMALL: Training = Training { seed: 3, instances: 6, search: 4, imitate: 2, improve: 2 };

/// Trains on until `enough` of what has been told.
fn trained(lessons: Lessons, enough: impl Fn(Lesson) -> bool) -> Lessons {
    let done = std::cell::Cell::new(false);
    train(&SMALL, lessons, || done.get(), |lesson, _| done.set(enough(lesson))).unwrap()
}

fn again(lessons: &Lessons) -> Lessons {
    Lessons::from_bytes(&lessons.to_bytes(&SMALL), &SMALL).unwrap()
}

#[test]
fn the_same_seed_and_steps_give_the_same_bytes_wherever_it_was_interrupted() {
    let at_once = trained(Lessons::default(), |_| false);
    assert_eq!(at_once.steps(), 2);
    assert_eq!(at_once, trained(Lessons::default(), |_| false));
    for stage in [Stage::Search, Stage::Imitate, Stage::Improve] {
        let begun = trained(Lessons::default(), |lesson| lesson.stage == stage);
        assert_ne!(begun, at_once, "{stage:?} was interrupted");
        assert_eq!(begun.network().is_some(), stage == Stage::Improve);
        let resumed = trained(again(&begun), |_| false);
        assert_eq!(at_once.to_bytes(&SMALL), resumed.to_bytes(&SMALL), "interrupted in {stage:?}");
    }
    let searched = trained(Lessons::default(), |lesson| lesson.stage == Stage::Search && lesson.step == 2);
    assert!(matches!(&searched, Lessons::Searched(leanings) if leanings.len() == 2));
}

#[test]
fn training_goes_on_only_with_the_settings_it_was_begun_with() {
    let begun = trained(Lessons::default(), |lesson| lesson.stage == Stage::Improve);
    let bytes = begun.to_bytes(&SMALL);
    let other = Lessons::from_bytes(&bytes, &Training { seed: 4, ..SMALL }).unwrap_err();
    assert_eq!(other.to_string(), "its training was begun with seed 3, not 4");
    let finished = begun.network().unwrap().to_safetensors();
    assert!(matches!(Lessons::from_bytes(&finished, &SMALL), Err(LessonsError::Finished)));
}
