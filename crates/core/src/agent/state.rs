//! The states of an attempt on a worker.

use crate::event::EndReason;
use crate::protocol::AttemptStatus;
use crate::spec::OnLost;
use crate::time::Time;

/// State of an attempt as its worker knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptState {
    /// Launched, and not seen running yet.
    Launching {
        /// Time of the latest launch.
        since: Time,
    },
    /// Being called off: it must not start, and the executor has yet to confirm that it did not.
    CallingOff {
        /// End reason it gets once that is confirmed.
        how: EndReason,
    },
    /// Observed, or never to start. An end is kept until the server has acknowledged it.
    Status(AttemptStatus),
}

impl AttemptState {
    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self, AttemptState::Status(AttemptStatus::Over(_)))
    }

    pub(super) fn is_being_called_off(&self) -> bool {
        matches!(self, AttemptState::CallingOff { .. })
    }

    /// Status to report; none before it has started.
    pub(super) fn status(&self) -> Option<&AttemptStatus> {
        match self {
            AttemptState::Launching { .. } | AttemptState::CallingOff { .. } => None,
            AttemptState::Status(status) => Some(status),
        }
    }

    pub(super) fn launching_since(&self) -> Option<Time> {
        match self {
            AttemptState::Launching { since } => Some(*since),
            _ => None,
        }
    }
}

/// An attempt on this worker, with what the agent tracks beside its state.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) state: AttemptState,
    /// Disposition when the worker is lost, as its record states it; its assignment takes precedence.
    pub(super) on_lost: OnLost,
    /// Whether it was frozen last, and not thawed since.
    pub(super) freezing: bool,
    /// Whether it was ended because the lease expired.
    pub(super) expired: bool,
    /// Round of launches it was last launched in; see [`LaunchHealth`](super::launch_health::LaunchHealth).
    pub(super) launched_in: u32,
}

impl Attempt {
    pub(super) fn new(state: AttemptState) -> Attempt {
        Attempt { state, on_lost: OnLost::default(), freezing: false, expired: false, launched_in: 0 }
    }
}
