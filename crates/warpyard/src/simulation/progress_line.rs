//! Progress line of a long computation: rewritten in place on standard error where that is a terminal, and nothing
//! in a pipe.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shortest interval between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The line; erased when dropped.
pub(crate) struct ProgressLine {
    watched: bool,
    updated: Option<Instant>,
}

impl ProgressLine {
    pub(crate) fn of_stderr() -> Self {
        Self { watched: std::io::stderr().is_terminal(), updated: None }
    }

    /// Whether standard error is a terminal; otherwise nothing need be computed.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Updates the line, unless it was updated a moment ago.
    pub(crate) fn update(&mut self, text: impl FnOnce() -> String) {
        if !self.watched || self.updated.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.updated = Some(Instant::now());
        let room = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
        let text: String = text().chars().take(room.unwrap_or(80).saturating_sub(1)).collect();
        let mut err = std::io::stderr().lock();
        // Nobody need be reading.
        let _not_read = write!(err, "\r\u{1b}[K{text}").and_then(|()| err.flush());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.updated.is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}
