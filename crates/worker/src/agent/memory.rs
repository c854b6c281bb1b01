//! Device memory in use, as reported to the server: a sliding maximum rather than every change of an allocator. A charge that
//! follows it rises at once, and falls once the memory has stayed free for the window.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use warpyard_core::AttemptId;
use warpyard_core::protocol::MemoryUse;

/// Window of the maximum.
const WINDOW: Duration = Duration::from_secs(60);

/// A sliding maximum for each attempt and device.
#[derive(Debug, Default)]
pub(super) struct MemoryWindow(BTreeMap<AttemptId, BTreeMap<String, VecDeque<(Instant, u64)>>>);

impl MemoryWindow {
    /// Records a measurement.
    pub(super) fn note(&mut self, attempt: AttemptId, uuid: &str, bytes: u64, now: Instant) {
        let devices = self.0.entry(attempt).or_default();
        let peaks = match devices.get_mut(uuid) {
            Some(peaks) => peaks,
            None => devices.entry(uuid.to_owned()).or_default(),
        };
        // Descending: what is no larger than a later one is never the maximum again.
        while peaks.back().is_some_and(|(_, earlier)| *earlier <= bytes) {
            peaks.pop_back();
        }
        peaks.push_back((now, bytes));
        while peaks.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW) {
            peaks.pop_front();
        }
    }

    /// Forgets attempts that have left their devices.
    pub(super) fn retain(&mut self, is_there: impl Fn(AttemptId) -> bool) {
        self.0.retain(|attempt, _| is_there(*attempt));
    }

    /// Maximum by attempt and device.
    pub(super) fn most(&self) -> MemoryUse {
        let most = |peaks: &VecDeque<(Instant, u64)>| peaks.front().map_or(0, |(_, bytes)| *bytes);
        let of = |devices: &BTreeMap<String, VecDeque<_>>| {
            devices.iter().map(|(uuid, p)| (uuid.clone(), most(p))).collect()
        };
        self.0.iter().map(|(attempt, devices)| (*attempt, of(devices))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::{JobId, TaskId};

    #[test]
    fn memory_counts_as_free_once_it_stayed_free_for_the_window() {
        let attempt = TaskId { job: JobId(1), node: 0, index: 0 }.attempt(1);
        let (begin, mut window) = (Instant::now(), MemoryWindow::default());
        let mut after = |seconds: u64, bytes: u64| {
            window.note(attempt, "a", bytes, begin + Duration::from_secs(seconds));
            window.most()[&attempt]["a"]
        };
        assert_eq!(after(0, 5), 5);
        assert_eq!(after(1, 9), 9, "more counts at once");
        assert_eq!(after(2, 1), 9);
        assert_eq!(after(30, 4), 9);
        assert_eq!(after(61, 1), 9);
        assert_eq!(after(62, 1), 4, "the 9 of second 1 are more than a minute ago");
        assert_eq!(after(91, 1), 1);
        window.retain(|_| false);
        assert!(window.most().is_empty());
    }
}
