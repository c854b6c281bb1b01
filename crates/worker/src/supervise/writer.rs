//! Writers of named outputs: for each file, a process that has become the task's user opens it and writes what the supervisor
//! sends through a pipe. The user's permissions, quotas and limits apply to it, and a file system that hangs blocks nothing
//! else.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

use nix::{
    fcntl::OFlag,
    poll::PollFlags,
    sys::{
        prctl,
        signal::{Signal, kill},
        stat::{Mode, umask},
        statfs::{
            BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC,
            SECURITYFS_MAGIC, SELINUX_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs,
        },
    },
    unistd::{Pid, geteuid, isatty, pipe2},
};

use super::{
    child::{Child, ForkOptions, Message, ReportSocket, become_user, poll_for, reap_separate},
    clock::Instant,
    launch::Launch,
};

/// File systems whose files are kernel controls: writing to them has effects beyond storing bytes.
const CONTROL_FILE_SYSTEMS: [FsType; 9] = [
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    SELINUX_MAGIC,
    BPF_FS_MAGIC,
];

/// The supervisor's handle to the process that writes one file.
#[derive(Debug)]
pub(super) struct Writer {
    child: Child,
    pipe: File,
    /// Bytes the pipe had no room for.
    pending: Vec<u8>,
}

/// Outcome of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// Everything is in the file.
    Complete,
    /// Something is missing.
    Partial,
    /// Something is missing, and the process was killed but hangs in the kernel.
    Stuck,
}

impl Writer {
    /// Forks a process that opens `path` and then reports that it is ready.
    pub(super) fn fork(path: &Path, launch: &Launch) -> io::Result<Writer> {
        let (from, to) = pipe2(OFlag::O_CLOEXEC)?;
        let from = File::from(from);
        let child = Child::fork(ForkOptions { separate: true, ..ForkOptions::default() }, |line, _| {
            line.close_others(from.as_raw_fd());
            write_all(path, launch, &from, line).map_err(|e| e.to_string().into_bytes())
        })?;
        nix::fcntl::fcntl(&to, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Writer { child, pipe: to.into(), pending: Vec::new() })
    }

    pub(super) fn child(&self) -> &Child {
        &self.child
    }

    pub(super) fn pipe(&self) -> &File {
        &self.pipe
    }

    /// Whether bytes are pending: nothing more should be sent until they are written.
    pub(super) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends bytes without blocking.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(sent) => drop(self.pending.drain(..sent)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Discards the pending bytes: the process does not accept them.
    pub(super) fn discard(&mut self) {
        self.pending.clear();
    }

    /// Waits until everything is written, or kills the process at `until`.
    pub(super) fn finish(mut self, until: Instant) -> WriteOutcome {
        while self.is_behind() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            poll_for(self.pipe.as_fd(), PollFlags::POLLOUT, left);
            if self.send(b"").is_err() {
                break;
            }
        }
        let all_sent = !self.is_behind();
        let Self { child, pipe, .. } = self;
        drop(pipe);
        let written = match child.message_by(until) {
            Some(Message::Ready) if all_sent => WriteOutcome::Complete,
            Some(_) => WriteOutcome::Partial,
            None => {
                let _gone = kill(Pid::from_raw(child.pid), Signal::SIGKILL);
                // It dies at once unless it hangs in a call to a file system that does not answer.
                match child.message_by(Instant::now() + super::setup::ABANDON) {
                    Some(Message::Closed) => WriteOutcome::Partial,
                    _ => return WriteOutcome::Stuck,
                }
            }
        };
        reap_separate(child.pid);
        written
    }
}

/// The main function of the writer process.
fn write_all(path: &Path, launch: &Launch, mut from: &File, line: &ReportSocket) -> io::Result<()> {
    let _only_for_people = prctl::set_name(c"wy-output");
    if let Some(user) = &launch.user {
        become_user(user)?;
    }
    if let Some(mask) = launch.umask {
        umask(Mode::from_bits_truncate(mask));
    }
    let mut file = open(path, launch)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot open {} for output: {e}", path.display())))?;
    std::env::set_current_dir("/")?;
    line.ready();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            length => file.write_all(&buffer[..length])?,
        }
    }
    // Closed before success is reported, because closing may still write cached data and fail.
    drop(file);
    line.ready();
    Ok(())
}

/// Opens a named output if it is a regular file, a FIFO or a terminal of the user's. A regular file is truncated: old content
/// must not pass for this task's output.
fn open(path: &Path, launch: &Launch) -> io::Result<File> {
    // Non-blocking, so that a FIFO without a reader is an error instead of a hang.
    let flags = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)?;
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    if CONTROL_FILE_SYSTEMS.contains(&fstatfs(&file)?.filesystem_type()) {
        return refused("a file of the kernel's is no place for output");
    }
    let found = file.metadata()?;
    let kind = found.file_type();
    // /dev/null discards everything, so its owner does not matter.
    let null = kind.is_char_device() && found.rdev() == libc::makedev(1, 3);
    if null {
        return Ok(file);
    }
    let uid = launch.user.as_ref().map_or_else(|| geteuid().as_raw(), |user| user.uid);
    if !(kind.is_file() || kind.is_fifo() || isatty(&file).unwrap_or(false)) {
        return refused("output goes to a regular file, a FIFO or a terminal");
    }
    if found.uid() != uid {
        return refused("it belongs to another user");
    }
    if kind.is_file() {
        file.set_len(0)?;
    }
    // From here on a reader that is behind holds up this process, and through it the task, instead of losing output.
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(file)
}
