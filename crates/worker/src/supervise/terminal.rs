//! The terminal a task runs in: its two ends, whoever is attached, what was printed last, and since when nothing
//! happened. Only the supervisor's side is here: who may attach is decided before anyone gets as far as its socket.
#![expect(unsafe_code, reason = "the size of a terminal is set by a call without a safe wrapper")]

use std::{
    collections::VecDeque,
    fs::{self, Permissions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            fs::{OpenOptionsExt, PermissionsExt, fchown},
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt},
    sys::{
        signal::{Signal, killpg},
        socket::{getsockopt, sockopt::PeerCredentials},
        termios::{InputFlags, SetArg, tcgetattr, tcsetattr},
    },
    unistd::{geteuid, tcgetpgrp},
};
use warpyard_session::{Arriving, Ask, Frame, Say, Size};

use super::{launch::Launch, output::Outputs};

/// The socket in an attempt's directory that leads to its terminal.
pub(super) const SOCKET: &str = "terminal";

/// How much of what was printed is kept for those who join later.
const KEPT: usize = 64 << 10;
/// With more than this waiting to be sent to someone, nothing more is read from the program.
const HIGH_WATER: usize = 256 << 10;
/// With more than this typed and not taken by the program, nothing more is read from anyone.
const TYPED: usize = 64 << 10;
/// How long someone may take nothing before the program stops waiting for them.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long those attached have to take the last of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many may be attached; one more sends the first away.
const GUESTS: usize = 8;
/// As much as is read at once.
const CHUNK: usize = 64 << 10;
/// The longest that a warning comes before the end it warns of.
const WARNING: Duration = Duration::from_secs(300);

/// A terminal and whoever is attached to it.
#[derive(Debug)]
pub(super) struct Terminal {
    master: PtyMaster,
    /// Held so that the terminal is never without anyone at its other end: what is printed last can still be read.
    _slave: OwnedFd,
    listener: UnixListener,
    guests: Vec<Guest>,
    /// What was typed and the program has not taken.
    typed: VecDeque<u8>,
    printed: Printed,
    size: Size,
    idle: Option<Idle>,
    buffer: Vec<u8>,
}

/// What can be done about a terminal in which nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stillness {
    /// Nothing yet.
    Borne,
    /// It has lasted for as long as it may.
    TooLong(Duration),
}

