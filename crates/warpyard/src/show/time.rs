//! Times as people say them: how long ago, and what the clock on the wall shows.

use super::Screen;
use warpyard_api::wire::{StartRange, Timestamp};

const DAY: i64 = 86_400_000;

/// A length of time in its two largest units: "3m 12s".
pub(crate) fn span(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds == 0 && millis >= 50 => format!("{:.1}s", millis as f64 / 1000.0),
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {:02}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes:02}m"),
        (days, hours, _) => format!("{days}d {hours:02}h"),
    }
}

/// The same for a number of seconds.
pub(crate) fn span_secs(seconds: f64) -> String {
    span((seconds * 1000.0) as i64)
}

/// How long something still takes that took so long for a part of it: "3m 20s left".
pub(crate) fn time_left(took: f64, share: f64) -> String {
    let left = if share > 0.0 { span_secs((took / share - took).max(0.0)) } else { "?".to_owned() };
    left + " left"
}

impl Screen {
    /// How long it is since a moment.
    pub(crate) fn since(&self, moment: Timestamp) -> String {
        span(self.now.as_millis() - moment.as_millis())
    }

    /// How long it is since a moment, or was until another.
    pub(crate) fn between(&self, from: Timestamp, to: Option<Timestamp>) -> String {
        span(to.unwrap_or(self.now).as_millis() - from.as_millis())
    }

    /// The wall clock at a moment, with the day where that is another.
    pub(crate) fn clock(&self, moment: Timestamp) -> String {
        self.format(moment, "%H:%M")
    }

    /// The same to the second.
    pub(crate) fn clock_exact(&self, moment: Timestamp) -> String {
        self.format(moment, "%H:%M:%S")
    }

    /// The same with how long ago that was.
    pub(crate) fn clock_and_age(&self, moment: Timestamp) -> String {
        format!("{} ({} ago)", self.clock_exact(moment), self.since(moment))
    }

    /// Between which times something will likely happen: "14:20–14:35".
    pub(crate) fn range(&self, range: StartRange) -> String {
        let (low, high) = (self.clock(range.low), self.clock(range.high));
        if low == high { low } else { format!("{low}–{high}") }
    }

    fn format(&self, moment: Timestamp, clock: &str) -> String {
        let zoned = |millis| {
            let moment = jiff::Timestamp::from_millisecond(millis).expect("as a moment says of itself");
            moment.to_zoned(self.zone.clone())
        };
        let (then, now) = (zoned(moment.as_millis()), zoned(self.now.as_millis()));
        let far = (moment.as_millis() - self.now.as_millis()).abs() > 180 * DAY;
        let day = match then.date() == now.date() {
            true => "",
            false if far => "%Y-%m-%d ",
            false => "%b %d ",
        };
        then.strftime(&format!("{day}{clock}")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_left_goes_by_what_was_done() {
        assert_eq!(
            [(0.0, 0.0), (20.0, 0.1), (5.0, 1.0)].map(|(t, s)| time_left(t, s)),
            ["? left", "3m 00s left", "0s left"]
        );
    }

    #[test]
    fn spans_have_two_units() {
        let said: Vec<String> = [0, 400, 59_999, 192_000, 3_600_000, 90_061_000].map(span).into();
        assert_eq!(said, ["0s", "0.4s", "59s", "3m 12s", "1h 00m", "1d 01h"]);
        assert_eq!(span(-5), "0s", "clocks of two machines differ");
    }

    #[test]
    fn clocks_are_those_on_the_wall_and_name_another_day() {
        let mut screen = Screen::for_tests(None);
        assert_eq!(screen.clock(moment("2026-11-15T14:20:59Z")), "14:20");
        assert_eq!(screen.clock(moment("2026-11-16T00:05:00Z")), "Nov 16 00:05");
        assert_eq!(screen.clock(moment("2025-01-02T03:04:05Z")), "2025-01-02 03:04");
        screen.zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(screen.clock_exact(moment("2026-11-15T14:20:59Z")), "16:20:59");
    }
}
