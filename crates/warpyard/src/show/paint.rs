//! Colours, and which of them a state or an outcome has.

use std::borrow::Cow;
use warpyard_api::wire::{Outcome, State};

/// Style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    /// The text with the codes around it that terminals know.
    pub(crate) fn over(self, text: &str) -> Cow<'_, str> {
        let code = match self {
            Self::Plain => return Cow::Borrowed(text),
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }

    pub(crate) fn of_state(state: State) -> Self {
        match state {
            State::Blocked => Self::Dim,
            State::Ready | State::Done => Self::Plain,
            State::Placed | State::Running => Self::Green,
            State::Paused | State::Stopping => Self::Yellow,
        }
    }

    pub(crate) fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Green,
            Outcome::Failed | Outcome::TimedOut | Outcome::Lost => Self::Red,
            Outcome::Cancelled => Self::Yellow,
            Outcome::Skipped => Self::Dim,
        }
    }
}
