//! `--watch`: an answer drawn again whenever the server tells of a change, and now and then for what only time changes.
//! At a terminal it has the alternate screen to itself, which is left on every way out.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::Screen;
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use warpyard_api::client::Client;
use warpyard_api::quantity::Micros;

/// Changes that come within so long of each other are drawn once.
const SETTLE: Duration = Duration::from_millis(100);
/// Delay before reconnecting to a server that closed the change feed.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The shortest time between two drawings for time's sake.
const SHORTEST: Duration = Duration::from_millis(100);

/// To the alternate screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// And back.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Whether the alternate screen is in use.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Options of a view that is redrawn when something changes.
pub(crate) struct Watch<'a> {
    pub(crate) client: &'a Client,
    /// Longest interval between two redraws.
    pub(crate) every: Micros,
    pub(crate) context: &'a Context,
}

impl Watch<'_> {
    /// Draws it until a signal ends it, the server is gone for good or nobody reads.
    pub(crate) fn run<T: Serialize>(
        self,
        ask: impl Fn() -> anyhow::Result<Vec<T>>,
        human: impl Fn(&[T], &Screen) -> String,
    ) -> anyhow::Result<Exit> {
        let alone = !self.context.global.json && io::stdout().is_terminal();
        let _left_at_the_end = if alone { Some(AlternateScreen::enter()?) } else { None };
        let changes = listen(self.client);
        let every = Duration::from_micros(self.every.0).max(SHORTEST);
        let mut first = true;
        loop {
            let answer = ask()?;
            let screen = Screen::of_stdout();
            match (self.context.global.json, alone) {
                (true, _) => self.context.print_json(answer.as_slice())?,
                (false, true) => draw(&human(&answer, &screen))?,
                (false, false) => {
                    let between = if first { "" } else { "\n" };
                    self.context.print(&format!("{between}{}", human(&answer, &screen)))?;
                }
            }
            first = false;
            match changes.recv_timeout(every) {
                Ok(()) => {
                    std::thread::sleep(SETTLE);
                    changes.try_iter().for_each(drop);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The listener never ends, so only time is left.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(every),
            }
        }
    }
}

/// Draws a text over the one before, as much of it as fits.
fn draw(text: &str) -> io::Result<()> {
    let rows = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| usize::from(height.0));
    let (lines, total) = (rows.saturating_sub(1), text.lines().count());
    let mut out = String::from("\x1b[H");
    for line in text.lines().take(lines) {
        out.push_str(line);
        // To the end of the line, where a longer one may have stood.
        out.push_str("\x1b[K\r\n");
    }
    if total > lines {
        out.push_str(&format!("… {} more", total - lines));
    }
    out.push_str("\x1b[J");
    let mut to = io::stdout().lock();
    to.write_all(out.as_bytes())?;
    to.flush()
}

/// Forwards change events, coalescing those that arrive together.
fn listen(client: &Client) -> Receiver<()> {
    let (tell, changes) = sync_channel(1);
    let client = client.clone();
    std::thread::spawn(move || {
        loop {
            if let Ok(events) = client.events() {
                forward_events(BufReader::new(events), &tell);
            }
            std::thread::sleep(RETRY_DELAY);
        }
    });
    changes
}

fn forward_events(events: impl BufRead, tell: &SyncSender<()>) {
    for line in events.lines() {
        let Ok(line) = line else { return };
        if line.starts_with("data:") {
            // Where one is waiting already, it stands for this one too.
            let _told_already = tell.try_send(());
        }
    }
}

/// The alternate screen, until it is dropped or a signal ends the process.
struct AlternateScreen(());

impl AlternateScreen {
    fn enter() -> anyhow::Result<Self> {
        let signals: SigSet =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
        // Before any other thread, since those that come after keep the signals from themselves as this one does.
        signals.thread_block()?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Ok(signal) = signals.wait() {
                leave();
                std::process::exit(128 + signal as i32);
            }
        })?;
        ENTERED.store(true, Ordering::Relaxed);
        let mut out = io::stdout().lock();
        out.write_all(ENTER)?;
        out.flush()?;
        Ok(Self(()))
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        leave();
    }
}

fn leave() {
    if ENTERED.swap(false, Ordering::Relaxed) {
        // Past any lock: whoever holds it may be in the middle of drawing.
        let _nobody_looks = nix::unistd::write(io::stdout(), LEAVE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_are_told_as_one() {
        let (tell, changes) = sync_channel(1);
        forward_events(b": hello\n\nid: 1\ndata: {}\n\nid: 2\ndata: {}\n\n".as_slice(), &tell);
        assert_eq!(changes.try_iter().count(), 1);
    }
}
