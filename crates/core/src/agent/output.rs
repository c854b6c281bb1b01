//! Outputs of the agent.

use super::CONTACT_LOST;
use crate::event::EndReason;
use crate::ids::AttemptId;
use crate::time::{Span, Time};

/// An output of the agent. Outputs are idempotent: any of them may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Start an attempt, unless it was ever started. Answered by [`Input::Refused`](super::Input::Refused) where that is
    /// not possible, and by [`Input::Seen`](super::Input::Seen) once it has begun, or if it had.
    Launch(AttemptId),
    /// Freeze it.
    Freeze(AttemptId),
    /// Thaw it, or revoke a freeze that has not taken effect yet.
    Thaw(AttemptId),
    /// Ask it to yield: to save and exit at its next boundary.
    Yield(AttemptId),
    /// Stop it: SIGTERM, then SIGKILL after the grace period.
    Stop {
        /// Which.
        attempt: AttemptId,
        /// Grace period between SIGTERM and SIGKILL.
        grace: Span,
        /// Cause, stored in the record of its end because the agent may not live to report it.
        cause: StopCause,
    },
    /// Prevent an attempt that has not started from ever starting. Answered by [`Input::Seen`](super::Input::Seen), as it may
    /// have started meanwhile.
    CallOff(AttemptId),
    /// Kill the processes of an attempt whose record is damaged, and set the record aside. Answered by
    /// [`Observation::NotStarted`](super::Observation::NotStarted).
    Discard {
        /// Which.
        attempt: AttemptId,
        /// Damage found in its record.
        why: String,
    },
    /// Remove an attempt's record: the server has acknowledged its end.
    Retire(AttemptId),
    /// Stop an attempt of another log. Answered by [`Input::ForeignGone`](super::Input::ForeignGone).
    StopForeign {
        /// Which.
        record: ForeignRecordId,
        /// Grace period between SIGTERM and SIGKILL.
        grace: Span,
    },
    /// Remove the record of an attempt of another log.
    RetireForeign(ForeignRecordId),
    /// Deliver [`Input::Timer`](super::Input::Timer) at this time.
    SetTimer(Time),
}

/// Cause of stopping an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The server asked for it, or no longer assigns the attempt.
    Wanted,
    /// The lease expired, and the attempt may run elsewhere by now.
    LeaseExpired,
}

impl StopCause {
    /// End reason of an attempt stopped for this cause. One stopped by an expired lease counts as lost, since nobody asked for it.
    pub fn how(self) -> EndReason {
        match self {
            StopCause::Wanted => EndReason::Stopped,
            StopCause::LeaseExpired => EndReason::Lost(CONTACT_LOST.into()),
        }
    }
}

/// A record of another log, by a number that the executor chose: attempts of two logs may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignRecordId(pub u32);
