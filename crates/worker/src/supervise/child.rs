//! Child processes a supervisor forks for everything that may block: unpacking, opening files of the user's, becoming the
//! program. Each reports over a socket of its own, so that the supervisor's event loop keeps running and can kill it at any
//! moment. Never `vfork`, which would suspend the supervisor for as long as the child waits for a dead mount.
#![expect(unsafe_code, reason = "processes are forked and set up")]

use std::{
    io::{self, IoSlice},
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, sendmsg, socketpair},
};

use super::{clock::Instant, launch::User};

/// Longest message of a child; longer ones are truncated.
const LONGEST: usize = 4096;

/// A forked child and the supervisor's end of its socket.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: i32,
    line: OwnedFd,
}

/// One message of a child.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// It has finished its stage.
    Ready,
    /// A line for the task's log.
    Note(String),
    /// It failed, for this reason.
    Failed(Vec<u8>),
    /// It has exited or become another program: nothing follows.
    Closed,
}

/// Options of forking a child.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ForkOptions {
    /// The directory of the cgroup it is created in (`CLONE_INTO_CGROUP`), where the kernel allows that.
    pub(super) cgroup: Option<RawFd>,
    /// Whether it has no exit signal, so that `wait4` without `__WCLONE` ignores it: it works for the supervisor and is no
    /// process of the task.
    pub(super) separate: bool,
}

impl Child {
    /// Forks. The child calls `work`, reports a failure and exits; `work` is told whether the child was created in the
    /// cgroup.
    pub(super) fn fork(
        how: ForkOptions,
        work: impl FnOnce(&ReportSocket, bool) -> Result<(), Vec<u8>>,
    ) -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let supervisor = std::process::id() as i32;
        // SAFETY: a supervisor has one thread, so its child may do anything; it leaves by `_exit` or `execve` only.
        let forked = unsafe { fork(how) };
        let (pid, inside) =
            forked.map_err(|e| io::Error::new(e.kind(), format!("cannot make a process: {e}")))?;
        if pid != 0 {
            return Ok(Self { pid, line: ours });
        }
        drop(ours);
        let line = ReportSocket(theirs);
        // A panic must not unwind into the copy of the supervisor's loop that this process has.
        let done = catch_unwind(AssertUnwindSafe(|| {
            die_with(supervisor);
            work(&line, inside)
        }));
        let status = match done {
            Ok(Ok(())) => 0,
            Ok(Err(reason)) => {
                line.send(b'-', &reason);
                127
            }
            Err(_panic) => 126,
        };
        // SAFETY: ends this process without running anything of the supervisor's.
        unsafe { libc::_exit(status) }
    }

    /// The next message, if one has arrived.
    pub(super) fn message(&self) -> Option<Message> {
        let mut buffer = [0; LONGEST];
        let length = match recv(self.line.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            Err(_) => 0,
        };
        Some(match buffer[..length].split_first() {
            Some((b'+', _)) => Message::Ready,
            Some((b'!', text)) => Message::Note(String::from_utf8_lossy(text).into_owned()),
            Some((_, reason)) => Message::Failed(reason.to_vec()),
            None => Message::Closed,
        })
    }

    /// The next message, waited for until `until`.
    pub(super) fn message_by(&self, until: Instant) -> Option<Message> {
        loop {
            if let Some(message) = self.message() {
                return Some(message);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            poll_for(self.as_fd(), PollFlags::POLLIN, left);
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

/// Waits for a descriptor, at most this long.
pub(super) fn poll_for(fd: BorrowedFd<'_>, events: PollFlags, most: Duration) {
    let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
    let _looked_at_again = poll(&mut [PollFd::new(fd, events)], most);
}

/// The child's end of the socket.
#[derive(Debug)]
pub(super) struct ReportSocket(OwnedFd);

impl ReportSocket {
    pub(super) fn ready(&self) {
        self.send(b'+', b"");
    }

    /// Sends a line for the task's log.
    pub(super) fn note(&self, text: &[u8]) {
        self.send(b'!', text);
    }

    fn send(&self, kind: u8, text: &[u8]) {
        let text = &text[..text.len().min(LONGEST - 1)];
        let parts = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(text)];
        let _supervisor_died = sendmsg::<()>(self.0.as_raw_fd(), &parts, &[], MsgFlags::MSG_NOSIGNAL, None);
    }

    /// Closes everything this process has inherited but its three standard descriptors, this socket and `other`.
    pub(super) fn close_others(&self, other: RawFd) {
        let (low, high) = (self.0.as_raw_fd().min(other), self.0.as_raw_fd().max(other));
        for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, i32::MAX)] {
            if first <= last {
                // SAFETY: this process is a child that uses nothing but what it keeps.
                unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            }
        }
    }
}

/// Forks; returns the pid (0 in the child) and whether the child was created in the cgroup.
///
/// # Safety
/// This process must have one thread only.
unsafe fn fork(how: ForkOptions) -> io::Result<(i32, bool)> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let exit_signal = if how.separate { 0 } else { libc::SIGCHLD };
    if let Some(cgroup) = how.cgroup {
        // SAFETY: a structure of numbers. Without a stack of its own the child goes on with a copy of ours, as after fork.
        let pid = unsafe {
            let mut args: libc::clone_args = mem::zeroed();
            args.flags = CLONE_INTO_CGROUP;
            args.exit_signal = exit_signal as u64;
            args.cgroup = cgroup as u64;
            libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>())
        };
        // Where the kernel or a filter refuses, the child joins the cgroup itself.
        if pid >= 0 {
            return Ok((pid as i32, true));
        }
    }
    // SAFETY: flags are only the exit signal and there is no stack, so this is fork; all other arguments are unused then.
    let pid = unsafe { libc::syscall(libc::SYS_clone, exit_signal, 0, 0, 0, 0) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid as i32, false)) }
}

/// Makes the kernel kill this process when its parent dies. A change of identity clears the setting.
pub(super) fn die_with(parent: i32) {
    // SAFETY: plain calls with integers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have died before the setting took effect.
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

/// Becomes a user for good: all ids, groups and, as a consequence, no capabilities. To be called in a child only.
///
/// Uses plain system calls, since the C library's wrappers would synchronise threads. Allocates nothing.
pub(super) fn become_user(user: &User) -> Result<(), IdentityError> {
    let parent = nix::unistd::getppid().as_raw();
    // SAFETY: numbers, and an array that outlives the call.
    unsafe {
        if libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) < 0 {
            return Err(IdentityError::Groups(errno()));
        }
        if libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) < 0
            || libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) < 0
        {
            return Err(IdentityError::Ids(errno()));
        }
    }
    // Set again, because the change of identity cleared it.
    die_with(parent);
    Ok(())
}

/// Why a process could not become a user, with the system's error number.
#[derive(Clone, Copy, Debug)]
pub(super) enum IdentityError {
    Groups(i32),
    Ids(i32),
}

impl From<IdentityError> for io::Error {
    fn from(error: IdentityError) -> io::Error {
        let (what, errno) = match error {
            IdentityError::Groups(errno) => ("groups", errno),
            IdentityError::Ids(errno) => ("ids", errno),
        };
        let source = io::Error::from_raw_os_error(errno);
        io::Error::new(source.kind(), format!("cannot take on the user's {what}: {source}"))
    }
}

pub(super) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Reaps a child that has no exit signal and is about to exit.
pub(super) fn reap_separate(pid: i32) {
    // SAFETY: waits for our own child, asking for nothing.
    unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WCLONE) };
}
