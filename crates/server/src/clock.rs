//! The server's clock, handed to whatever dates, compares or waits for moments. There is no global one, so tests run
//! several servers with clocks of their own, and a simulated day takes as long as its events do.
//!
//! The system clock is the wall clock at the start plus what `CLOCK_BOOTTIME` has counted since. The wall clock may be set
//! to anything at any moment, by a person, by NTP or by a restored virtual machine. If deadlines followed it, an hour too
//! many for two seconds would end every lease, and an hour too few would extend them. So it is read once; `CLOCK_BOOTTIME`
//! never jumps, follows NTP's corrections of the clock's rate, and goes on while the machine is suspended. It is not slewed:
//! where the wall clock is corrected later, the server's clock is off by as much until the server is restarted, which
//! `warpyard_clock_offset_seconds` shows and which decides nothing.

use crossbeam_channel::{Receiver, after, never};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use warpyard_core::{Span, Time};
use warpyard_worker::supervise::boot_time;

/// How long a timer of a paced clock sleeps at most: the pace may change meanwhile, and an early wake-up costs nothing.
const PACED_TIMER_LIMIT: Duration = Duration::from_secs(1);

/// A clock. Clones read the same time.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    System(SystemClock),
    /// The clock of a simulation that is shown: the system clock at a pace of its own.
    Paced(SystemClock, Mutex<Pace>),
    /// A clock that only a test moves.
    #[cfg(test)]
    Manual(Mutex<manual::State>),
}

impl Clock {
    /// The system clock.
    pub fn system() -> Clock {
        Clock::continuing(Time(0))
    }

    /// The system clock, ahead of the wall clock where that is behind `last`: the entries of a log are dated by one clock
    /// that never goes back, also where the wall clock was set back between two runs of the server.
    pub fn continuing(last: Time) -> Clock {
        Clock(Arc::new(Source::System(SystemClock::starting_at(wall_now().max(last)))))
    }

    /// A clock that starts now and runs at `speed` seconds per second.
    pub(crate) fn paced(speed: f64) -> Clock {
        let system = SystemClock::starting_at(wall_now());
        let pace = Pace::new(speed, system.now());
        Clock(Arc::new(Source::Paced(system, Mutex::new(pace))))
    }

    /// The time.
    pub fn now(&self) -> Time {
        match &*self.0 {
            Source::System(system) => system.now(),
            Source::Paced(system, pace) => lock(pace).at(system.now()),
            #[cfg(test)]
            Source::Manual(state) => lock(state).now(),
        }
    }

    /// A channel that receives once the clock has reached a moment, or earlier: whoever waits looks at the clock again.
    pub(crate) fn timer(&self, at: Time) -> Receiver<Instant> {
        let wait = |span: Span| Duration::from_micros(span.0);
        match &*self.0 {
            Source::System(system) => after(wait(at.since(system.now()))),
            Source::Paced(system, pace) => {
                let pace = *lock(pace);
                let left = at.since(pace.at(system.now()));
                let real = if pace.paused { PACED_TIMER_LIMIT } else { wait(left).div_f64(pace.speed) };
                after(real.min(PACED_TIMER_LIMIT))
            }
            #[cfg(test)]
            Source::Manual(state) => lock(state).timer(at),
        }
    }

    /// The same for a moment that may never come.
    pub(crate) fn timer_if(&self, at: Option<Time>) -> Receiver<Instant> {
        at.map_or_else(never, |at| self.timer(at))
    }

    /// Seconds since 1970 in the real world, also where a simulation is shown: logins expire by it.
    pub(crate) fn real_seconds(&self) -> u64 {
        self.real_now().0 / 1_000_000
    }

    /// How far the clock is ahead of the wall clock, in seconds; below zero where it is behind.
    pub(crate) fn offset_seconds(&self) -> f64 {
        (self.real_now().0 as f64 - wall_now().0 as f64) / 1e6
    }

