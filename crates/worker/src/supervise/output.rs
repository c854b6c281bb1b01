//! What a task writes: two pipes, drained into an interleaved log and a file per stream, each up to a cap. What a
//! terminal prints is handed over, and counts as standard output.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{OpenOptionsExt, fchown},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        stat::{Mode, umask},
        statfs::{PROC_SUPER_MAGIC, fstatfs},
    },
    unistd::{Gid, Uid, pipe2, setfsgid, setfsuid},
};

use super::{
    clock::Instant,
    launch::{Launch, User},
    record::Output,
};

const LOG: &str = "log";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

/// As much as a pipe holds by default.
const CHUNK: usize = 64 << 10;

/// How long to go on reading from a pipe somebody outside the attempt still holds.
const DRAIN: Duration = Duration::from_secs(1);

/// The task's ends of what connects it to its supervisor.
#[derive(Debug)]
pub(super) enum TaskEnds {
    /// It writes to two pipes and reads nothing.
    Pipes {
        /// Standard output.
        out: OwnedFd,
        /// Standard error.
        err: OwnedFd,
    },
    /// It reads from and writes to a terminal, which it also controls its jobs by.
    Terminal(OwnedFd),
}

/// The supervisor's side of a task's output.
#[derive(Debug)]
pub(super) struct Outputs {
    streams: [Stream; 2],
    sinks: Vec<Sink>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    pipe: Option<File>,
    bytes: u64,
    sink: usize,
}

/// The log is the first sink.
const LOG_SINK: usize = 0;

impl Outputs {
    /// Opens the pipes, and the files the task named.
    pub(super) fn open(launch: &Launch) -> io::Result<(Self, TaskEnds)> {
        let mut outputs = Self::unconnected(launch)?;
        let (out_read, out) = pipe2(OFlag::O_CLOEXEC)?;
        let (err_read, err) = pipe2(OFlag::O_CLOEXEC)?;
        let [out_stream, err_stream] = &mut outputs.streams;
        (out_stream.pipe, err_stream.pipe) = (Some(out_read.into()), Some(err_read.into()));
        Ok((outputs, TaskEnds::Pipes { out, err }))
    }

    /// Opens only the files the task named. Those of the attempt directory are made at the first byte: most short tasks
    /// write nothing, and then they cost nothing.
    pub(super) fn unconnected(launch: &Launch) -> io::Result<Self> {
        let cap = launch.log_cap_bytes;
        let owner = launch.user.as_ref();
        // Without a directory of its own, output goes to the attempt's, which is the current one.
        let dir = launch.output_dir.as_deref().unwrap_or(Path::new(""));
        let lazy = |name| Sink::lazy(dir.join(name), cap, owner);
        let mut sinks = vec![lazy(LOG)];
        let mut named: Vec<(PathBuf, usize)> = Vec::new();
        let mut sink_for = |path: &Option<PathBuf>, default| -> io::Result<usize> {
            let sink = match path {
                None => lazy(default),
                Some(path) => {
                    let path = launch.workdir.join(path);
                    if let Some((_, sink)) = named.iter().find(|(known, _)| *known == path) {
                        return Ok(*sink);
                    }
                    let sink = Sink::named(&path, launch)?;
                    named.push((path, sinks.len()));
                    sink
                }
            };
            sinks.push(sink);
            Ok(sinks.len() - 1)
        };
        let out_sink = sink_for(&launch.stdout, STDOUT)?;
        let err_sink = sink_for(&launch.stderr, STDERR)?;
        let streams = [out_sink, err_sink].map(|sink| Stream { pipe: None, bytes: 0, sink });
        Ok(Self { streams, sinks, buffer: Vec::new() })
    }

    /// Takes in what a terminal printed.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let [out, _] = &mut self.streams;
        out.keep(&mut self.sinks, bytes);
    }

    /// The pipes still open.
    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        self.pipes().map(|pipe| PollFd::new(pipe, PollFlags::POLLIN)).collect()
    }

    fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().filter_map(|stream| stream.pipe.as_ref().map(AsFd::as_fd))
    }

    /// Moves what there is to read, at most one chunk of each stream. `events` belong to the pipes still open.
    pub(super) fn pump(&mut self, events: &[PollFlags]) {
        let Self { streams, sinks, buffer } = self;
        let open = streams.iter_mut().filter(|stream| stream.pipe.is_some());
        for (stream, &event) in open.zip(events) {
            if event.contains(PollFlags::POLLIN) {
                buffer.resize(CHUNK, 0);
                stream.pump(sinks, buffer);
            } else if event.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                // Empty, and nobody left to write.
                stream.pipe = None;
            }
        }
    }

    /// Reads what is left once every process of the attempt is gone.
    pub(super) fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while self.pipes().next().is_some() && Instant::now() < until {
            let mut fds = self.poll_fds();
            if !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..)) {
                return;
            }
            let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            self.pump(&events);
        }
    }

    /// Adds a word of ours to the log.
    pub(super) fn say(&mut self, what: &str) {
        self.sinks[LOG_SINK].write(format!("warpyard: {what}\n").as_bytes());
    }

    pub(super) fn summary(&self) -> Output {
        let [out, err] = &self.streams;
        Output {
            out_bytes: out.bytes,
            err_bytes: err.bytes,
            out_truncated: self.sinks[out.sink].truncated,
            err_truncated: self.sinks[err.sink].truncated,
            log_truncated: self.sinks[LOG_SINK].truncated,
        }
    }
}