impl Terminal {
    /// Makes a terminal and the socket that leads to it, in the current directory. Gives the end the task gets.
    pub(super) fn open(launch: &Launch, session: &super::launch::Session) -> io::Result<(Self, OwnedFd)> {
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("cannot make a terminal: {e}"));
        let (master, slave) = pair(launch).map_err(failed)?;
        let listener = listen().map_err(failed)?;
        let theirs = slave.try_clone().map_err(failed)?;
        let terminal = Self {
            master,
            _slave: slave,
            listener,
            guests: Vec::new(),
            typed: VecDeque::new(),
            printed: Printed::default(),
            size: Size { rows: session.rows, columns: session.columns },
            idle: session.idle_ms.map(|limit| Idle::new(Duration::from_millis(limit))),
            buffer: vec![0; CHUNK],
        };
        terminal.apply_size();
        Ok((terminal, theirs))
    }

    /// What to wait for, in the order [`pump`](Self::pump) takes it.
    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        let reads = self.guests.iter().all(|guest| guest.outgoing.len() < HIGH_WATER);
        let master = when(reads, PollFlags::POLLIN) | when(!self.typed.is_empty(), PollFlags::POLLOUT);
        let mut fds = vec![
            PollFd::new(self.master.as_fd(), master),
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.guests.iter().map(|guest| {
            let wanted = when(self.typed.len() < TYPED, PollFlags::POLLIN)
                | when(!guest.outgoing.is_empty(), PollFlags::POLLOUT);
            PollFd::new(guest.stream.as_fd(), wanted)
        }));
        fds
    }

    /// Moves what there is to move, both ways.
    pub(super) fn pump(&mut self, events: &[PollFlags], outputs: &mut Outputs, now: Instant) {
        let [master, listener, guests @ ..] = events else { return };
        let mut asked = Vec::new();
        for (guest, event) in self.guests.iter_mut().zip(guests) {
            if event.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
                guest.read(&mut self.buffer);
            }
        }
        for (at, guest) in self.guests.iter_mut().enumerate() {
            while let Some(ask) = guest.next() {
                asked.push((at, ask));
            }
        }
        for (at, ask) in asked {
            self.obey(at, ask, now);
        }
        if !self.typed.is_empty() {
            self.write_typed();
        }
        if master.contains(PollFlags::POLLIN) {
            self.read_printed(outputs, now);
        }
        if listener.contains(PollFlags::POLLIN) {
            self.welcome();
        }
        self.send(now);
    }

    fn obey(&mut self, at: usize, ask: Ask, now: Instant) {
        match ask {
            Ask::Join { size, seen } => {
                let fresh = seen == 0;
                let (from, missed) = self.printed.since(seen);
                self.guests[at].join(from, missed);
                let same = size == self.size;
                self.resize(size);
                if same && fresh {
                    self.have_redrawn();
                }
            }
            Ask::Type(bytes) => self.typed.extend(bytes),
            Ask::Resize(size) => self.resize(size),
        }
        self.stir(now);
    }

    fn resize(&mut self, size: Size) {
        if size != self.size && size.rows > 0 && size.columns > 0 {
            self.size = size;
            self.apply_size();
        }
    }

    /// The kernel tells the program, if the size is another.
    fn apply_size(&self) {
        let size =
            libc::winsize { ws_row: self.size.rows, ws_col: self.size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptor is open and the call reads one winsize, which lives until it returns. That it may fail
        // costs no more than a wrong size.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }

    /// Has a program that fills the screen draw it again for who has seen none of it.
    fn have_redrawn(&self) {
        if let Ok(group) = tcgetpgrp(&self.master) {
            let _nobody_there = killpg(group, Signal::SIGWINCH);
        }
    }

    fn write_typed(&mut self) {
        while !self.typed.is_empty() {
            let (next, _) = self.typed.as_slices();
            match self.master.write(next) {
                Ok(taken) => drop(self.typed.drain(..taken)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.typed.clear(),
            }
        }
    }

    /// Reads a chunk of what the program printed; `false` where there is none.
    fn read_printed(&mut self, outputs: &mut Outputs, now: Instant) -> bool {
        let length = match self.master.read(&mut self.buffer) {
            Ok(length) if length > 0 => length,
            _ => return false,
        };
        let bytes = &self.buffer[..length];
        outputs.keep(bytes);
        self.printed.add(bytes);
        for guest in self.guests.iter_mut().filter(|guest| guest.joined) {
            Say::Printed(bytes.to_vec()).put(&mut guest.outgoing);
        }
        self.stir(now);
        true
    }

    /// Lets in whoever connected, if they are who this process is, or root.
    fn welcome(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let known = getsockopt(&stream, PeerCredentials)
                .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw());
            if !known || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.guests.len() == GUESTS {
                self.guests.remove(0);
            }
            self.guests.push(Guest::new(stream));
        }
    }

    /// Sends what waits, and sends away who has left or takes nothing.
    fn send(&mut self, now: Instant) {
        for guest in &mut self.guests {
            guest.write();
            guest.stuck = match guest.outgoing.len() {
                HIGH_WATER.. => guest.stuck.or(Some(now)),
                _ => None,
            };
        }
        self.guests.retain(|guest| !guest.gone && guest.stuck.is_none_or(|since| now < since + PATIENCE));
    }

    /// Tells everyone attached something that no program printed.
    pub(super) fn note(&mut self, text: &str) {
        for guest in self.guests.iter_mut().filter(|guest| guest.joined) {
            Say::Note(text.to_owned()).put(&mut guest.outgoing);
        }
        self.send(Instant::now());
    }

    /// Something happened, so it is not idle.
    pub(super) fn stir(&mut self, now: Instant) {
        if let Some(idle) = &mut self.idle {
            idle.stir(now);
        }
    }

    /// When somebody who takes nothing is sent away.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.guests.iter().filter_map(|guest| guest.stuck.map(|since| since + PATIENCE)).min()
    }

    /// When something is to be done about nothing happening.
    pub(super) fn idle_due(&self) -> Option<Instant> {
        self.idle.as_ref().map(Idle::due)
    }

    /// Sends away those who take nothing.
    pub(super) fn keep_time(&mut self, now: Instant) {
        if self.next_due().is_some_and(|at| at <= now) {
            self.send(now);
        }
    }

    /// Warns of the end that idleness leads to, and says when it is there.
    pub(super) fn look_at_idleness(&mut self, now: Instant) -> Stillness {
        let Some(idle) = &mut self.idle else { return Stillness::Borne };
        let limit = idle.limit;
        match idle.look(now) {
            None => Stillness::Borne,
            Some(left) if left.is_zero() => {
                self.note(&format!("nothing typed or printed for {}: this session ends", in_words(limit)));
                Stillness::TooLong(limit)
            }
            Some(left) => {
                let still = in_words(limit.saturating_sub(left));
                self.note(&format!(
                    "nothing typed or printed for {still}: this session ends in {} unless something is",
                    in_words(left)
                ));
                Stillness::Borne
            }
        }
    }

    /// Reads what is left once every process of the attempt is gone.
    pub(super) fn drain(&mut self, outputs: &mut Outputs) {
        let until = Instant::now() + FAREWELL;
        let readable = |master: &PtyMaster| {
            let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
        };
        while Instant::now() < until && readable(&self.master) && self.read_printed(outputs, Instant::now()) {
        }
    }

    /// Tells everyone that it is over. How it ended must be on record by now, for they will ask.
    pub(super) fn over(mut self) {
        // First, so that nobody else gets here.
        drop(self.listener);
        let _gone_with_the_directory = fs::remove_file(SOCKET);
        for guest in &mut self.guests {
            Say::Over.put(&mut guest.outgoing);
            let _left = guest.finish();
        }
    }
}