    /// The time as modification times of files are compared with it.
    pub(crate) fn file_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(self.real_now().0)
    }

    /// The pace of a simulation's clock; none where the clock is not paced.
    pub(crate) fn pace(&self) -> Option<Pace> {
        match &*self.0 {
            Source::Paced(_, pace) => Some(*lock(pace)),
            _ => None,
        }
    }

    /// Changes the speed of a paced clock, or pauses or resumes it. The time continues from where it is.
    pub(crate) fn change_pace(&self, speed: Option<f64>, paused: Option<bool>) {
        if let Source::Paced(system, pace) = &*self.0 {
            let mut pace = lock(pace);
            *pace = pace.changed(speed, paused, system.now());
        }
    }

    fn real_now(&self) -> Time {
        match &*self.0 {
            Source::System(system) | Source::Paced(system, _) => system.now(),
            #[cfg(test)]
            Source::Manual(state) => lock(state).now(),
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().expect("nothing panics while holding the clock")
}

/// The wall clock at one moment, and `CLOCK_BOOTTIME` since.
struct SystemClock {
    start: Time,
    boot: Duration,
}

impl SystemClock {
    fn starting_at(start: Time) -> SystemClock {
        SystemClock { start, boot: boot_time() }
    }

    fn now(&self) -> Time {
        self.start + Span(boot_time().saturating_sub(self.boot).as_micros() as u64)
    }
}

/// The pace of a simulation's clock: from a moment of the real world on, `speed` seconds pass in one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// How many seconds pass in one while the clock is not paused.
    pub(crate) speed: f64,
    /// Whether the clock stands still.
    pub(crate) paused: bool,
    real: Time,
    shown: Time,
}

impl Pace {
    fn new(speed: f64, real: Time) -> Pace {
        Pace { speed, paused: false, real, shown: real }
    }

    /// The time shown at a moment of the real world.
    fn at(&self, real: Time) -> Time {
        let rate = if self.paused { 0.0 } else { self.speed };
        self.shown + Span((real.since(self.real).0 as f64 * rate) as u64)
    }

    /// Another pace that continues from the time shown.
    fn changed(&self, speed: Option<f64>, paused: Option<bool>, real: Time) -> Pace {
        let (speed, paused) = (speed.unwrap_or(self.speed), paused.unwrap_or(self.paused));
        Pace { speed, paused, real, shown: self.at(real) }
    }
}

/// The wall clock, which decides nothing.
fn wall_now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64))
}

#[cfg(test)]
mod manual {
    //! A clock that stands still until a test moves it.

    use super::{Clock, Source, lock};
    use crossbeam_channel::{Receiver, Sender, bounded};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;
    use warpyard_core::Time;

    /// The time, and who waits for a later one.
    pub(super) struct State {
        now: Time,
        timers: Vec<(Time, Sender<Instant>)>,
    }

    impl State {
        pub(super) fn now(&self) -> Time {
            self.now
        }

        pub(super) fn timer(&mut self, at: Time) -> Receiver<Instant> {
            let (fire, fired) = bounded(1);
            self.timers.retain(|(at, _)| *at > self.now);
            self.timers.push((at, fire));
            self.fire();
            fired
        }

        fn fire(&self) {
            for (_, fire) in self.timers.iter().filter(|(at, _)| *at <= self.now) {
                let _gone_or_fired = fire.try_send(Instant::now());
            }
        }
    }

    impl Clock {
        /// A clock that stands still at a moment.
        pub(crate) fn manual(now: Time) -> Clock {
            Clock(Arc::new(Source::Manual(Mutex::new(State { now, timers: vec![] }))))
        }

        /// Moves a manual clock forward and fires the timers that this reaches.
        pub(crate) fn advance_to(&self, to: Time) {
            let Source::Manual(state) = &*self.0 else { panic!("only a manual clock is moved") };
            let mut state = lock(state);
            assert!(to >= state.now, "a clock never goes back");
            state.now = to;
            state.fire();
        }
    }
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

    #[test]
    fn a_clock_continues_from_the_last_moment_of_a_log_dated_ahead_of_the_wall_clock() {
        let ahead = wall_now() + Span::from_secs(3_600.0);
        let clock = Clock::continuing(ahead);
        assert!(clock.now() >= ahead && clock.offset_seconds() > 3_500.0);
        assert!(Clock::continuing(Time(1)).offset_seconds().abs() < 60.0, "one behind it changes nothing");
    }
}
