//! Someone at a terminal: a real one, with a command in it that has it to itself, keys to press and a screen to look at.

use super::{PATIENCE, signal};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

/// A terminal with a command in it.
pub(crate) struct Seat {
    child: Child,
    keys: File,
    slave: OwnedFd,
    screen: Arc<Screen>,
    /// How much of the screen was looked at.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    printed: Mutex<Vec<u8>>,
    more: Condvar,
}

impl Seat {
    /// Starts a command in a terminal of this size.
    pub(crate) fn take(command: &Command, (rows, columns): (u16, u16)) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).expect("a terminal");
        let end = || Stdio::from(slave.try_clone().expect("another of the same"));
        let mut alone = Command::new("setsid");
        alone.arg("--ctty").arg(command.get_program()).args(command.get_args());
        if let Some(dir) = command.get_current_dir() {
            alone.current_dir(dir);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => alone.env(name, value),
                None => alone.env_remove(name),
            };
        }
        let child = alone.stdin(end()).stdout(end()).stderr(end()).spawn().expect("setsid runs");
        let keys = File::from(master);
        let screen = Arc::new(Screen::default());
        let (mut printed, shown) = (keys.try_clone().expect("another of the same"), screen.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = printed.read(&mut buffer) {
                shown.printed.lock().expect("nobody panics").extend(&buffer[..length]);
                shown.more.notify_all();
            }
        });
        Self { child, keys, slave, screen, seen: 0 }
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys can be pressed");
    }

    /// Types a line.
    pub(crate) fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
    }

    /// Waits until this is on the screen, after what was waited for before. Gives what came in between.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut printed = self.screen.printed.lock().expect("nobody panics");
        loop {
            let unseen = &printed[self.seen..];
            if let Some(at) = unseen.windows(text.len()).position(|window| window == text.as_bytes()) {
                let between = String::from_utf8_lossy(&unseen[..at]).into_owned();
                self.seen += at + text.len();
                return between;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never saw {text:?}: {:?}", String::from_utf8_lossy(&printed));
            printed = self.screen.more.wait_timeout(printed, left).expect("nobody panics").0;
        }
    }

    /// Waits until one of two is on the screen; `true` where it is the first.
    #[track_caller]
    pub(crate) fn sees_either(&mut self, this: &str, that: &str) -> bool {
        let until = Instant::now() + PATIENCE;
        let mut printed = self.screen.printed.lock().expect("nobody panics");
        loop {
            let unseen = String::from_utf8_lossy(&printed[self.seen..]).into_owned();
            if unseen.contains(this) || unseen.contains(that) {
                return unseen.contains(this);
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never saw {this:?} nor {that:?}: {unseen:?}");
            printed = self.screen.more.wait_timeout(printed, left).expect("nobody panics").0;
        }
    }

    /// All that was ever on the screen.
    pub(crate) fn all(&self) -> String {
        String::from_utf8_lossy(&self.screen.printed.lock().expect("nobody panics")).into_owned()
    }

    /// Makes the terminal another size.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let end = Stdio::from(self.slave.try_clone().expect("another of the same"));
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let done = Command::new("stty").args(["rows", &rows, "cols", &columns]).stdin(end).status();
        assert!(done.expect("stty runs").success());
    }

    /// How the terminal is set.
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.slave).expect("it is a terminal")
    }

    /// Whether what is typed is handed over key by key.
    pub(crate) fn is_raw(&self) -> bool {
        !self.modes().local_flags.intersects(LocalFlags::ICANON | LocalFlags::ISIG)
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, by: Signal) {
        signal(self.child.id(), by);
    }

    /// Waits for the command's end; gives what it exited with.
    #[track_caller]
    pub(crate) fn left(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            assert!(Instant::now() < until, "it never ended: {:?}", self.all());
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
