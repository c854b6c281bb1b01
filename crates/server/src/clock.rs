//! The engine's clock: the system's, but never backwards.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use warpyard_core::{Span, Time};

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

/// How fast this process's time goes, where it is not that of the world: a simulation is shown.
static PACE: OnceLock<(Time, f64)> = OnceLock::new();

/// From now on, for as long as the process lives, so many seconds pass in one; gives the moment. Only the first call counts.
pub(crate) fn set_pace(speed: f64) -> Time {
    PACE.get_or_init(|| (world_now(), speed)).0
}

/// The system's clock, or that of the simulation that is shown.
pub(crate) fn system_now() -> Time {
    let now = world_now();
    match PACE.get() {
        None => now,
        Some((from, speed)) => *from + Span((now.since(*from).0 as f64 * speed) as u64),
    }
}

fn world_now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64))
}