/// The two ends of a new terminal, the second belonging to the task's user.
fn pair(launch: &Launch) -> io::Result<(PtyMaster, OwnedFd)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let master = posix_openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(ptsname_r(&master)?)?;
    if let Some(user) = &launch.user {
        fchown(&slave, Some(user.uid), None)?;
    }
    // Nobody else writes there: messages of other people's are no part of a session that is kept in a log.
    slave.set_permissions(Permissions::from_mode(0o600))?;
    let mut modes = tcgetattr(&slave)?;
    // So that the last character is taken back as a whole, whatever its length.
    modes.input_flags |= InputFlags::IUTF8;
    tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
    Ok((master, slave.into()))
}

/// Listens in the current directory, for no one but this user.
fn listen() -> io::Result<UnixListener> {
    let listener = UnixListener::bind(Path::new(SOCKET))?;
    fs::set_permissions(SOCKET, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Someone who is attached.
#[derive(Debug)]
struct Guest {
    stream: UnixStream,
    arriving: Arriving,
    outgoing: Vec<u8>,
    joined: bool,
    gone: bool,
    /// Since when too much waits for them.
    stuck: Option<Instant>,
}

impl Guest {
    fn new(stream: UnixStream) -> Self {
        let (arriving, outgoing) = (Arriving::default(), Vec::new());
        Self { stream, arriving, outgoing, joined: false, gone: false, stuck: None }
    }

    fn join(&mut self, from: u64, missed: Vec<u8>) {
        if !std::mem::replace(&mut self.joined, true) {
            Say::From(from).put(&mut self.outgoing);
            Say::Printed(missed).put(&mut self.outgoing);
        }
    }

    fn read(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.gone = true,
            Ok(length) => self.arriving.add(&buffer[..length]),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(_) => self.gone = true,
        }
    }

    fn next(&mut self) -> Option<Ask> {
        let asked = self.arriving.take();
        self.gone |= asked.is_err();
        asked.ok().flatten()
    }

    fn write(&mut self) {
        let mut sent = 0;
        while sent < self.outgoing.len() && !self.gone {
            match self.stream.write(&self.outgoing[sent..]) {
                Ok(length) => sent += length,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        self.outgoing.drain(..sent);
    }

    /// Sends what waits, for a little while.
    fn finish(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(FAREWELL))?;
        self.stream.write_all(&self.outgoing)
    }
}

/// The last of what was printed.
#[derive(Debug, Default)]
struct Printed {
    /// How much was printed in all.
    total: u64,
    last: VecDeque<u8>,
}

impl Printed {
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.last.extend(bytes);
        let over = self.last.len().saturating_sub(KEPT);
        self.last.drain(..over);
    }

    /// What follows the first `seen` bytes, as far as it is kept, and where that begins. What begins in the middle begins
    /// with a line of its own, so that no half of a command to the terminal comes first.
    fn since(&self, seen: u64) -> (u64, Vec<u8>) {
        let kept_from = self.total - self.last.len() as u64;
        let mut begin = seen.clamp(kept_from, self.total.max(kept_from));
        if seen < kept_from
            && let Some(line) = self.last.iter().position(|&byte| byte == b'\n')
        {
            begin += line as u64 + 1;
        }
        (begin, self.last.iter().skip((begin - kept_from) as usize).copied().collect())
    }
}

/// How long nothing may happen.
#[derive(Debug)]
struct Idle {
    limit: Duration,
    since: Instant,
    warned: bool,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), warned: false }
    }

    fn stir(&mut self, now: Instant) {
        (self.since, self.warned) = (now, false);
    }

    /// How long before the end its warning comes.
    fn lead(&self) -> Duration {
        (self.limit / 10).min(WARNING)
    }

    fn due(&self) -> Instant {
        let end = self.since + self.limit;
        if self.warned { end } else { end - self.lead() }
    }

    /// What is left, when that is to be said: once before the end, and at the end.
    fn look(&mut self, now: Instant) -> Option<Duration> {
        if now < self.due() {
            return None;
        }
        self.warned = true;
        Some((self.since + self.limit).saturating_duration_since(now))
    }
}

