//! The output of a task: two pipes, drained into an interleaved log and one file per stream, each up to a size limit. Output
//! of a terminal counts as standard output. Files that the task's user named are written by a [`Writer`] process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::fchown,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::pipe2,
};

use super::{
    child::{Child, poll_for},
    clock::Instant,
    launch::{Launch, User},
    record::Output,
    writer::{WriteOutcome, Writer},
};

const LOG: &str = "log";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

/// Bytes read at once: the default capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// How long a pipe is read after the task's end while a process outside the attempt holds its other end.
const DRAIN: Duration = Duration::from_secs(1);

/// How long writing a named output may take after the task's end.
const FLUSH: Duration = Duration::from_secs(5);

/// The task's ends of its standard streams.
#[derive(Debug)]
pub(super) enum TaskStreams {
    /// Two pipes; standard input is empty.
    Pipes {
        /// Standard output.
        out: OwnedFd,
        /// Standard error.
        err: OwnedFd,
    },
    /// A terminal for all three streams, which becomes the task's controlling terminal.
    Terminal(OwnedFd),
}

/// The supervisor's side of a task's output.
#[derive(Debug)]
pub(super) struct Outputs {
    streams: [Stream; 2],
    sinks: Vec<Sink>,
    /// Paths of the named outputs, and the index of each one's sink.
    named: Vec<(PathBuf, usize)>,
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
    /// Opens nothing: own files are created at the first byte, since most short tasks write nothing, and named ones are opened
    /// by [`Outputs::open_named`].
    pub(super) fn new(launch: &Launch) -> Self {
        let cap = launch.log_cap_bytes;
        let owner = launch.user.as_ref();
        // The attempt directory, the default, is the working directory.
        let dir = launch.output_dir.as_deref().unwrap_or(Path::new(""));
        let lazy = |name| Sink::lazy(dir.join(name), cap, owner);
        let mut sinks = vec![lazy(LOG)];
        let mut named: Vec<(PathBuf, usize)> = Vec::new();
        let named_outputs = [(&launch.program.stdout, STDOUT), (&launch.program.stderr, STDERR)];
        let streams = named_outputs.map(|(path, default)| {
            let path = path.as_ref().map(|path| launch.workdir().join(path));
            let known = named.iter().find(|(known, _)| Some(known) == path.as_ref());
            let sink = known.map_or(sinks.len(), |(_, sink)| *sink);
            if sink == sinks.len() {
                sinks.push(if path.is_some() { Sink::new(SinkFile::Closed, cap) } else { lazy(default) });
                named.extend(path.map(|path| (path, sink)));
            }
            Stream { pipe: None, bytes: 0, sink }
        });
        Self { streams, sinks, named, buffer: Vec::new() }
    }

    /// Creates the pipes; returns the task's ends.
    pub(super) fn connect(&mut self) -> io::Result<TaskStreams> {
        let (out_read, out) = pipe2(OFlag::O_CLOEXEC)?;
        let (err_read, err) = pipe2(OFlag::O_CLOEXEC)?;
        let [out_stream, err_stream] = &mut self.streams;
        (out_stream.pipe, err_stream.pipe) = (Some(out_read.into()), Some(err_read.into()));
        Ok(TaskStreams::Pipes { out, err })
    }

    /// Paths of the named outputs, and the index of each one's sink.
    pub(super) fn named(&self) -> &[(PathBuf, usize)] {
        &self.named
    }

    /// Forks the process that opens and writes a named output.
    pub(super) fn open_named(&mut self, path: &Path, sink: usize, launch: &Launch) -> io::Result<()> {
        self.sinks[sink].file = SinkFile::Written(Writer::fork(path, launch)?);
        Ok(())
    }

    /// The process that writes the sink of this index.
    pub(super) fn writer(&self, sink: usize) -> Option<&Child> {
        self.sinks[sink].writer().map(Writer::child)
    }

