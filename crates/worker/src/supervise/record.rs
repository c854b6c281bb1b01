//! The records in an attempt directory, and how they are read and written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::process::ProcessRef;
use warpyard_core::spec::OnLost;

/// Version of every record and message. Fields may be added without raising it; a record of a larger version is refused,
/// because its meaning may have changed.
pub(super) const VERSION: u32 = 1;

pub(super) const RUNNING: &str = "running";
pub(super) const STATE: &str = "state";
pub(super) const WANT: &str = "want";
pub(super) const EXIT: &str = "exit";

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be read or written.
    #[error("cannot access {}", path.display())]
    Io {
        /// The record's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not such a record.
    #[error("malformed record {}", path.display())]
    Malformed {
        /// The record's path.
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// The record belongs to another event log or another attempt.
    #[error("the record in {} does not belong to log {log}", path.display())]
    Foreign {
        /// The attempt directory.
        path: PathBuf,
        /// The id of the log it should belong to.
        log: String,
    },
    /// A later version of warpyard wrote it.
    #[error("record {} has version {found}, newer than {VERSION}", path.display())]
    Newer {
        /// The record's path.
        path: PathBuf,
        /// The version it has.
        found: u32,
    },
}

impl RecordError {
    /// Whether the record is damaged. Otherwise it could not be read for now, which says nothing about its attempt.
    pub fn is_damage(&self) -> bool {
        match self {
            RecordError::Malformed { .. } | RecordError::Foreign { .. } => true,
            RecordError::Newer { .. } => false,
            // A directory or a loop of links in place of the file.
            RecordError::Io { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EISDIR | libc::ELOOP | libc::ENOTDIR))
            }
        }
    }
}

/// `running`: the attempt's supervisor and, once started, its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// The id of the event log the attempt belongs to, from its launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Disposition of the attempt when its worker is lost, from its launch.
    #[serde(default)]
    pub on_lost: OnLost,
    /// The boot id the pids belong to.
    pub boot: String,
    /// The supervisor. Its descendants are the attempt's processes.
    pub supervisor: ProcessRef,
    /// The task's first process; `None` between claiming the directory and starting it.
    ///
    /// The second line of the file, appended once it is known.
    #[serde(skip)]
    pub task: Option<TaskProcess>,
}

/// The second line of `running`: the task's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProcess {
    /// The process; its pid is also its session and process group.
    pub process: ProcessRef,
    /// When it started, in microseconds since 1970.
    pub started_at: u64,
    /// The first cgroup of the attempt, to be removed in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
    /// Its other cgroups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_groups: Vec<PathBuf>,
}

/// `state`: whether the attempt is frozen. Absent until it is first frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// Its phase.
    pub phase: Phase,
    /// Start of the phase, in microseconds since 1970.
    pub since: u64,
    /// The cgroup created for freezing, to be removed in the end.
    #[serde(default)]
    pub group: Option<PathBuf>,
}

/// Whether a live attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It runs.
    Running,
    /// It is being frozen; some thread may still run.
    Freezing,
    /// It is frozen: no thread runs.
    Frozen,
}

/// `want`: the desired state of the attempt, written by the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "want")]
pub enum DesiredRecord {
    /// It should run; a frozen one is thawed.
    Run,
    /// It should be frozen, keeping its memory.
    Freeze,
    /// It should end: SIGTERM now, SIGKILL after the grace period. A shorter one written later counts; there is no way back.
    Stop {
        /// Time from SIGTERM to SIGKILL.
        grace_ms: u64,
    },
}

/// `exit`: how the attempt ended. Written when no process of it is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// Why it ended.
    pub cause: ExitCause,
    /// How its first process ended; `None` if that never started.
    pub status: Option<Status>,
    /// When it started, in microseconds since 1970.
    pub started_at: u64,
    /// When its last process had exited, in microseconds since 1970.
    pub ended_at: u64,
    /// Running time, without the time it was frozen.
    pub running_us: u64,
    /// Resource usage of its processes.
    pub usage: Usage,
    /// Summary of its output.
    pub output: Output,
}

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCause {
    /// It exited by itself.
    Exited,
    /// Its running time reached the timeout.
    TimedOut,
    /// It had more processes than allowed, where no cgroup limits their number.
    Crowded {
        /// The number that was counted.
        processes: u64,
    },
    /// The kernel killed a process of it because the memory limit was reached.
    OutOfMemory {
        /// The limit.
        limit_bytes: u64,
    },
    /// Nothing was typed or printed in its terminal for longer than the idle limit.
    Idle {
        /// The idle limit.
        limit_ms: u64,
    },
    /// The worker asked for its end. Without a status it had not started.
    Stopped,
    /// The program could not be started.
    FailedToStart {
        /// What failed, and the system's error.
        message: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// Resource usage of an attempt's processes, as far as they were reaped by each other or by the supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Peak resident set size of any single process.
    pub peak_rss_bytes: u64,
    /// User and system time of all of them.
    pub cpu_us: u64,
}

/// Summary of a task's output. Counts are of what it wrote; a flag says that the file has only the beginning of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Bytes written to standard output.
    pub out_bytes: u64,
    /// Bytes written to standard error.
    pub err_bytes: u64,
    /// The file of standard output is truncated.
    pub out_truncated: bool,
    /// The file of standard error is truncated.
    pub err_truncated: bool,
    /// The interleaved log is truncated.
    pub log_truncated: bool,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    body: T,
}

impl RunningRecord {
    pub(super) fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let Some(text) = read_bytes(path)? else { return Ok(None) };
        let mut lines = text.split_inclusive(|&b| b == b'\n');
        let mut running: Self = parse(path, lines.next().unwrap_or_default())?;
        // A second line without its newline is still being written.
        if let Some(line) = lines.next().filter(|line| line.ends_with(b"\n")) {
            running.task = Some(parse_as_is(path, line)?);
        }
        Ok(Some(running))
    }
}

impl DesiredRecord {
    pub(super) fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let Some(text) = read_bytes(path)? else { return Ok(None) };
        Ok(Some(parse::<Versioned<Self>>(path, &text)?.body))
    }

    pub(super) fn write(self, path: &Path) -> Result<(), RecordError> {
        write_record(path, &Versioned { v: VERSION, body: self })
    }
}

/// Reads a record; `None` if there is none.
pub(super) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let Some(text) = read_bytes(path)? else { return Ok(None) };
    parse(path, &text).map(Some)
}

/// Writes a file under another name and renames it, so that no reader finds half of it, even if the writer is killed.
pub fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

/// Writes a record atomically. Not synced, for the reason given in the module's documentation.
pub(super) fn write_record(path: &Path, record: &impl Serialize) -> Result<(), RecordError> {
    let written = serde_json::to_vec(record).map_err(io::Error::from).and_then(|mut text| {
        text.push(b'\n');
        write_atomically(path, &text)
    });
    written.map_err(|source| RecordError::Io { path: path.into(), source })
}

/// A name beside `path` that no other process uses.
pub(super) fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Io { path: path.into(), source }),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    // Checked first, because a newer record need not have the same fields.
    let Version { v: found } = parse_as_is(path, text)?;
    if found > VERSION {
        return Err(RecordError::Newer { path: path.into(), found });
    }
    parse_as_is(path, text)
}

fn parse_as_is<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(text).map_err(|source| RecordError::Malformed { path: path.into(), source })
}
