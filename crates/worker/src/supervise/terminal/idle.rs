//! The idle timer of a terminal, and its warnings.

use crate::supervise::clock::Instant;
use std::time::Duration;

/// Longest time between the warning and the end.
const MAX_WARNING_LEAD: Duration = Duration::from_secs(300);

/// Time since something was typed or printed, and its limit.
#[derive(Debug)]
pub(super) struct IdleTimer {
    pub(super) limit: Duration,
    since: Instant,
    warned: bool,
}

impl IdleTimer {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), warned: false }
    }

    pub(super) fn record_activity(&mut self, now: Instant) {
        (self.since, self.warned) = (now, false);
    }

    /// Time between the warning and the end.
    fn lead(&self) -> Duration {
        (self.limit / 10).min(MAX_WARNING_LEAD)
    }

    pub(super) fn next_due(&self) -> Instant {
        let lead = if self.warned { Duration::ZERO } else { self.lead() };
        self.since + (self.limit - lead)
    }

    /// The remaining time, if it is due to be announced: once before the end, and at the end.
    pub(super) fn check(&mut self, now: Instant) -> Option<Duration> {
        if now < self.next_due() {
            return None;
        }
        self.warned = true;
        Some((self.since + self.limit).saturating_duration_since(now))
    }
}

/// A duration for people, to the second.
pub(super) fn format_duration(length: Duration) -> String {
    let seconds = length.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, 0, 0) => format!("{} ms", length.as_millis()),
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, 0, 0) => format!("{h}h"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_is_warned_of_once_and_ends_where_something_happens() {
        let mut idle = IdleTimer::new(Duration::from_secs(600));
        let (begin, second) = (idle.since, Duration::from_secs(1));
        assert_eq!(idle.check(begin + 539 * second), None);
        assert_eq!(idle.check(begin + 540 * second), Some(60 * second));
        assert_eq!(idle.check(begin + 541 * second), None, "once is enough");
        idle.record_activity(begin + 550 * second);
        assert_eq!(idle.check(begin + 1089 * second), None);
        assert_eq!(idle.check(begin + 1090 * second), Some(60 * second));
        assert_eq!(idle.check(begin + 1150 * second), Some(Duration::ZERO));
    }

    #[test]
    fn lengths_are_said_shortly() {
        let said = |seconds: f64| format_duration(Duration::from_secs_f64(seconds));
        assert_eq!([said(0.2), said(59.0), said(1620.0), said(90.0)], ["200 ms", "59s", "27m", "1m 30s"]);
        assert_eq!([said(3600.0), said(5400.0)], ["1h", "1h 30m"]);
    }
}
