//! How far a long computation is: a line on standard error that is written over where a person watches, and nothing
//! in a pipe.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// More often than this nobody can read.
const INTERVAL: Duration = Duration::from_millis(100);

/// The line; gone when dropped.
pub(crate) struct ProgressLine {
    watched: bool,
    said: Option<Instant>,
}

impl ProgressLine {
    pub(crate) fn of_stderr() -> Self {
        Self { watched: std::io::stderr().is_terminal(), said: None }
    }

    /// Whether anyone watches; otherwise nothing need be kept for saying.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Says how far it is, unless that was said a moment ago.
    pub(crate) fn say(&mut self, text: impl FnOnce() -> String) {
        if !self.watched || self.said.is_some_and(|said| said.elapsed() < INTERVAL) {
            return;
        }
        self.said = Some(Instant::now());
        let room = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        let text: String = text().chars().take(room.unwrap_or(80).saturating_sub(1)).collect();
        let mut err = std::io::stderr().lock();
        // Nobody need be reading.
        let _not_read = write!(err, "\r\u{1b}[K{text}").and_then(|()| err.flush());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.said.is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}
