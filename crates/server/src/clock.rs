//! The engine's clock: the system's, but never backwards.

use std::time::{SystemTime, UNIX_EPOCH};
use warpyard_core::Time;

/// A clock that stands still rather than go back.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Time,
}

impl Clock {
    /// Now, or the last now if the system's clock was set back since.
    pub(crate) fn now(&mut self) -> Time {
        self.last = self.last.max(system_now());
        self.last
    }
}

/// The system's clock.
pub(crate) fn system_now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64))
}
