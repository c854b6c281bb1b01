//! Times and durations in whole microseconds, so that sums are exact and two runs agree to the bit.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// Point in time: microseconds since the Unix epoch (or, in a simulation, since its start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// Duration in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// Time this many seconds after the epoch.
    pub fn from_secs(s: f64) -> Time {
        Time(Span::from_secs(s).0)
    }

    /// Seconds since the epoch.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Duration since `earlier`; zero if that is not earlier, as after a clock was set back.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// Zero duration.
    pub const ZERO: Span = Span(0);

    /// Stand-in for an unknown duration where one must be compared: a year.
    pub const UNKNOWN: Span = Span(365 * 24 * 3600 * 1_000_000);

    /// The duration, unless it rests on an unknown one.
    pub fn known(self) -> Option<Span> {
        (self < Span(Span::UNKNOWN.0 / 2)).then_some(self)
    }

    /// Duration of this many seconds; negative and NaN count as zero.
    pub fn from_secs(s: f64) -> Span {
        Span((s * 1e6).round() as u64)
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Duration in seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, s: Span) -> Time {
        Time(self.0.saturating_add(s.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, s: Span) -> Time {
        Time(self.0.saturating_sub(s.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, o: Span) -> Span {
        Span(self.0.saturating_add(o.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, o: Span) {
        *self = *self + o;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, o: Span) -> Span {
        Span(self.0.saturating_sub(o.0))
    }
}
