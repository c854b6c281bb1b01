//! Fault levels and the rates of each kind of fault.

use std::str::FromStr;
use warpyard_core::Span;

/// Fault level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Occasional faults.
    Light,
    /// Faults most of the time.
    Heavy,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 2] = [Level::Light, Level::Heavy];

    /// Name of the level.
    pub fn word(self) -> &'static str {
        match self {
            Level::Light => "light",
            Level::Heavy => "heavy",
        }
    }

    pub(super) fn rates(self) -> FaultRates {
        match self {
            Level::Light => FaultRates {
                lost: 0.02,
                duplicated: 0.02,
                delayed: 0.03,
                mean_interval: Span::from_secs(25.0),
            },
            Level::Heavy => {
                FaultRates { lost: 0.12, duplicated: 0.12, delayed: 0.2, mean_interval: Span::from_secs(6.0) }
            }
        }
    }
}

impl FromStr for Level {
    type Err = NoSuchLevel;

    fn from_str(word: &str) -> Result<Level, NoSuchLevel> {
        Level::ALL.into_iter().find(|level| level.word() == word).ok_or(NoSuchLevel)
    }
}

/// Error of an unknown level name.
#[derive(Debug, thiserror::Error)]
#[error("faults are light or heavy")]
pub struct NoSuchLevel;

/// Fault rates of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultRates {
    /// Probability that a message is lost.
    pub(super) lost: f64,
    /// Probability that it is duplicated.
    pub(super) duplicated: f64,
    /// Probability that it is delayed, and so overtaken by later ones.
    pub(super) delayed: f64,
    /// Mean time between other faults.
    pub(super) mean_interval: Span,
}

impl FaultRates {
    /// No faults.
    pub(super) const NONE: FaultRates =
        FaultRates { lost: 0.0, duplicated: 0.0, delayed: 0.0, mean_interval: Span::UNKNOWN };
}
