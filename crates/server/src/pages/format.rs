//! Times, durations and sizes as pages write them, always with their unit.

use askama::Template;
use askama::filters::HtmlSafe;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{StartRange, Timestamp};
use warpyard_core::Time;

// `formatSpan` in assets/format.js writes durations the same way.
pub(super) use warpyard_api::quantity::format_span;

/// A time limit without empty units: "2h", "1h 30m".
pub(super) fn format_limit(millis: i64) -> String {
    let words = format_span(millis);
    match words.split_once(' ') {
        Some((large, "00m" | "00s" | "00h")) => large.to_owned(),
        _ => words,
    }
}

/// A `<time>` element with a duration, which the page's script counts on.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time datetime="{{ exact }}" title="{{ exact }}"{% if let Some(name) = counts.attribute() %} data-{{ name }}="{{ millis }}"{% endif %}>{{ words }}</time>"#,
    ext = "html"
)]
pub(super) struct TimeSpan {
    exact: String,
    millis: i64,
    words: String,
    counts: CountDirection,
}

impl HtmlSafe for TimeSpan {}

/// The direction in which a duration changes while the page is open.
#[derive(Clone, Copy, Debug)]
enum CountDirection {
    Up,
    Down,
    Fixed,
}

impl CountDirection {
    /// The data attribute by which the page's script counts it.
    fn attribute(self) -> Option<&'static str> {
        match self {
            CountDirection::Up => Some("since"),
            CountDirection::Down => Some("until"),
            CountDirection::Fixed => None,
        }
    }
}

impl TimeSpan {
    /// The time since a moment.
    pub(super) fn since(at: Timestamp, now: Timestamp) -> TimeSpan {
        let words = format_span(now.as_millis() - at.as_millis());
        TimeSpan { exact: at.to_string(), millis: at.as_millis(), words, counts: CountDirection::Up }
    }

    /// The time until a moment; zero once it has passed.
    pub(super) fn until(at: Timestamp, now: Timestamp) -> TimeSpan {
        let words = format_span(at.as_millis() - now.as_millis());
        TimeSpan { exact: at.to_string(), millis: at.as_millis(), words, counts: CountDirection::Down }
    }

    /// A moment as a date, which the page's script writes in the reader's time zone.
    pub(super) fn date(at: Timestamp) -> Date {
        Date { exact: at.to_string() }
    }

    /// A duration that has ended, with the moment it began.
    pub(super) fn lasted(from: Timestamp, to: Timestamp) -> TimeSpan {
        let words = format_span(to.as_millis() - from.as_millis());
        TimeSpan { exact: from.to_string(), millis: from.as_millis(), words, counts: CountDirection::Fixed }
    }

    /// An expected start as a range from now: "in 3–5 min".
    pub(super) fn range(range: StartRange, now: Timestamp) -> TimeSpan {
        let (low, high) = (range.low.as_millis() - now.as_millis(), range.high.as_millis() - now.as_millis());
        // A start that is overdue is predicted anew in a moment.
        let words = if high < -1_000 {
            "…".to_owned()
        } else {
            format_start_range(low.max(0) / 1000, high.max(0) / 1000)
        };
        TimeSpan {
            exact: format!("{} to {}", range.low, range.high),
            millis: range.low.as_millis(),
            words,
            counts: CountDirection::Fixed,
        }
    }
}

/// A moment as a date.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time class="date" datetime="{{ exact }}" data-date>{{ exact }}</time>"#,
    ext = "html"
)]
pub(super) struct Date {
    exact: String,
}

impl HtmlSafe for Date {}

// `formatStartRange` in assets/format.js writes ranges the same way.
fn format_start_range(low: i64, high: i64) -> String {
    let (unit, name) = match high {
        0..60 => (1, "s"),
        60..5_400 => (60, "min"),
        5_400..129_600 => (3_600, "h"),
        _ => (86_400, "d"),
    };
    let (low, high) = ((low + unit / 2) / unit, (high + unit / 2) / unit);
    match (low, high) {
        (0, 0) => "now".into(),
        (0, high) => format!("within {high} {name}"),
        (low, high) if low == high => format!("in {low} {name}"),
        (low, high) => format!("in {low}–{high} {name}"),
    }
}

pub(crate) use crate::units::size as format_size;

/// A share of a whole in percent, for positions in pictures.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1000.0).round().min(1000.0) / 10.0 }
}

/// Untrusted text with control characters escaped; HTML is escaped by the template.
pub(super) fn escape(untrusted: &str) -> String {
    escape_controls(untrusted).into_owned()
}

