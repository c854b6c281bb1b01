//! What an agent wants done.

use super::CONTACT_LOST;
use crate::event::EndReason;
use crate::ids::AttemptId;
use crate::time::{Span, Time};

/// Something to be done. It may be asked for again, and doing it twice must do no harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Start an attempt, unless it was ever started. Answered by [`Input::Refused`](super::Input::Refused) where that is
    /// not possible, and by [`Input::Seen`](super::Input::Seen) once it has begun, or if it had.
    Launch(AttemptId),
    /// Freeze it.
    Freeze(AttemptId),
    /// Have it go on, also if it was asked to freeze and has not yet.
    Thaw(AttemptId),
    /// Have it end by itself at a moment good for it.
    Yield(AttemptId),
    /// End it.
    Stop {
        /// Which.
        attempt: AttemptId,
        /// Between asking it to end and ending it.
        grace: Span,
        /// Why. The record of its end must tell, for the agent may have died by then.
        cause: StopCause,
    },
    /// See to it that an attempt that has not begun never does. Answered by [`Input::Seen`](super::Input::Seen), as it may
    /// have begun meanwhile.
    CallOff(AttemptId),
    /// End what is left of an attempt whose record cannot be relied on, and set the record aside. Answered by
    /// [`Observation::NotStarted`](super::Seen::NotStarted).
    Discard {
        /// Which.
        attempt: AttemptId,
        /// What is wrong with its record.
        why: String,
    },
    /// Remove an attempt's record: the server knows its end.
    Retire(AttemptId),
    /// End an attempt of another log. Answered by [`Input::ForeignGone`](super::Input::ForeignGone).
    StopForeign {
        /// Which.
        stranger: ForeignRecordId,
        /// Between asking it to end and ending it.
        grace: Span,
    },
    /// Remove the record of an attempt of another log.
    RetireForeign(ForeignRecordId),
    /// Tell it [`Input::Timer`](super::Input::Timer) then.
    SetTimer(Time),
}

/// Why an attempt is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The server wants it, or has given the attempt up.
    Wanted,
    /// The lease expired, and the attempt may run elsewhere by now.
    LeaseExpired,
}

impl StopCause {
    /// How an attempt ended that was ended for this. Nobody asked for one to stop whose lease expired: it counts as lost.
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
