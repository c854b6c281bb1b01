//! Durations for display: "3m 12s". The command line and the pages share one rounding, so that two figures of the
//! same duration never differ.

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A duration in its two largest units, rounded to the smaller of them; below a second to a tenth.
///
/// ```
/// use warpyard_api::quantity::format_span;
/// assert_eq!(format_span(192_499), "3m 12s");
/// assert_eq!(format_span(192_500), "3m 13s");
/// ```
pub fn format_span(millis: i64) -> String {
    // Clocks of two machines differ, so what is over may seem not to have begun.
    let millis = millis.max(0);
    let rounded = |unit: i64| (millis + unit / 2) / unit;
    let tenths = rounded(SECOND / 10);
    let (seconds, minutes, hours) = (rounded(SECOND), rounded(MINUTE), rounded(HOUR));
    match (tenths, seconds, minutes, hours) {
        (1..10, ..) => format!("0.{tenths}s"),
        (_, 0..60, ..) => format!("{seconds}s"),
        (_, 60..3600, ..) => format!("{}m {:02}s", seconds / 60, seconds % 60),
        (_, _, 0..1440, _) => format!("{}h {:02}m", minutes / 60, minutes % 60),
        _ => format!("{}d {:02}h", hours / 24, hours % 24),
    }
}

/// The same for a number of seconds.
pub fn format_span_secs(seconds: f64) -> String {
    format_span((seconds * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_what_is_shown() {
        let said = [0, 49, 50, 449, 949, 950, 1_499, 1_500, 59_499, 59_500, 192_000].map(format_span);
        assert_eq!(said, ["0s", "0s", "0.1s", "0.4s", "0.9s", "1s", "1s", "2s", "59s", "1m 00s", "3m 12s"]);
        let said = [3_599_499, 3_599_500, 5_370_000, 86_369_999, 86_370_000, 90_061_000, 171_000_000]
            .map(format_span);
        assert_eq!(said, ["59m 59s", "1h 00m", "1h 30m", "23h 59m", "1d 00h", "1d 01h", "2d 00h"]);
        assert_eq!(format_span(-5), "0s");
    }

    #[test]
    fn seconds_and_milliseconds_of_one_length_read_the_same() {
        for millis in (0..200_000).step_by(7) {
            assert_eq!(format_span(millis), format_span_secs(millis as f64 / 1000.0), "{millis}");
        }
    }
}
