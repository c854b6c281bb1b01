//! The terminal of a task: the pseudo-terminal and the socket through which clients attach. Clients, scrollback and idle timer
//! are modules of their own. Who may attach is decided by the server before it connects to the socket.
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

/// The name of the socket in the attempt directory.
pub(super) const SOCKET: &str = "terminal";

/// Input not yet read by the program above which no more is read from clients.
const MAX_PENDING_INPUT: usize = 64 << 10;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// A terminal and its attached clients.
#[derive(Debug)]
pub(super) struct Terminal {
    master: PtyMaster,
    /// Kept open so that the master never sees a hang-up: the last output can still be read after the task's end.
    _slave: OwnedFd,
    listener: UnixListener,
    clients: Clients,
    /// Input the program has not read yet.
    input: VecDeque<u8>,
    scrollback: Scrollback,
    size: Size,
    idle: Option<IdleTimer>,
    buffer: Vec<u8>,
}

/// Result of an idle check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleCheck {
    /// The idle limit is not reached.
    WithinLimit,
    /// The terminal has been idle for this limit.
    Exceeded(Duration),
}

impl Terminal {
    /// Creates a terminal, and its socket in the current directory. Returns the task's end too.
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

    /// Descriptors to poll, in the order of [`pump`](Self::pump). Without `room` in the outputs, the program's output waits.
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

    /// Moves input and output, one chunk each.
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
        // Before accepting, so that clients that have left make room.
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

    /// Sets the size; the kernel sends SIGWINCH if it differs.
    fn apply_size(&self) {
        let size =
            libc::winsize { ws_row: self.size.rows, ws_col: self.size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptor is open and the call reads one winsize, which lives until it returns. That it may fail
        // costs no more than a wrong size.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }

    /// Makes a full-screen program redraw for a client that has seen none of its output.
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

    /// Reads a chunk of output; `false` if there is none.
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

    /// Accepts connections of this process's own user and of root.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let known = getsockopt(&stream, PeerCredentials)
                .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw());
            if known && stream.set_nonblocking(true).is_ok() {
                self.clients.accept(stream);
            }
        }
    }

    /// Sends a notice of warpyard's own to every client.
    pub(super) fn note(&mut self, text: &str) {
        self.clients.broadcast(&SessionFrame::Notice(text.to_owned()));
        self.clients.send(Instant::now());
    }

    /// Restarts the idle timer.
    pub(super) fn record_activity(&mut self, now: Instant) {
        if let Some(idle) = &mut self.idle {
            idle.record_activity(now);
        }
    }

    /// When the next stalled client is dropped.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.clients.next_due()
    }

    /// When the idle timer is due.
    pub(super) fn idle_due(&self) -> Option<Instant> {
        self.idle.as_ref().map(IdleTimer::next_due)
    }

    /// Drops clients that have read nothing for too long.
    pub(super) fn drop_stalled_clients(&mut self, now: Instant) {
        if self.next_due().is_some_and(|at| at <= now) {
            self.clients.send(now);
        }
    }

    /// Checks the idle timer, and warns clients before the limit is reached.
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

    /// Reads the rest of the output once every process of the attempt is gone.
    pub(super) fn drain(&mut self, outputs: &mut Outputs) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        let readable = |master: &PtyMaster| {
            let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
        };
        while Instant::now() < until && readable(&self.master) && self.read_output(outputs, Instant::now()) {}
    }

    /// Closes the terminal and sends the end to every client. The exit record must exist by now, for they ask for it.
    pub(super) fn over(self) {
        // Before anything else, so that no other client connects.
        drop(self.listener);
        let _gone_with_the_directory = fs::remove_file(SOCKET);
        self.clients.close();
    }
}

/// Creates a pseudo-terminal whose second end belongs to the task's user.
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
    // Not writable by others (`write`, `wall`): their messages would end up in the task's log.
    slave.set_permissions(Permissions::from_mode(0o600))?;
    let mut modes = tcgetattr(&slave)?;
    // Lets the line discipline erase a whole UTF-8 character at once.
    modes.input_flags |= InputFlags::IUTF8;
    tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
    Ok((master, slave.into()))
}

/// Listens in the current directory, accessible to this user only.
fn listen() -> io::Result<UnixListener> {
    let listener = UnixListener::bind(Path::new(SOCKET))?;
    fs::set_permissions(SOCKET, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
