//! The terminal one sits at: its size, word of it changing, and handing every key over, which is taken back on every way
//! out that a program has.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::io::{self, PipeReader, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use warpyard_session::Size;

/// The terminal whose keys were handed over, and how it was before.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// The size of the terminal one sits at; nothing where there is none.
pub(crate) fn size() -> Option<Size> {
    let (width, height) = terminal_size::terminal_size_of(io::stdin())?;
    Some(Size { rows: height.0, columns: width.0 })
}

/// Raw mode of this terminal, until dropped.
#[derive(Debug)]
pub(super) struct RawMode(());

impl RawMode {
    pub(super) fn enter(terminal: impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let handed_over = terminal.try_clone()?;
        *before_that() = Some((terminal, before));
        tcsetattr(handed_over, SetArg::TCSADRAIN, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn before_that() -> std::sync::MutexGuard<'static, Option<(OwnedFd, Termios)>> {
    BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Restores the terminal's mode. To be called before exiting without unwinding.
pub(crate) fn restore() {
    if let Some((terminal, before)) = before_that().take() {
        let _gone = tcsetattr(terminal, SetArg::TCSANOW, &before);
    }
}

/// A watch over the signals that concern the terminal. Made before any other thread, since the signals are kept from those
/// that come after.
#[derive(Debug)]
pub(crate) struct Signals {
    resized: PipeReader,
}

impl Signals {
    /// Starts watching: being asked to end, by any of these or by another, gives the keys back first.
    pub(crate) fn watch(another: Option<Signal>) -> io::Result<Self> {
        let usual = [Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        let signals: SigSet = usual.into_iter().chain(another).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::LocalFlags;

    #[test]
    fn a_panic_gives_the_keys_back() {
        let OpenptyResult { master: _held, slave } = openpty(None, None).expect("a terminal");
        let is_raw = || {
            !tcgetattr(&slave)
                .expect("a terminal")
                .local_flags
                .intersects(LocalFlags::ICANON | LocalFlags::ECHO)
        };
        let before = tcgetattr(&slave).expect("a terminal");
        let panicked = std::panic::catch_unwind(|| {
            let _raw = RawMode::enter(&slave).expect("a terminal");
            assert!(!is_raw(), "the keys were handed over");
        });
        let why = panicked.expect_err("it panicked");
        assert_eq!(why.downcast_ref::<&str>(), Some(&"the keys were handed over"));
        assert_eq!(tcgetattr(&slave).expect("a terminal"), before);
    }
}
