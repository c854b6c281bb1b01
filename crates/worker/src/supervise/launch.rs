//! The launch message and its framing: a length, then JSON, so that an environment of any size passes.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{cgroup::CgroupLimit, freeze::Freezer};

/// A message larger than this is not a launch but noise.
const LARGEST_FRAME: usize = 64 << 20;

/// Everything a supervisor needs to know to run one attempt.
///
/// ```
/// use warpyard_worker::supervise::Launch;
/// let mut launch = Launch::new("412.0.3.1", "/var/lib/warpyard/attempts/412.0.3.1", ["sh", "-c", "echo hello"]);
/// launch.env.insert("PATH".into(), "/usr/bin:/bin".into());
/// launch.timeout_ms = Some(60_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Version of this message.
    pub v: u32,
    /// Names the attempt in its records and pokes.
    pub key: String,
    /// The id of the log the attempt belongs to, which its record repeats; none where that log has no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Where its records and logs go; absolute. Made by whoever launches, never by the supervisor.
    pub dir: PathBuf,
    /// Where `log`, `stdout` and `stderr` go when not to `dir`; absolute. Made at the first byte, so that a silent task
    /// has none. Records need not survive the machine and do well on a file system in memory; output should.
    #[serde(default)]
    pub output_dir: Option<PathBuf>,
    /// The program, looked up in the `PATH` of `env` when it has no slash, and its arguments.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited. Only
    /// [`ATTEMPT_DIR_VARIABLE`](super::ATTEMPT_DIR_VARIABLE) is added.
    pub env: BTreeMap<String, String>,
    /// Where the task starts; absolute.
    pub workdir: PathBuf,
    /// A file for its standard output instead of `stdout` in `dir`; relative to `workdir`. Emptied at the start.
    #[serde(default)]
    pub stdout: Option<PathBuf>,
    /// The same for its standard error. The two may name one file.
    #[serde(default)]
    pub stderr: Option<PathBuf>,
    /// Running time after which the task is ended; time spent frozen does not count.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// From TERM to KILL when the timeout ends it.
    pub grace_ms: u64,
    /// How much of each output file is kept.
    pub log_cap_bytes: u64,
    /// Whom the task runs as, when not as the worker.
    #[serde(default)]
    pub user: Option<User>,
    /// The task's umask, when not the worker's.
    #[serde(default)]
    pub umask: Option<u32>,
    /// Limits of the task by the kernel's number for each, soft and hard, when not the worker's.
    #[serde(default)]
    pub limits: Vec<(u32, u64, u64)>,
    /// How many processes and threads it may have. Counted now and then where no cgroup limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Limits enforced by cgroups of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupLimit>,
    /// A directory to make of a snapshot before the task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Unpack>,
    /// Present where the task runs in a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The datagram socket to poke when something changed. Nobody need listen.
    #[serde(default, rename = "poke")]
    pub notify: Option<PathBuf>,
    /// Ways to freeze the task, the first that works is used; there is always signals at the end.
    #[serde(default = "Freezer::all")]
    pub freezers: Vec<Freezer>,
}

/// The terminal a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// How many lines it begins with.
    pub rows: u16,
    /// How many characters to a line.
    pub columns: u16,
    /// The task is ended when nothing was typed or printed for so long while it ran.
    #[serde(default)]
    pub idle_ms: Option<u64>,
}

/// A snapshot to be made a directory, if there is none of that name yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpack {
    /// Where the snapshots of everyone are.
    pub store: PathBuf,
    /// Whose it is.
    pub person: String,
    /// Which.
    pub snapshot: String,
    /// The directory to make.
    pub into: PathBuf,
    /// The most bytes it may hold.
    #[serde(default = "any_size")]
    pub most_bytes: u64,
}

/// For a launch of an agent that names no limit.
fn any_size() -> u64 {
    u64::MAX
}

/// The identity a task runs under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Launch {
    /// A launch with defaults: no timeout, ten seconds of grace, 64 MiB kept of each output, workdir `/`.
    pub fn new<A: Into<String>>(
        key: impl Into<String>,
        dir: impl Into<PathBuf>,
        argv: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            v: super::record::VERSION,
            key: key.into(),
            log: None,
            dir: dir.into(),
            output_dir: None,
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            workdir: PathBuf::from("/"),
            stdout: None,
            stderr: None,
            timeout_ms: None,
            grace_ms: 10_000,
            log_cap_bytes: 64 << 20,
            user: None,
            umask: None,
            limits: Vec::new(),
            processes: None,
            cgroups: Vec::new(),
            unpack: None,
            session: None,
            notify: None,
            freezers: Freezer::all(),
        }
    }

    pub(super) fn write_to(&self, stream: impl Write) -> io::Result<()> {
        write_frame(stream, &serde_json::to_vec(self)?)
    }

    /// The launch a frame holds.
    pub(super) fn parse(frame: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(frame)?)
    }
}

/// Writes a frame: its length and then itself, in one piece.
pub(super) fn write_frame(mut stream: impl Write, body: &[u8]) -> io::Result<()> {
    if body.len() > LARGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the launch message is too large"));
    }
    stream.write_all(&[&(body.len() as u32).to_le_bytes(), body].concat())
}

/// The next frame, or `None` at the end of the stream.
pub(super) fn read_frame(mut stream: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LARGEST_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_pass_one_after_another_and_then_the_stream_ends() {
        let first = Launch::new("1.0.0.1", "/a", ["true"]);
        let mut second = Launch::new("1.0.0.2", "/b", ["sh", "-c", "exit 3"]);
        second.env.insert("BIG".into(), "x".repeat(1 << 20));
        second.user = Some(User { uid: 1, gid: 2, groups: vec![3] });
        let mut stream = Vec::new();
        first.write_to(&mut stream).unwrap();
        second.write_to(&mut stream).unwrap();
        let mut stream = &stream[..];
        for launch in [first, second] {
            let frame = read_frame(&mut stream).unwrap().unwrap();
            assert_eq!(Launch::parse(&frame).unwrap(), launch);
        }
        assert_eq!(read_frame(&mut stream).unwrap(), None);
    }

    #[test]
    fn a_length_no_launch_has_is_refused_without_allocating_it() {
        assert!(read_frame(&[0xff; 8][..]).is_err());
    }
}
