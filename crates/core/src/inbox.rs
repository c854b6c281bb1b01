//! The server's half of the report protocol: which reports count. A link may lose, double, delay and reorder messages; a
//! report that is not later than one already received is dropped here, so that no transport has to.
//!
//! Nothing here is state: an engine that starts again knows of no report, takes whatever comes first, and asks for a full
//! report where that is a delta.

use crate::ids::WorkerId;
use crate::protocol::{Report, ReportId};

/// The latest report of each worker.
#[derive(Debug, Default)]
pub struct Inbox(Vec<Latest>);

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    id: ReportId,
    /// Whether a report that later deltas build on was never received, and no full one since.
    gap: bool,
}

impl Inbox {
    /// Notes a report and says whether it counts: late and duplicate ones do not. Without a number there is no telling, so
    /// an unnumbered report always counts.
    ///
    /// A delta with a gap before it counts as well, since each entry is absolute; what it cannot say is what the missing
    /// reports contained, so [`Inbox::has_gap`] holds until a full report arrives.
    pub fn accept(&mut self, worker: WorkerId, report: &Report) -> bool {
        let Report { id, base, .. } = *report;
        if id == ReportId::default() {
            return true;
        }
        let at = worker.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Latest::default());
        }
        let latest = &mut self.0[at];
        if id <= latest.id {
            return false;
        }
        let follows = |base: u64| latest.id == ReportId { seq: base, ..id };
        let gap = base.is_some_and(|base| latest.gap || !follows(base));
        *latest = Latest { id, gap };
        true
    }

    /// The latest report of a worker.
    pub fn latest(&self, worker: WorkerId) -> Option<ReportId> {
        let latest = self.0.get(worker.0 as usize)?;
        Some(latest.id).filter(|id| *id != ReportId::default())
    }

    /// Whether a worker has to send a full report.
    pub fn has_gap(&self, worker: WorkerId) -> bool {
        self.0.get(worker.0 as usize).is_some_and(|latest| latest.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: WorkerId = WorkerId(3);

    fn full(session: u64, seq: u64) -> Report {
        Report { id: ReportId { session, seq }, ..Report::default() }
    }

    fn delta(session: u64, seq: u64) -> Report {
        Report { base: Some(seq - 1), ..full(session, seq) }
    }

    #[test]
    fn late_and_doubled_reports_do_not_count() {
        let mut inbox = Inbox::default();
        assert!(inbox.accept(WORKER, &full(7, 1)));
        assert!(inbox.accept(WORKER, &delta(7, 2)));
        assert!(!inbox.accept(WORKER, &delta(7, 2)), "doubled");
        assert!(!inbox.accept(WORKER, &full(7, 1)), "late");
        assert!(inbox.accept(WORKER, &full(8, 1)), "of an agent that started again");
        assert!(!inbox.accept(WORKER, &delta(7, 9)), "of the agent before it, whatever its number");
        assert_eq!(inbox.latest(WORKER), Some(ReportId { session: 8, seq: 1 }));
        assert_eq!(inbox.latest(WorkerId(0)), None, "each worker by itself");
        assert!(inbox.accept(WORKER, &full(0, 0)), "of an agent that does not number them");
    }

    #[test]
    fn a_gap_lasts_until_a_full_report() {
        let mut inbox = Inbox::default();
        assert!(inbox.accept(WORKER, &delta(7, 5)) && inbox.has_gap(WORKER), "the server started in between");
        assert!(inbox.accept(WORKER, &delta(7, 6)) && inbox.has_gap(WORKER), "what was missing still is");
        assert!(inbox.accept(WORKER, &full(7, 7)) && !inbox.has_gap(WORKER));
        assert!(inbox.accept(WORKER, &delta(7, 8)) && !inbox.has_gap(WORKER));
        assert!(inbox.accept(WORKER, &delta(7, 10)) && inbox.has_gap(WORKER), "number 9 was lost");
        assert!(!inbox.accept(WORKER, &delta(7, 9)) && inbox.has_gap(WORKER), "or comes too late");
        assert!(inbox.accept(WORKER, &delta(8, 2)) && inbox.has_gap(WORKER), "of a session never heard of");
    }
}
