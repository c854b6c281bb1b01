//! An attempt's life on a worker.

use crate::event::{End, EndReason, Usage};
use crate::protocol::AttemptStatus;
use crate::spec::OnLost;
use crate::time::Time;

/// What an attempt is at, as its worker knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptState {
    /// It was launched, and has not been seen running yet.
    Launching {
        /// When it was launched last.
        since: Time,
    },
    /// Its process runs.
    Running,
    /// Its process is frozen.
    Frozen,
    /// It is not to begin, and the executor has yet to say that it did not.
    CallingOff {
        /// How it is over then.
        how: EndReason,
    },
    /// It is over. Kept until the server knows that.
    Ended(End),
}

impl AttemptState {
    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, AttemptState::Ended(_))
    }

    pub(super) fn is_being_called_off(&self) -> bool {
        matches!(self, AttemptState::CallingOff { .. })
    }

    /// What the server is told of it; nothing before it has begun.
    pub(super) fn standing(&self) -> Option<AttemptStatus> {
        match self {
            AttemptState::Launching { .. } | AttemptState::CallingOff { .. } => None,
            AttemptState::Running => Some(AttemptStatus::Running),
            AttemptState::Frozen => Some(AttemptStatus::Frozen),
            AttemptState::Ended(end) => Some(AttemptStatus::Over(end.clone())),
        }
    }

    pub(super) fn launching_since(&self) -> Option<Time> {
        match self {
            AttemptState::Launching { since } => Some(*since),
            _ => None,
        }
    }

    pub(super) fn never_ran(how: EndReason) -> AttemptState {
        AttemptState::Ended(End { how, usage: Usage::default() })
    }
}

/// An attempt and what is to be known of it besides.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) state: AttemptState,
    /// What happens when the worker is lost, as its record says; what the server says goes before it.
    pub(super) on_lost: OnLost,
    /// Whether it was asked to freeze, and not to go on since.
    pub(super) freezing: bool,
    /// Whether it was ended because the lease expired.
    pub(super) expired: bool,
}

impl Attempt {
    pub(super) fn new(state: AttemptState) -> Attempt {
        Attempt { state, on_lost: OnLost::default(), freezing: false, expired: false }
    }
}