impl Stream {
    fn pump(&mut self, sinks: &mut [Sink], buffer: &mut [u8]) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                self.keep(sinks, &buffer[..length]);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.pipe = None,
        }
    }
}

impl Stream {
    fn keep(&mut self, sinks: &mut [Sink], bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        sinks[LOG_SINK].write(bytes);
        sinks[self.sink].write(bytes);
    }
}

/// A file that keeps the head of what it is given.
#[derive(Debug)]
struct Sink {
    file: SinkFile,
    room: u64,
    cap: u64,
    truncated: bool,
}

#[derive(Debug)]
enum SinkFile {
    Unmade {
        path: PathBuf,
        owner: Option<(u32, u32)>,
    },
    Open(File),
    /// Full, or the disk is: what comes is dropped, for a task must never wait for its log.
    Closed,
}

impl Sink {
    fn new(file: SinkFile, cap: u64) -> Self {
        Self { file, room: cap, cap, truncated: false }
    }

    /// A file that is made at the first byte.
    fn lazy(path: PathBuf, cap: u64, owner: Option<&User>) -> Self {
        Self::new(SinkFile::Unmade { path, owner: owner.map(|user| (user.uid, user.gid)) }, cap)
    }

    /// A file the task named, opened with the rights and the umask of the task's user and at once: a path that cannot
    /// be written is a mistake to hear of before the task runs, and an old file must not pass for its output.
    fn named(path: &Path, launch: &Launch) -> io::Result<Self> {
        let open = || {
            // Not blocking: a pipe nobody reads must not hold the supervisor up.
            let flags = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY;
            OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)
        };
        let ours = launch.umask.map(|mask| umask(Mode::from_bits_truncate(mask)));
        let file = match &launch.user {
            None => Ok(open()),
            Some(user) => as_user(user, open),
        };
        ours.map(umask);
        let file = file?.map_err(|e| {
            io::Error::new(e.kind(), format!("cannot open {} for output: {e}", path.display()))
        })?;
        // What the kernel tells there of this process, and takes, is not the task's to write.
        if fstatfs(&file).is_ok_and(|fs| fs.filesystem_type() == PROC_SUPER_MAGIC) {
            let why = format!("{} is no place for output", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self::new(SinkFile::Open(file), launch.log_cap_bytes))
    }

    fn write(&mut self, bytes: &[u8]) {
        if let SinkFile::Unmade { path, owner } = &self.file {
            self.file = match make(path, *owner) {
                Ok(file) => SinkFile::Open(file),
                Err(_) => SinkFile::Closed,
            };
        }
        let SinkFile::Open(file) = &mut self.file else {
            self.truncated = true;
            return;
        };
        let head = &bytes[..bytes.len().min(self.room.try_into().unwrap_or(usize::MAX))];
        self.room -= head.len() as u64;
        let mut kept = file.write_all(head);
        if head.len() < bytes.len() {
            self.truncated = true;
            kept = kept.and(writeln!(file, "\n[warpyard: only the first {} bytes are kept]", self.cap));
        }
        if self.truncated || kept.is_err() {
            self.truncated = true;
            self.file = SinkFile::Closed;
        }
    }
}

fn make(path: &Path, owner: Option<(u32, u32)>) -> io::Result<File> {
    let open = || OpenOptions::new().append(true).create(true).open(path);
    let file = open().or_else(|e| match path.parent() {
        Some(dir) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir)?;
            open()
        }
        _ => Err(e),
    })?;
    if let Some((uid, gid)) = owner {
        fchown(&file, Some(uid), Some(gid))?;
    }
    Ok(file)
}

/// Does something with files as `user` would. The supervisor itself keeps its identity, so that the task can neither
/// signal it nor forge its records.
fn as_user<T>(user: &User, work: impl FnOnce() -> T) -> io::Result<T> {
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    nix::unistd::setgroups(&groups)?;
    let group = setfsgid(Gid::from_raw(user.gid));
    let owner = setfsuid(Uid::from_raw(user.uid));
    let done = work();
    setfsuid(owner);
    setfsgid(group);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(cap: u64) -> (tempfile::NamedTempFile, Sink) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = Sink::new(SinkFile::Open(file.reopen().unwrap()), cap);
        (file, sink)
    }

    #[test]
    fn a_sink_keeps_the_head_and_says_so_once() {
        let (file, mut sink) = sink(5);
        for piece in ["abc", "def", "ghi"] {
            sink.write(piece.as_bytes());
        }
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "abcde\n[warpyard: only the first 5 bytes are kept]\n");
        assert!(sink.truncated);
    }

    #[test]
    fn exactly_the_cap_is_not_truncated() {
        let (file, mut sink) = sink(6);
        sink.write(b"abc");
        sink.write(b"def");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "abcdef");
        assert!(!sink.truncated);
    }
}
