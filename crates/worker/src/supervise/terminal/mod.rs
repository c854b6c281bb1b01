//! The terminal a task runs in: its two ends and the socket that leads to it. Whoever is attached, what was printed last,
//! and since when nothing happened have rooms of their own. Only the supervisor's side is here: who may attach is decided
//! before anyone gets as far as its socket.
#![expect(unsafe_code, reason = "the size of a terminal is set by a call without a safe wrapper")]

mod clients;
mod idle;
mod scrollback;

use std::{
    collections::VecDeque,
    fs::{self, Permissions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            fs::{OpenOptionsExt, PermissionsExt, fchown},
            net::UnixListener,
        },
    },
    path::Path,
    time::Duration,
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
use warpyard_session::{ClientFrame, SessionFrame, Size};

use super::{clock::Instant, launch::Launch, output::Outputs};
use clients::{Clients, DRAIN_TIMEOUT};
use idle::{IdleTimer, format_duration};
use scrollback::Scrollback;

/// The socket in an attempt's directory that leads to its terminal.
pub(super) const SOCKET: &str = "terminal";

/// With more than this typed and not taken by the program, nothing more is read from anyone.
const MAX_PENDING_INPUT: usize = 64 << 10;
/// As much as is read at once.
const CHUNK: usize = 64 << 10;

/// A terminal and whoever is attached to it.
#[derive(Debug)]
pub(super) struct Terminal {
    master: PtyMaster,
    /// Held so that the terminal is never without anyone at its other end: what is printed last can still be read.
    _slave: OwnedFd,
    listener: UnixListener,
    clients: Clients,
    /// What was typed and the program has not taken.
    input: VecDeque<u8>,
    scrollback: Scrollback,
    size: Size,
    idle: Option<IdleTimer>,
    buffer: Vec<u8>,
}

/// What can be done about a terminal in which nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleCheck {
    /// Nothing yet.
    WithinLimit,
    /// It has lasted for as long as it may.
    Exceeded(Duration),
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
            clients: Clients::default(),
            input: VecDeque::new(),
            scrollback: Scrollback::default(),
            size: Size { rows: session.rows, columns: session.columns },
            idle: session.idle_ms.map(|limit| IdleTimer::new(Duration::from_millis(limit))),
            buffer: vec![0; CHUNK],
        };
        terminal.apply_size();
        Ok((terminal, theirs))
    }

    /// What to wait for, in the order [`pump`](Self::pump) takes it. Without `room` for what is printed, that waits.
    pub(super) fn poll_fds(&self, room: bool) -> Vec<PollFd<'_>> {
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        let master = when(room && self.clients.keep_up(), PollFlags::POLLIN)
            | when(!self.input.is_empty(), PollFlags::POLLOUT);
        let mut fds = vec![
            PollFd::new(self.master.as_fd(), master),
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.clients.poll_fds(self.input.len() < MAX_PENDING_INPUT));
        fds
    }

    /// Moves what there is to move, both ways.
    pub(super) fn pump(&mut self, events: &[PollFlags], outputs: &mut Outputs, now: Instant) {
        let [master, listener, clients @ ..] = events else { return };
        for (at, ask) in self.clients.read(clients, &mut self.buffer) {
            self.handle_frame(at, ask, now);
        }
        if !self.input.is_empty() {
            self.write_input();
        }
        if master.contains(PollFlags::POLLIN) {
            self.read_output(outputs, now);
        }
        // First, so that whoever has left makes room.
        self.clients.send(now);
        if listener.contains(PollFlags::POLLIN) {
            self.accept();
        }
    }

    fn handle_frame(&mut self, at: usize, ask: ClientFrame, now: Instant) {
        match ask {
            ClientFrame::Join { size, seen } => {
                let fresh = seen == 0;
                let (from, missed) = self.scrollback.since(seen);
                self.clients.join(at, from, missed);
                let same = size == self.size;
                self.resize(size);
                if same && fresh {
                    self.request_redraw();
                }
            }
            ClientFrame::Input(bytes) => self.input.extend(bytes),
            ClientFrame::Resize(size) => self.resize(size),
        }
        self.record_activity(now);
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
    fn request_redraw(&self) {
        if let Ok(group) = tcgetpgrp(&self.master) {
            let _nobody_there = killpg(group, Signal::SIGWINCH);
        }
    }

    fn write_input(&mut self) {
        while !self.input.is_empty() {
            let (next, _) = self.input.as_slices();
            match self.master.write(next) {
                Ok(taken) => drop(self.input.drain(..taken)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.input.clear(),
            }
        }
    }

    /// Reads a chunk of what the program printed; `false` where there is none.
    fn read_output(&mut self, outputs: &mut Outputs, now: Instant) -> bool {
        let length = match self.master.read(&mut self.buffer) {
            Ok(length) if length > 0 => length,
            _ => return false,
        };
        let bytes = &self.buffer[..length];
        outputs.keep(bytes);
        self.scrollback.add(bytes);
        self.clients.broadcast(&SessionFrame::Output(bytes.to_vec()));
        self.record_activity(now);
        true
    }

    /// Lets in whoever connected, if they are who this process is, or root.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let known = getsockopt(&stream, PeerCredentials)
                .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw());
            if known && stream.set_nonblocking(true).is_ok() {
                self.clients.accept(stream);
            }
        }
    }

    /// Tells everyone attached something that no program printed.
    pub(super) fn note(&mut self, text: &str) {
        self.clients.broadcast(&SessionFrame::Notice(text.to_owned()));
        self.clients.send(Instant::now());
    }

    /// Something happened, so it is not idle.
    pub(super) fn record_activity(&mut self, now: Instant) {
        if let Some(idle) = &mut self.idle {
            idle.record_activity(now);
        }
    }

    /// When somebody who takes nothing is sent away.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.clients.next_due()
    }

    /// When something is to be done about nothing happening.
    pub(super) fn idle_due(&self) -> Option<Instant> {
        self.idle.as_ref().map(IdleTimer::next_due)
    }

    /// Sends away those who take nothing.
    pub(super) fn keep_time(&mut self, now: Instant) {
        if self.next_due().is_some_and(|at| at <= now) {
            self.clients.send(now);
        }
    }

    /// Warns of the end that idleness leads to, and says when it is there.
    pub(super) fn check_idle(&mut self, now: Instant) -> IdleCheck {
        let Some(idle) = &mut self.idle else { return IdleCheck::WithinLimit };
        let limit = idle.limit;
        match idle.check(now) {
            None => IdleCheck::WithinLimit,
            Some(left) if left.is_zero() => {
                self.note(&format!(
                    "nothing typed or printed for {}: this session ends",
                    format_duration(limit)
                ));
                IdleCheck::Exceeded(limit)
            }
            Some(left) => {
                let still = format_duration(limit.saturating_sub(left));
                self.note(&format!(
                    "nothing typed or printed for {still}: this session ends in {} unless something is",
                    format_duration(left)
                ));
                IdleCheck::WithinLimit
            }
        }
    }

    /// Reads what is left once every process of the attempt is gone.
    pub(super) fn drain(&mut self, outputs: &mut Outputs) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        let readable = |master: &PtyMaster| {
            let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
        };
        while Instant::now() < until && readable(&self.master) && self.read_output(outputs, Instant::now()) {}
    }

    /// Tells everyone that it is over. How it ended must be on record by now, for they will ask.
    pub(super) fn over(self) {
        // First, so that nobody else gets here.
        drop(self.listener);
        let _gone_with_the_directory = fs::remove_file(SOCKET);
        self.clients.close();
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
