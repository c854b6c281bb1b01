//! How much goes wrong: the odds of each kind of trouble.

use std::str::FromStr;
use warpyard_core::Span;

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Now and then something.
    Light,
    /// Something most of the time.
    Heavy,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 2] = [Level::Light, Level::Heavy];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Light => "light",
            Level::Heavy => "heavy",
        }
    }

    pub(super) fn rates(self) -> FaultRates {
        match self {
            Level::Light => {
                FaultRates { lost: 0.02, doubled: 0.02, late: 0.03, fault: Span::from_secs(25.0) }
            }
            Level::Heavy => FaultRates { lost: 0.12, doubled: 0.12, late: 0.2, fault: Span::from_secs(6.0) },
        }
    }
}

impl FromStr for Level {
    type Err = NoSuchLevel;

    fn from_str(word: &str) -> Result<Level, NoSuchLevel> {
        Level::ALL.into_iter().find(|level| level.word() == word).ok_or(NoSuchLevel)
    }
}

/// There is no level of that name.
#[derive(Debug, thiserror::Error)]
#[error("faults are light or heavy")]
pub struct NoSuchLevel;

/// The odds of a run; none of it once the faults have stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultRates {
    /// That a message is lost,
    pub(super) lost: f64,
    /// that it comes twice,
    pub(super) doubled: f64,
    /// that it comes late, and so after others sent later.
    pub(super) late: f64,
    /// The mean time from one trouble to the next.
    pub(super) fault: Span,
}

impl FaultRates {
    /// Nothing goes wrong.
    pub(super) const NONE: FaultRates =
        FaultRates { lost: 0.0, doubled: 0.0, late: 0.0, fault: Span::UNKNOWN };
}
