//! The server's clock: the wall clock at the start plus what `CLOCK_BOOTTIME` has counted since.
//!
//! The wall clock may be set to anything at any moment, by a person, by NTP or by a restored virtual machine. If deadlines
//! went by it, an hour too many for two seconds would end every lease, and an hour too few would hold them. So it is read
//! once; `CLOCK_BOOTTIME` never jumps, follows NTP's corrections of the clock's rate, and goes on while the machine is
//! suspended. It is not slewed: where the wall clock is set right later, the server's clock is off by as much until it is
//! started again, which `warpyard_clock_offset_seconds` shows and which decides nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use warpyard_core::{Span, Time};
use warpyard_worker::supervise::boot_time;

/// A clock that stands still rather than go back.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Time,
}

impl Clock {
    /// Now, or the last now where a simulation's clock was set back since.
    pub(crate) fn now(&mut self) -> Time {
        self.last = self.last.max(system_now());
        self.last
    }
}

/// The moment the clock was first read, on both clocks.
struct Start {
    wall: Time,
    boot: Duration,
}

static START: OnceLock<Start> = OnceLock::new();

/// How far the clock was put ahead of the wall clock's reading at the start.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// Has the clock go on from a moment if it is behind it: a log's entries are dated by one clock that never goes back, also
/// where the wall clock was set back between two runs of the server.
pub(crate) fn continue_from(last: Time) {
    AHEAD.fetch_add(last.since(world_now()).0, Relaxed);
}

/// Seconds since 1970 by this clock, also where a simulation is shown.
pub(crate) fn world_seconds() -> u64 {
    world_now().0 / 1_000_000
}

/// How far the clock is ahead of the wall clock, in seconds; below zero where it is behind.
pub(crate) fn offset_seconds() -> f64 {
    (world_now().0 as f64 - wall_now().0 as f64) / 1e6
}

/// The clock as the file system's times are compared with it.
pub(crate) fn file_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(world_now().0)
}

/// How time goes where a simulation is shown: from a moment of the world on, so many seconds pass in one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// How many seconds pass in one while it goes on.
    pub(crate) speed: f64,
    /// Whether it stands still.
    pub(crate) paused: bool,
    world: Time,
    shown: Time,
}

impl Pace {
    fn new(speed: f64, world: Time) -> Pace {
        Pace { speed, paused: false, world, shown: world }
    }

    /// The moment shown at a moment of the world.
    fn at(&self, world: Time) -> Time {
        let rate = if self.paused { 0.0 } else { self.speed };
        self.shown + Span((world.since(self.world).0 as f64 * rate) as u64)
    }

    /// Goes on from the moment shown, otherwise.
    fn changed(&self, speed: Option<f64>, paused: Option<bool>, world: Time) -> Pace {
        let (speed, paused) = (speed.unwrap_or(self.speed), paused.unwrap_or(self.paused));
        Pace { speed, paused, world, shown: self.at(world) }
    }
}

/// How this process's time goes, where it is not the world's: a simulation is shown.
static PACE: OnceLock<Mutex<Pace>> = OnceLock::new();

/// From now on, for as long as the process lives, time goes at a pace of its own; gives the moment. Only the first call
/// counts.
pub(crate) fn set_pace(speed: f64) -> Time {
    let pace = PACE.get_or_init(|| Mutex::new(Pace::new(speed, world_now())));
    held(pace).shown
}

/// How time goes, where it is not the world's.
pub(crate) fn pace() -> Option<Pace> {
    PACE.get().map(|pace| *held(pace))
}

/// Changes how fast time goes, where it is not the world's, or has it stand still. What is shown goes on from where it is.
pub(crate) fn change_pace(speed: Option<f64>, paused: Option<bool>) {
    if let Some(pace) = PACE.get() {
        let mut pace = held(pace);
        *pace = pace.changed(speed, paused, world_now());
    }
}

fn held(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().expect("nobody panics while looking at the clock")
}

/// The server's clock, or that of the simulation that is shown.
pub(crate) fn system_now() -> Time {
    let now = world_now();
    PACE.get().map_or(now, |pace| held(pace).at(now))
}

fn world_now() -> Time {
    let start = START.get_or_init(|| Start { wall: wall_now(), boot: boot_time() });
    let elapsed = boot_time().saturating_sub(start.boot);
    start.wall + Span(elapsed.as_micros() as u64 + AHEAD.load(Relaxed))
}

/// The wall clock, which decides nothing.
fn wall_now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_goes_on_from_where_it_is_however_the_pace_changes() {
        let second = |s: u64| Time(s * 1_000_000);
        let begun = Pace::new(60.0, second(1_000));
        assert_eq!(begun.at(second(1_002)), second(1_120));
        let paused = begun.changed(None, Some(true), second(1_002));
        assert_eq!(paused.at(second(5_000)), second(1_120), "it stands still");
        let faster = paused.changed(Some(100.0), None, second(5_000));
        assert_eq!(faster.at(second(6_000)), second(1_120), "another speed does not wake it");
        let on = faster.changed(None, Some(false), second(6_000));
        assert_eq!(on.at(second(6_001)), second(1_220));
    }
}
