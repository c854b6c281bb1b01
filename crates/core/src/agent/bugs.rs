//! Injected bugs, by which a test shows that the fault simulator finds such. Only builds with the feature `bugs` contain
//! them.

use super::{Agent, Output, RecordOwner};
use crate::protocol::{AttemptStatus, Report};

/// An injected bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Attempts that run elsewhere on loss go on when the lease expires.
    OutliveTheLease,
    /// Attempts are launched while one that the server gave up is still here.
    LaunchBesideLingering,
    /// An attempt's record is retired once its end was sent, whether or not that was received.
    ForgetUndelivered,
    /// Attempts of another log are adopted.
    AdoptAnotherLogs,
    /// A session that is not the latest is kept.
    KeepStaleSession,
}

impl Agent {
    /// The agent with a bug in it.
    pub fn with_bug(self, bug: Option<Bug>) -> Agent {
        Agent { bug, ..self }
    }

    pub(super) fn mistaken_owner(&self, owner: RecordOwner) -> RecordOwner {
        if self.bug == Some(Bug::AdoptAnotherLogs) { RecordOwner::ThisLog } else { owner }
    }

    pub(super) fn forget_reported(&mut self, report: &Report) {
        if self.bug == Some(Bug::ForgetUndelivered) {
            for over in report.attempts.iter().filter(|one| matches!(one.standing, AttemptStatus::Over(_))) {
                self.attempts.remove(&over.attempt);
                self.emit(Output::Retire(over.attempt));
            }
        }
    }
}
