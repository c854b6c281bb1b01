//! Reports to the server: full ones at intervals and on request, deltas in between.

use super::Agent;
use crate::protocol::{Report, ReportId, ReportedAttempt};
use crate::time::Time;
use std::collections::BTreeMap;

impl Agent {
    /// Report to send now, if anything changed or a full one is due. It is sent once; the next full report makes up for its loss.
    pub fn report(&mut self, now: Time) -> Option<Report> {
        let full = self.send_all;
        if !full && self.news.is_empty() && !self.devices_changed && !self.launch_health.is_news() {
            return None;
        }
        self.seq += 1;
        if let Some(lease) = &mut self.lease {
            lease.sent(self.seq, now);
        }
        let rank = 0;
        let attempts = if full {
            let reported = |(&attempt, here): (_, &super::Attempt)| {
                Some(ReportedAttempt { attempt, standing: here.state.status()?.clone(), rank })
            };
            self.attempts.iter().filter_map(reported).collect()
        } else {
            self.news.sort_unstable();
            self.news.dedup();
            let reported = |&attempt| {
                let standing = self.attempts.get(&attempt)?.state.status()?.clone();
                Some(ReportedAttempt { attempt, standing, rank })
            };
            self.news.iter().filter_map(reported).collect()
        };
        let devices = if full || self.devices_changed { self.devices.clone() } else { BTreeMap::new() };
        let report = Report {
            id: ReportId { session: self.session, seq: self.seq },
            base: (!full).then_some(self.seq - 1),
            info: None,
            attempts,
            devices,
            used: if full { self.used.clone() } else { BTreeMap::new() },
            quarantined: self.launch_health.report(self.seq),
        };
        self.news.clear();
        (self.send_all, self.devices_changed) = (false, false);
        #[cfg(feature = "bugs")]
        self.forget_reported(&report);
        Some(report)
    }
}
