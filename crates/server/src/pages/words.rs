//! Moments, lengths of time and sizes as pages say them, always with their unit.

use askama::Template;
use askama::filters::HtmlSafe;
use std::collections::{BTreeMap, BTreeSet};
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{StartRange, Timestamp};
use warpyard_core::Time;

// The pages' script (`span` in assets/live.js) says lengths of time the same way.
pub(super) use warpyard_api::quantity::format_span;

/// A limit as people write it: "2h", "90m" is "1h 30m".
pub(super) fn limit(millis: i64) -> String {
    let words = format_span(millis);
    match words.split_once(' ') {
        Some((large, "00m" | "00s" | "00h")) => large.to_owned(),
        _ => words,
    }
}

/// How long it is since a moment; counts on while the page is open.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time datetime="{{ exact }}" title="{{ exact }}"{% if let Some(way) = counts.way() %} data-{{ way }}="{{ millis }}"{% endif %}>{{ words }}</time>"#,
    ext = "html"
)]
pub(super) struct Moment {
    exact: String,
    millis: i64,
    words: String,
    counts: Counts,
}

impl HtmlSafe for Moment {}

/// Which way a length of time changes while the page is open.
#[derive(Clone, Copy, Debug)]
enum Counts {
    Up,
    Down,
    Not,
}

impl Counts {
    /// The attribute that has the pages' script count.
    fn way(self) -> Option<&'static str> {
        match self {
            Counts::Up => Some("since"),
            Counts::Down => Some("until"),
            Counts::Not => None,
        }
    }
}

impl Moment {
    /// How long ago that was.
    pub(super) fn since(at: Timestamp, now: Timestamp) -> Moment {
        let words = format_span(now.as_millis() - at.as_millis());
        Moment { exact: at.to_string(), millis: at.as_millis(), words, counts: Counts::Up }
    }

    /// How long it is until then; nothing once it has passed.
    pub(super) fn until(at: Timestamp, now: Timestamp) -> Moment {
        let words = format_span(at.as_millis() - now.as_millis());
        Moment { exact: at.to_string(), millis: at.as_millis(), words, counts: Counts::Down }
    }

    /// A moment as a date; the pages' script writes it in the reader's time zone.
    pub(super) fn date(at: Timestamp) -> Date {
        Date { exact: at.to_string() }
    }

    /// A length of time that is over, with the moment it began.
    pub(super) fn lasted(from: Timestamp, to: Timestamp) -> Moment {
        let words = format_span(to.as_millis() - from.as_millis());
        Moment { exact: from.to_string(), millis: from.as_millis(), words, counts: Counts::Not }
    }

    /// Between which lengths of time from now something will likely happen: "in 3–5 min".
    pub(super) fn range(range: StartRange, now: Timestamp) -> Moment {
        let (low, high) = (range.low.as_millis() - now.as_millis(), range.high.as_millis() - now.as_millis());
        // What should have begun and has not is foretold anew in a moment.
        let words =
            if high < -1_000 { "…".to_owned() } else { in_words(low.max(0) / 1000, high.max(0) / 1000) };
        Moment {
            exact: format!("{} to {}", range.low, range.high),
            millis: range.low.as_millis(),
            words,
            counts: Counts::Not,
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

// The form of a new job (`range` in assets/new.js) says ranges the same way.
fn in_words(low: i64, high: i64) -> String {
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

pub(crate) use crate::units::size;

/// A share of a whole in percent, to place things in pictures with.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1000.0).round().min(1000.0) / 10.0 }
}

/// Text of users, made harmless; escaping is the template's.
pub(super) fn text(from_user: &str) -> String {
    escape_controls(from_user).into_owned()
}

/// The same cut to a length that fits a picture.
pub(super) fn short_text(from_user: &str, most: usize) -> String {
    let whole = text(from_user);
    match whole.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// A name in a table: cut where it is long, with the whole of it on hover.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"{% if cut == whole %}{{ cut }}{% else %}<span title="{{ whole }}">{{ cut }}</span>{% endif %}"#,
    ext = "html"
)]
pub(super) struct Named {
    whole: String,
    cut: String,
}

impl HtmlSafe for Named {}

impl Named {
    pub(super) fn of(from_user: &str, most: usize) -> Named {
        Named { whole: text(from_user), cut: short_text(from_user, most) }
    }
}

/// How many places are named.
const PLACES: usize = 4;

/// Where something runs or ran, from pairs of a worker and devices of it by number: "host/0–5", or "host CPUs" where
/// it had no device.
pub(super) fn places(on: impl IntoIterator<Item = (String, Vec<u16>)>) -> String {
    let mut workers: BTreeMap<String, (BTreeSet<u16>, bool)> = BTreeMap::new();
    for (worker, devices) in on {
        let (numbers, bare) = workers.entry(worker).or_default();
        *bare |= devices.is_empty();
        numbers.extend(devices);
    }
    let named = workers.iter().flat_map(|(worker, (numbers, bare))| {
        let worker = text(worker);
        let devices = (!numbers.is_empty()).then(|| format!("{worker}/{}", in_runs(numbers)));
        devices.into_iter().chain(bare.then(|| format!("{worker}\u{a0}CPUs")))
    });
    let named: Vec<_> = named.collect();
    let more = if named.len() > PLACES { "; …" } else { "" };
    format!("{}{more}", named[..named.len().min(PLACES)].join("; "))
}

/// Numbers, those that follow each other as from the first to the last.
fn in_runs(numbers: &BTreeSet<u16>) -> String {
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
    // A few stay together where a line ends.
    let between = if runs.len() > 3 { ", " } else { ",\u{a0}" };
    runs.into_iter().map(run).collect::<Vec<_>>().join(between)
}

/// A moment of the engine's.
pub(super) fn moment(at: Time) -> Timestamp {
    crate::views::time(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lengths_have_units() {
        assert_eq!([0, 512, 4 << 30, 9 << 29].map(size), ["0 B", "512 B", "4 GiB", "4.5 GiB"]);
        assert_eq!(
            [0, 59_999, 192_000, 3_600_000, 90_061_000].map(format_span),
            ["0s", "1m 00s", "3m 12s", "1h 00m", "1d 01h"]
        );
        assert_eq!([30_000, 1_800_000, 5_400_000].map(limit), ["30s", "30m", "1h 30m"]);
    }

    #[test]
    fn a_long_name_is_cut_and_whole_on_hover_and_harmless_in_both() {
        let drawn = |name: &str| Named::of(name, 6).render().expect("a name");
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
        assert_eq!(places(on), "a/3; a\u{a0}CPUs; b/0–2,\u{a0}5; b\u{a0}CPUs");
        assert_eq!(
            places((0..9).map(|i| (format!("w{i}"), vec![0, 1, 2]))),
            "w0/0–2; w1/0–2; w2/0–2; w3/0–2; …"
        );
    }

    #[test]
    fn ranges_are_told_in_the_unit_of_their_later_end() {
        assert_eq!(in_words(0, 0), "now");
        assert_eq!(in_words(0, 14), "within 14 s");
        assert_eq!(in_words(20, 80), "within 1 min");
        assert_eq!(in_words(20, 40), "in 20–40 s");
        assert_eq!(in_words(170, 320), "in 3–5 min");
        assert_eq!(in_words(7_200, 7_300), "in 2 h");
    }
}
