//! The launch message from worker to spawner, and its framing: a length, then JSON.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use warpyard_core::spec::{OnLost, Program};

use super::{cgroup::CgroupLimit, freeze::Freezer};

/// Largest frame accepted; a larger length is no launch.
const LARGEST_FRAME: usize = 64 << 20;

/// A launch: everything a supervisor needs to run one attempt.
///
/// ```
/// use warpyard_worker::supervise::Launch;
/// let mut launch = Launch::new("412.0.3.1", "/var/lib/warpyard/attempts/412.0.3.1", ["sh", "-c", "echo hello"]);
/// launch.program.env.insert("PATH".into(), "/usr/bin:/bin".into());
/// launch.timeout_ms = Some(60_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Version of this message.
    pub v: u32,
    /// The attempt's key, by which its records and notifications name it.
    pub key: String,
    /// The id of the event log the attempt belongs to, repeated in its record; none where that log has no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Disposition of the attempt when its worker is lost, repeated in its record for an agent that starts again.
    #[serde(default)]
    pub on_lost: OnLost,
    /// The attempt directory; absolute. Created by the worker, never by the supervisor.
    pub dir: PathBuf,
    /// The directory of `log`, `stdout` and `stderr` if not `dir`; absolute. Created at the first byte of output. Records
    /// need not survive the machine and may be on a file system in memory; output should survive.
    #[serde(default)]
    pub output_dir: Option<PathBuf>,
    /// The program. Looked up in the `PATH` of its environment if it has no slash. Nothing else is inherited: only
    /// [`ATTEMPT_DIR_VARIABLE`](super::ATTEMPT_DIR_VARIABLE) is added. The working directory is absolute, `/` by default;
    /// named outputs are relative to it, are truncated at the start and take the place of `stdout` and `stderr`; both may
    /// name one file.
    #[serde(flatten)]
    pub program: Program,
    /// Running time after which the task is terminated; time spent frozen does not count.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Time from SIGTERM to SIGKILL after the timeout.
    pub grace_ms: u64,
    /// Size limit of each output file; the rest of the output is dropped.
    pub log_cap_bytes: u64,
    /// The user the task runs as, if not the worker's.
    #[serde(default)]
    pub user: Option<User>,
    /// The task's umask, if not the worker's.
    #[serde(default)]
    pub umask: Option<u32>,
    /// Resource limits by the kernel's number, soft and hard, if not the worker's.
    #[serde(default)]
    pub limits: Vec<(u32, u64, u64)>,
    /// Maximum number of processes and threads. Counted at intervals where no cgroup limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Limits enforced by cgroups of the attempt's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupLimit>,
    /// A snapshot to unpack before the task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Unpack>,
    /// The terminal, if the task runs in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The datagram socket to notify of changes. Nobody need listen. Called `poke` in the message.
    #[serde(default, rename = "poke")]
    pub notify: Option<PathBuf>,
    /// The file with the deadlines of the worker's lease, if it has one: an attempt that may run elsewhere is stopped by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<PathBuf>,
    /// Methods of freezing, in order of preference; signals always remain as the last.
    #[serde(default = "Freezer::all")]
    pub freezers: Vec<Freezer>,
}

/// The terminal a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Initial number of rows.
    pub rows: u16,
    /// Initial number of columns.
    pub columns: u16,
    /// Idle limit: the task is terminated when nothing was typed or printed for this long while it ran.
    #[serde(default)]
    pub idle_ms: Option<u64>,
}

/// A snapshot to unpack into a directory, unless the directory exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpack {
    /// The snapshot store of all users.
    pub store: PathBuf,
    /// The user whose snapshot it is.
    pub person: String,
    /// The snapshot's id.
    pub snapshot: String,
    /// The directory to create.
    pub into: PathBuf,
    /// Maximum size of its files.
    #[serde(default = "any_size")]
    pub most_bytes: u64,
}

/// The default for launches of earlier versions, which name no limit.
fn any_size() -> u64 {
    u64::MAX
}

/// The user a task runs as.
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
    /// A launch with defaults: no timeout, a grace period of ten seconds, 64 MiB of each output, working directory `/`.
    pub fn new<A: Into<String>>(
        key: impl Into<String>,
        dir: impl Into<PathBuf>,
        command: impl IntoIterator<Item = A>,
    ) -> Self {
        let program = Program { workdir: Some("/".into()), ..Program::new(command) };
        Self::of_program(key, dir, program)
    }

    /// A launch of a program with the same defaults.
    pub fn of_program(key: impl Into<String>, dir: impl Into<PathBuf>, program: Program) -> Self {
        Self {
            v: super::record::VERSION,
            key: key.into(),
            log: None,
            on_lost: OnLost::default(),
            dir: dir.into(),
            output_dir: None,
            program,
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
            deadlines: None,
            freezers: Freezer::all(),
        }
    }

    /// The working directory of the program.
    pub(super) fn workdir(&self) -> &Path {
        Path::new(self.program.workdir.as_deref().unwrap_or("/"))
    }

    pub(super) fn write_to(&self, stream: impl Write) -> io::Result<()> {
        // A spawner of an earlier version, which an old program on disk may still be, knows the command as `argv` and
        // requires an environment.
        let mut message = serde_json::to_value(self)?;
        if let Some(fields) = message.as_object_mut() {
            let command = fields.remove("command").unwrap_or_default();
            fields.insert("argv".into(), command);
            fields.entry("env").or_insert_with(|| serde_json::json!({}));
        }
        write_frame(stream, &serde_json::to_vec(&message)?)
    }

    /// Parses the launch in a frame.
    pub(super) fn parse(frame: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(frame)?)
    }
}

/// Writes a frame, length and body, by one write.
pub(super) fn write_frame(mut stream: impl Write, body: &[u8]) -> io::Result<()> {
    if body.len() > LARGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the launch message is too large"));
    }
    stream.write_all(&[&(body.len() as u32).to_le_bytes(), body].concat())
}

/// Reads the next frame; `None` at the end of the stream.
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
        second.program.env.insert("BIG".into(), "x".repeat(1 << 20));
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
    fn a_spawner_of_an_earlier_version_finds_the_fields_it_requires() {
        let mut stream = Vec::new();
        Launch::new("1.0.0.1", "/a", ["true"]).write_to(&mut stream).unwrap();
        let frame = read_frame(&stream[..]).unwrap().unwrap();
        let message: serde_json::Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(message["argv"], serde_json::json!(["true"]));
        assert_eq!((&message["env"], &message["workdir"]), (&serde_json::json!({}), &"/".into()));
        assert_eq!(message.get("command"), None);
    }

    #[test]
    fn a_length_no_launch_has_is_refused_without_allocating_it() {
        assert!(read_frame(&[0xff; 8][..]).is_err());
    }
}
