//! The worker's lease. The server gives up a worker that has sent no report for the length of its lease, and places its
//! attempts with `on_lost = rerun` elsewhere. The agent ends those attempts before that: it counts from the sending of the
//! latest acknowledged report, the server from its arrival, which is later.

use super::{Agent, Attempt};
use crate::ids::AttemptId;
use crate::protocol::ReportId;
use crate::spec::OnLost;
use crate::time::{Span, Time};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Part of the lease after which attempts are ended; they have the rest of it to exit.
fn patience(lease: Span) -> Span {
    Span(lease.0 * 2 / 3)
}

/// Deadlines of a lease where the agent itself cannot act: supervisors hold the attempts to them that may run elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDeadlines {
    /// Time at which the latest acknowledged report was sent.
    pub confirmed: Time,
    /// Time at which supervisors stop attempts: later than the agent does, which knows more.
    pub stop_at: Time,
    /// Time at which they kill them, whatever their grace periods: before the lease expires.
    pub kill_at: Time,
}

/// A worker's lease.
#[derive(Debug)]
pub(super) struct Lease {
    length: Span,
    confirmed: Time,
    /// Numbers of the reports sent since then, each with the time of sending.
    sent: VecDeque<(u64, Time)>,
}

impl Lease {
    pub(super) fn new(length: Span, now: Time) -> Lease {
        Lease { length, confirmed: now, sent: VecDeque::new() }
    }

    pub(super) fn confirmed(&self) -> Time {
        self.confirmed
    }

    /// Time at which attempts with `on_lost = rerun` are ended.
    pub(super) fn expires(&self) -> Time {
        self.confirmed + patience(self.length)
    }

    pub(super) fn deadlines(&self) -> LeaseDeadlines {
        let after = |twelfths: u64| self.confirmed + Span(self.length.0 / 12 * twelfths);
        LeaseDeadlines { confirmed: self.confirmed, stop_at: after(9), kill_at: after(11) }
    }

    pub(super) fn sent(&mut self, seq: u64, now: Time) {
        self.sent.push_back((seq, now));
    }

    /// Forgets reports that the server will never acknowledge.
    fn clear_sent(&mut self) {
        self.sent.clear();
    }

    fn received(&mut self, seq: u64) {
        while let Some((_, at)) = self.sent.pop_front_if(|(sent, _)| *sent <= seq) {
            self.confirmed = self.confirmed.max(at);
        }
    }
}

impl Agent {
    /// The server has received a report. One that this agent has yet to send was an earlier agent's: this agent took too
    /// small a session number, as when the record of the latest session was lost and the clock is behind. The server drops its
    /// reports as late until it takes a larger one.
    pub(super) fn acknowledge(&mut self, received: Option<ReportId>) {
        let Some(received) = received else { return };
        let stale = received > ReportId { session: self.session, seq: self.seq };
        #[cfg(feature = "bugs")]
        let stale = stale && self.bug != Some(super::Bug::KeepStaleSession);
        if stale {
            self.session = received.session.saturating_add(1);
            self.send_all = true;
            if let Some(lease) = &mut self.lease {
                lease.clear_sent();
            }
        }
        if received.session != self.session {
            return;
        }
        self.launch_health.acknowledged(received.seq);
        if let Some(lease) = &mut self.lease {
            lease.received(received.seq);
        }
    }

    /// Whether the expiry of the lease has any effect.
    pub(super) fn ends_on_expiry(&self) -> bool {
        self.in_force || self.attempts.iter().any(|(&id, attempt)| self.reruns(id, attempt))
    }

    /// Ends attempts that may run elsewhere. The assignments are void: the server may have made others by now.
    pub(super) fn expire(&mut self) {
        self.in_force = false;
        let reruns =
            self.attempts.iter().filter(|(id, attempt)| self.reruns(**id, attempt)).map(|(&id, _)| id);
        for id in reruns.collect::<SmallVec<[AttemptId; 4]>>() {
            self.attempts.get_mut(&id).expect("listed above").expired = true;
            self.stop_expired(id);
        }
    }

    /// Whether an attempt is run elsewhere on loss, and was not ended here.
    fn reruns(&self, id: AttemptId, attempt: &Attempt) -> bool {
        let on_lost = self.desired_of(id).map_or(attempt.on_lost, |desired| desired.on_lost);
        on_lost == OnLost::Rerun && !attempt.state.is_ended() && !attempt.expired
    }
}
