//! Text output: tables, times and colours for every answer of the server. Renderers turn wire types into text and
//! nothing else; they are told the width, the moment and the time zone, so that a test can fix all three.

pub(crate) mod allocate;
pub(crate) mod claims;
pub(crate) mod compare;
pub(crate) mod estimate;
pub(crate) mod faults;
mod figure;
pub(crate) mod gpus;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod jobs;
mod paint;
pub(crate) mod panels;
pub(crate) mod plan;
pub(crate) mod plot;
pub(crate) mod policies;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod sim;
mod table;
pub(crate) mod throughputs;
mod time;
pub(crate) mod trace;
pub(crate) mod why;
pub(crate) mod workers;

pub(crate) use figure::{figure, percent, took};
pub(crate) use paint::Paint;
pub(crate) use table::{Align, Cell, Table};
pub(crate) use time::{format_span_secs, time_left};

use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::io::IsTerminal;
use warpyard_api::wire::Timestamp;

/// The terminal as renderers see it.
pub(crate) struct Screen {
    /// How many columns there are; nothing where the output is no terminal, and then nothing is cut.
    pub(crate) width: Option<usize>,
    /// Whether colours are wanted.
    pub(crate) colours: bool,
    /// The moment that relative times are relative to.
    pub(crate) now: Timestamp,
    /// The zone that clocks are shown in.
    pub(crate) zone: TimeZone,
}

impl Screen {
    /// Standard output as it is.
    pub(crate) fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            width: width.filter(|_| terminal),
            colours: terminal && colours_welcome(|name| std::env::var(name).ok()),
            now: now(),
            zone: TimeZone::system(),
        }
    }

    /// The text in a colour, where colours are wanted.
    pub(crate) fn paint<'a>(&self, text: &'a str, paint: Paint) -> Cow<'a, str> {
        if self.colours { paint.over(text) } else { Cow::Borrowed(text) }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(width: Option<usize>) -> Self {
        let now = "2026-11-15T14:03:12Z".parse().expect("a moment");
        Self { width, colours: false, now, zone: TimeZone::UTC }
    }
}

/// This moment.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).expect("a year that can be written")
}

/// <https://no-color.org>, and terminals that say they have none.
fn colours_welcome(env: impl Fn(&str) -> Option<String>) -> bool {
    env("NO_COLOR").is_none_or(|value| value.is_empty()) && env("TERM").as_deref() != Some("dumb")
}

/// A count with its noun: "1 task", "3 tasks".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_dumb_terminals_are_honoured() {
        let with = |name: &'static str, value: &'static str| {
            colours_welcome(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(with("TERM", "xterm"));
        assert!(with("NO_COLOR", ""));
        assert!(!with("NO_COLOR", "1"));
        assert!(!with("TERM", "dumb"));
    }
}