/// A length of time as people say it, to the second.
fn in_words(length: Duration) -> String {
    let seconds = length.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, 0, 0) => format!("{} ms", length.as_millis()),
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, 0, 0) => format!("{h}h"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_joins_late_gets_the_last_of_it_from_a_line_on() {
        let mut printed = Printed::default();
        let line = [b'x'; 99].iter().chain(b"\n").copied().collect::<Vec<u8>>();
        for _ in 0..1000 {
            printed.add(&line);
        }
        let (from, missed) = printed.since(0);
        assert_eq!(from + missed.len() as u64, 100_000);
        assert!(missed.len() <= KEPT && missed.len() > KEPT - 200);
        assert_eq!(from % 100, 0, "it begins with a line");
        assert_eq!(printed.since(99_990), (99_990, line[90..].to_vec()), "what was seen is not sent again");
        assert_eq!(printed.since(100_000), (100_000, Vec::new()));
        assert_eq!(printed.since(u64::MAX), (100_000, Vec::new()), "nor is what never was");
    }

    #[test]
    fn idleness_is_warned_of_once_and_ends_where_something_happens() {
        let mut idle = Idle::new(Duration::from_secs(600));
        let (begin, second) = (idle.since, Duration::from_secs(1));
        assert_eq!(idle.look(begin + 539 * second), None);
        assert_eq!(idle.look(begin + 540 * second), Some(60 * second));
        assert_eq!(idle.look(begin + 541 * second), None, "once is enough");
        idle.stir(begin + 550 * second);
        assert_eq!(idle.look(begin + 1089 * second), None);
        assert_eq!(idle.look(begin + 1090 * second), Some(60 * second));
        assert_eq!(idle.look(begin + 1150 * second), Some(Duration::ZERO));
    }

    #[test]
    fn lengths_are_said_shortly() {
        let said = |seconds: f64| in_words(Duration::from_secs_f64(seconds));
        assert_eq!([said(0.2), said(59.0), said(1620.0), said(90.0)], ["200 ms", "59s", "27m", "1m 30s"]);
        assert_eq!([said(3600.0), said(5400.0)], ["1h", "1h 30m"]);
    }
}
