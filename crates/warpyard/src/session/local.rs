//! The terminal one sits at: its size, word of it changing, and handing every key over, which is taken back on every way
//! out that a program has.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::io::{self, PipeReader, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use warpyard_session::Size;

/// How the terminal was before its keys were handed over.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The size of the terminal one sits at; nothing where there is none.
pub(crate) fn size() -> Option<Size> {
    let (width, height) = terminal_size::terminal_size_of(io::stdin())?;
    Some(Size { rows: height.0, columns: width.0 })
}

/// Every key is handed over for as long as this lasts.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        *before_that() = Some(before);
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn before_that() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Gives the keys back, if they were handed over.
fn restore() {
    if let Some(before) = before_that().take() {
        let _gone = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
    }
}

/// A watch over the signals that concern the terminal. Made before any other thread, since the signals are kept from those
/// that come after.
#[derive(Debug)]
pub(crate) struct Signals {
    resized: PipeReader,
}

impl Signals {
    /// Starts watching: being asked to end gives the keys back first.
    pub(crate) fn watch() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        // The thread that watches takes no other signal, whoever may be waiting for one.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let (resized, mut tell) = pipe()?;
        let watch = move || {
            while let Ok(signal) = signals.wait() {
                if signal == Signal::SIGWINCH {
                    let _nobody_asks = tell.write_all(b".");
                } else {
                    restore();
                    std::process::exit(128 + signal as i32);
                }
            }
        };
        let watching = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
        before.thread_set_mask()?;
        signals.thread_block()?;
        watching.map(|_until_the_end| Self { resized })
    }

    /// Can be read from when the size has changed.
    pub(super) fn resized(&self) -> BorrowedFd<'_> {
        self.resized.as_fd()
    }

    /// Takes note of it.
    pub(super) fn note_resized(&mut self) {
        let _another_follows = self.resized.read(&mut [0; 64]);
    }
}