    /// Writes output of a terminal to the log and to standard output's file.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let [out, _] = &mut self.streams;
        out.keep(&mut self.sinks, bytes);
    }

    /// Whether the writer of a named output is behind. Nothing is read until it has caught up, which in turn blocks the task:
    /// back-pressure instead of unbounded memory.
    pub(super) fn is_behind(&self) -> bool {
        self.behind().next().is_some()
    }

    fn behind(&self) -> impl Iterator<Item = &Writer> {
        self.sinks.iter().filter_map(Sink::writer).filter(|writer| writer.is_behind())
    }

    /// Descriptors to poll: the open pipes, or those of writers that are behind.
    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        if self.is_behind() {
            return self.behind().map(|w| PollFd::new(w.pipe().as_fd(), PollFlags::POLLOUT)).collect();
        }
        self.pipes().map(|pipe| PollFd::new(pipe, PollFlags::POLLIN)).collect()
    }

    fn pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().filter_map(|stream| stream.pipe.as_ref().map(AsFd::as_fd))
    }

    /// Moves at most one chunk of each stream. `events` are those of [`poll_fds`](Self::poll_fds).
    pub(super) fn pump(&mut self, events: &[PollFlags]) {
        if self.is_behind() {
            return self.sinks.iter_mut().for_each(Sink::catch_up);
        }
        let Self { streams, sinks, buffer, .. } = self;
        let open = streams.iter_mut().filter(|stream| stream.pipe.is_some());
        for (stream, &event) in open.zip(events) {
            if event.contains(PollFlags::POLLIN) {
                buffer.resize(CHUNK, 0);
                stream.pump(sinks, buffer);
            } else if event.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                // Empty, and every writing end is closed.
                stream.pipe = None;
            }
        }
    }

    /// Reads the rest of the pipes once every process of the attempt is gone.
    pub(super) fn drain(&mut self) {
        let began = Instant::now();
        while self.pipes().next().is_some() && Instant::now().saturating_duration_since(began) < DRAIN {
            if !self.catch_up(began + FLUSH) {
                return;
            }
            let mut fds = self.poll_fds();
            if !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..)) {
                return;
            }
            let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            self.pump(&events);
        }
    }

    /// Waits until no writer is behind; `false` if that takes too long.
    fn catch_up(&mut self, until: Instant) -> bool {
        loop {
            let Some(writer) = self.behind().next() else { return true };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            poll_for(writer.pipe().as_fd(), PollFlags::POLLOUT, left);
            self.sinks.iter_mut().for_each(Sink::catch_up);
        }
    }

    /// Gives up on the process that was to write a sink: it was killed and hangs in the kernel.
    pub(super) fn abandon(&mut self, sink: usize) {
        self.sinks[sink].file = SinkFile::Closed;
    }

    /// Finishes the writers of named outputs, once everything is in the files or it takes too long; `false` if one of them
    /// hangs and had to be abandoned.
    pub(super) fn finish(&mut self) -> bool {
        let until = Instant::now() + FLUSH;
        let mut gone = true;
        for (path, sink) in std::mem::take(&mut self.named) {
            let written = self.sinks[sink].finish(until);
            // Where nothing was sent, for instance because the file could not be opened, nothing is missing.
            if written != WriteOutcome::Complete && self.sinks[sink].room < self.sinks[sink].cap {
                self.sinks[sink].truncated = true;
                self.log_note(&format!(
                    "{} lacks some of the output: it could not be written",
                    path.display()
                ));
            }
            gone &= written != WriteOutcome::Stuck;
        }
        gone
    }

    /// Adds a line of warpyard's own to the log.
    pub(super) fn log_note(&mut self, what: &str) {
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

/// A file that keeps the first `cap` bytes written to it.
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
    /// A named output.
    Written(Writer),
    /// At its limit, or on a full disk: more output is dropped, because a task must never block on its log.
    Closed,
}

impl Sink {
    fn new(file: SinkFile, cap: u64) -> Self {
        Self { file, room: cap, cap, truncated: false }
    }

    /// A file that is created at the first byte.
    fn lazy(path: PathBuf, cap: u64, owner: Option<&User>) -> Self {
        Self::new(SinkFile::Unmade { path, owner: owner.map(|user| (user.uid, user.gid)) }, cap)
    }

    fn writer(&self) -> Option<&Writer> {
        match &self.file {
            SinkFile::Written(writer) => Some(writer),
            _ => None,
        }
    }

    /// Sends what a writer had no room for before.
    fn catch_up(&mut self) {
        if let SinkFile::Written(writer) = &mut self.file
            && writer.send(b"").is_err()
        {
            writer.discard();
            self.truncated = true;
        }
    }

    /// Finishes the writer, if there is one.
    fn finish(&mut self, until: Instant) -> WriteOutcome {
        match std::mem::replace(&mut self.file, SinkFile::Closed) {
            SinkFile::Written(writer) => writer.finish(until),
            _ => WriteOutcome::Complete,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let SinkFile::Unmade { path, owner } = &self.file {
            self.file = match make(path, *owner) {
                Ok(file) => SinkFile::Open(file),
                Err(_) => SinkFile::Closed,
            };
        }
        if matches!(self.file, SinkFile::Closed) || self.truncated {
            self.truncated = true;
            return;
        }
        let head = &bytes[..bytes.len().min(self.room.try_into().unwrap_or(usize::MAX))];
        self.room -= head.len() as u64;
        let mut kept = self.file.append(head);
        if head.len() < bytes.len() {
            self.truncated = true;
            let notice = format!("\n[warpyard: only the first {} bytes are kept]\n", self.cap);
            kept = kept.and(self.file.append(notice.as_bytes()));
        }
        self.truncated |= kept.is_err();
        match &mut self.file {
            SinkFile::Written(writer) if kept.is_err() => writer.discard(),
            // It still has to write what it was sent.
            SinkFile::Written(_) => {}
            file if self.truncated => *file = SinkFile::Closed,
            _ => {}
        }
    }
}

impl SinkFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(file) => file.write_all(bytes),
            Self::Written(writer) => writer.send(bytes),
            Self::Unmade { .. } | Self::Closed => Ok(()),
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
