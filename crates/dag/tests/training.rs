//! Training: the same bytes from the same seed and steps, however often it was interrupted.
#![cfg(feature = "train")]

use warpyard_dag::learned::train::{
    Checkpoint, CheckpointError, Stage, TrainingConfig, TrainingProgress, train,
};

const SMALL: TrainingConfig = TrainingConfig { seed: 3, instances: 6, search: 4, imitate: 2, improve: 2 };

/// Trains until `enough` of the reported progress.
fn trained(checkpoint: Checkpoint, enough: impl Fn(TrainingProgress) -> bool) -> Checkpoint {
    let done = std::cell::Cell::new(false);
    train(&SMALL, checkpoint, || done.get(), |lesson, _| done.set(enough(lesson))).unwrap()
}

fn reloaded(checkpoint: &Checkpoint) -> Checkpoint {
    Checkpoint::from_bytes(&checkpoint.to_bytes(&SMALL), &SMALL).unwrap()
}

#[test]
fn interruptions_do_not_change_the_bytes() {
    let at_once = trained(Checkpoint::default(), |_| false);
    assert_eq!(at_once.steps(), 2);
    assert_eq!(at_once, trained(Checkpoint::default(), |_| false));
    for stage in [Stage::Search, Stage::Imitate, Stage::Improve] {
        let begun = trained(Checkpoint::default(), |lesson| lesson.stage == stage);
        assert_ne!(begun, at_once, "{stage:?} was interrupted");
        assert_eq!(begun.network().is_some(), stage == Stage::Improve);
        let resumed = trained(reloaded(&begun), |_| false);
        assert_eq!(at_once.to_bytes(&SMALL), resumed.to_bytes(&SMALL), "interrupted in {stage:?}");
    }
    let searched = trained(Checkpoint::default(), |lesson| lesson.stage == Stage::Search && lesson.step == 2);
    assert!(matches!(&searched, Checkpoint::Searched(leanings) if leanings.len() == 2));
}

#[test]
fn a_checkpoint_resumes_only_with_its_own_settings() {
    let begun = trained(Checkpoint::default(), |lesson| lesson.stage == Stage::Improve);
    let bytes = begun.to_bytes(&SMALL);
    let other = Checkpoint::from_bytes(&bytes, &TrainingConfig { seed: 4, ..SMALL }).unwrap_err();
    assert_eq!(other.to_string(), "its training was begun with seed 3, not 4");
    let finished = begun.network().unwrap().to_safetensors();
    assert!(matches!(Checkpoint::from_bytes(&finished, &SMALL), Err(CheckpointError::Finished)));
}