/// The same, truncated.
pub(super) fn escape_truncated(untrusted: &str, most: usize) -> String {
    let whole = escape(untrusted);
    match whole.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// A text truncated in a table, with the whole of it as a tooltip.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"{% if cut == whole %}{{ cut }}{% else %}<span title="{{ whole }}">{{ cut }}</span>{% endif %}"#,
    ext = "html"
)]
pub(super) struct TruncatedText {
    whole: String,
    cut: String,
}

impl HtmlSafe for TruncatedText {}

impl TruncatedText {
    pub(super) fn of(untrusted: &str, most: usize) -> TruncatedText {
        TruncatedText { whole: escape(untrusted), cut: escape_truncated(untrusted, most) }
    }
}

/// The most groups of devices that are listed.
const MAX_DEVICE_GROUPS: usize = 4;

/// Devices by worker, from pairs of a worker and device indices: "host/0–5", or "host CPUs" where there is no device.
pub(super) fn format_devices(on: impl IntoIterator<Item = (String, Vec<u16>)>) -> String {
    let mut workers: BTreeMap<String, (BTreeSet<u16>, bool)> = BTreeMap::new();
    for (worker, devices) in on {
        let (numbers, bare) = workers.entry(worker).or_default();
        *bare |= devices.is_empty();
        numbers.extend(devices);
    }
    let named = workers.iter().flat_map(|(worker, (numbers, bare))| {
        let worker = escape(worker);
        let devices = (!numbers.is_empty()).then(|| format!("{worker}/{}", format_ranges(numbers)));
        devices.into_iter().chain(bare.then(|| format!("{worker}\u{a0}CPUs")))
    });
    let named: Vec<_> = named.collect();
    let more = if named.len() > MAX_DEVICE_GROUPS { "; …" } else { "" };
    format!("{}{more}", named[..named.len().min(MAX_DEVICE_GROUPS)].join("; "))
}

/// Numbers with consecutive ones as ranges: "0–3, 5".
fn format_ranges(numbers: &BTreeSet<u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): (u16, u16)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},\u{a0}{last}"),
        _ => format!("{first}–{last}"),
    };
    // A few ranges stay together at a line break.
    let between = if runs.len() > 3 { ", " } else { ",\u{a0}" };
    runs.into_iter().map(run).collect::<Vec<_>>().join(between)
}

/// The wire timestamp of an engine time.
pub(super) fn timestamp(at: Time) -> Timestamp {
    crate::views::time(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lengths_have_units() {
        assert_eq!([0, 512, 4 << 30, 9 << 29].map(format_size), ["0 B", "512 B", "4 GiB", "4.5 GiB"]);
        assert_eq!(
            [0, 59_999, 192_000, 3_600_000, 90_061_000].map(format_span),
            ["0s", "1m 00s", "3m 12s", "1h 00m", "1d 01h"]
        );
        assert_eq!([30_000, 1_800_000, 5_400_000].map(format_limit), ["30s", "30m", "1h 30m"]);
    }

    #[test]
    fn a_long_name_is_cut_and_whole_on_hover_and_harmless_in_both() {
        let drawn = |name: &str| TruncatedText::of(name, 6).render().expect("a name");
        assert_eq!(drawn("short"), "short");
        assert_eq!(
            drawn("\"><b>much longer"),
            "<span title=\"&#34;&#62;&#60;b&#62;much longer\">&#34;&#62;&#60;b&#62;m…</span>"
        );
    }

    #[test]
    fn places_are_told_by_worker_and_in_runs() {
        let on = [("b", vec![5, 0]), ("b", vec![1, 2]), ("a", vec![]), ("b", vec![]), ("a", vec![3])];
        let on = on.map(|(worker, devices)| (worker.to_owned(), devices));
        assert_eq!(format_devices(on), "a/3; a\u{a0}CPUs; b/0–2,\u{a0}5; b\u{a0}CPUs");
        assert_eq!(
            format_devices((0..9).map(|i| (format!("w{i}"), vec![0, 1, 2]))),
            "w0/0–2; w1/0–2; w2/0–2; w3/0–2; …"
        );
    }

    #[test]
    fn ranges_are_told_in_the_unit_of_their_later_end() {
        assert_eq!(format_start_range(0, 0), "now");
        assert_eq!(format_start_range(0, 14), "within 14 s");
        assert_eq!(format_start_range(20, 80), "within 1 min");
        assert_eq!(format_start_range(20, 40), "in 20–40 s");
        assert_eq!(format_start_range(170, 320), "in 3–5 min");
        assert_eq!(format_start_range(7_200, 7_300), "in 2 h");
    }
}
