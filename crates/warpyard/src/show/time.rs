//! Times as people say them: how long ago, and what the clock on the wall shows.

use super::Screen;
use warpyard_api::quantity::format_span;
pub(crate) use warpyard_api::quantity::format_span_secs;
use warpyard_api::wire::{StartRange, Timestamp};

const DAY: i64 = 86_400_000;

/// How long something still takes that took so long for a part of it: "3m 20s left".
pub(crate) fn time_left(took: f64, share: f64) -> String {
    let left = if share > 0.0 { format_span_secs((took / share - took).max(0.0)) } else { "?".to_owned() };
    left + " left"
}

impl Screen {
    /// How long it is since a moment.
    pub(crate) fn since(&self, moment: Timestamp) -> String {
        format_span(self.now.as_millis() - moment.as_millis())
    }

    /// How long it is since a moment, or was until another.
    pub(crate) fn between(&self, from: Timestamp, to: Option<Timestamp>) -> String {
        format_span(to.unwrap_or(self.now).as_millis() - from.as_millis())
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
    fn clocks_are_those_on_the_wall_and_name_another_day() {
        let mut screen = Screen::for_tests(None);
        assert_eq!(screen.clock(moment("2026-11-15T14:20:59Z")), "14:20");
        assert_eq!(screen.clock(moment("2026-11-16T00:05:00Z")), "Nov 16 00:05");
        assert_eq!(screen.clock(moment("2025-01-02T03:04:05Z")), "2025-01-02 03:04");
        screen.zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(screen.clock_exact(moment("2026-11-15T14:20:59Z")), "16:20:59");
    }
}
