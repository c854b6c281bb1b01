//! A log as a recording for the simulator: what was submitted and how it went, from a moment on.

use crate::store::{Log, LogError};
use warpyard_core::{PolicyChoice, Time};
use warpyard_sim::replay::{Recorder, Recording};

/// Records what a log has from a moment on. A pruned log gives what its oldest kept events allow. `policy` is the one in force
/// before the first event.
pub fn recording(log: &Log, since: Time, policy: PolicyChoice) -> Result<Recording, LogError> {
    let whole = log.first_seq()?.is_none_or(|first| first == 1);
    let mut recorder = match log.newest_snapshot()? {
        Some(later) if !whole => Recorder::from_what_is_left(&later, since),
        _ => Recorder::from_the_beginning(policy, since),
    };
    let (mut last, mut wrong) = (0, None);
    log.each_event(0, |seq, event| {
        if wrong.is_none() {
            wrong = log.check(seq, || recorder.enter(&event)).err();
            last = seq;
        }
    })?;
    match wrong {
        Some(wrong) => Err(wrong),
        None => log.check(last, || recorder.finish()),
    }
}
