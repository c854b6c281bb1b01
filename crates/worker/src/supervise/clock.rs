//! The two clocks of a supervisor. The wall clock dates records for people and decides nothing: it may be set at any moment.
//! Durations and deadlines use `CLOCK_BOOTTIME`, which never jumps and, unlike [`std::time::Instant`], continues while the
//! machine is suspended.

use std::fs;
use std::ops::Add;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Microseconds since 1970, for display only.
pub(super) fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Microseconds since the machine booted, whatever time namespace this process is in: records outlive a server, and the
/// next one may be in another namespace.
pub(super) fn boot_us() -> u64 {
    of_the_machine(Instant::now().0.as_micros() as u64)
}

/// A time of `CLOCK_BOOTTIME`, or a process's start time in `/proc`, without the offset of this process's time namespace.
pub(super) fn of_the_machine(boot_us: u64) -> u64 {
    static ADDED: OnceLock<i64> = OnceLock::new();
    let added = ADDED.get_or_init(|| {
        // Absent where the kernel has no time namespaces.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        boottime_offset_us(&offsets).unwrap_or(0)
    });
    boot_us.saturating_add_signed(added.saturating_neg())
}

/// The line `boottime SECONDS NANOSECONDS`.
fn boottime_offset_us(offsets: &str) -> Option<i64> {
    let mut fields = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?.split_ascii_whitespace();
    let (seconds, nanoseconds) = (fields.next()?.parse::<i64>().ok()?, fields.next()?.parse::<i64>().ok()?);
    Some(seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000))
}

/// Time since the machine booted, by `CLOCK_BOOTTIME`.
pub fn boot_time() -> Duration {
    Instant::now().0
}

/// A moment on `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(Duration);

impl Instant {
    pub(super) fn now() -> Self {
        // It only fails where the kernel has no such clock, which Linux has since 2.6.39.
        Self(clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Into::into))
    }

    pub(super) fn since_boot(time: Duration) -> Self {
        Self(time)
    }

    pub(super) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates at the largest representable moment.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(after))
    }
}

/// Running time: a stopwatch that is paused while the task is frozen.
#[derive(Debug)]
pub(super) struct RunningTime {
    before: Duration,
    since: Option<Instant>,
}

impl RunningTime {
    pub(super) fn start(now: Instant) -> Self {
        Self { before: Duration::ZERO, since: Some(now) }
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.before = self.elapsed(now);
        self.since = None;
    }

    pub(super) fn resume(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// When the running time reaches `limit` unless it is paused before; `None` while it is paused.
    pub(super) fn reaches(&self, limit: Duration) -> Option<Instant> {
        Some(self.since? + limit.saturating_sub(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_time_namespace_adds_is_read_from_its_offsets() {
        let offset = |text| boottime_offset_us(text);
        assert_eq!(offset("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(offset("monotonic 7 0\nboottime 31536000 5000000\n"), Some(31_536_000_005_000));
        assert_eq!(offset("boottime -3 500000000\n"), Some(-2_500_000));
        assert_eq!(offset(""), None);
    }

    #[test]
    fn paused_time_does_not_count() {
        let t0 = Instant::now();
        let at = |ms| t0 + Duration::from_millis(ms);
        let limit = Duration::from_millis(100);
        let mut time = RunningTime::start(t0);
        assert_eq!(time.reaches(limit), Some(at(100)));
        time.pause(at(40));
        assert_eq!(time.reaches(limit), None);
        assert_eq!(time.elapsed(at(500)), Duration::from_millis(40));
        time.resume(at(500));
        time.resume(at(510));
        assert_eq!(time.reaches(limit), Some(at(560)));
        assert_eq!(time.elapsed(at(530)), Duration::from_millis(70));
    }
}
