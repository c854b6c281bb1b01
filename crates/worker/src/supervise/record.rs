//! The records in an attempt directory: what they say, and how they are read and written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::process::ProcessRef;

/// Version of every record and message here. Fields may be added without raising it; a record with a larger one is
/// refused, because its meaning may have changed.
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
    /// The record is another log's, or another attempt's.
    #[error("the record in {} does not belong to log {log}", path.display())]
    Foreign {
        /// The attempt directory.
        path: PathBuf,
        /// The log it should belong to.
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
    /// Whether the record itself is damaged. Otherwise it merely could not be read, which says nothing about its attempt.
    pub fn is_damage(&self) -> bool {
        match self {
            RecordError::Malformed { .. } | RecordError::Foreign { .. } => true,
            RecordError::Newer { .. } => false,
            // A directory or a loop of links where a file should be.
            RecordError::Io { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EISDIR | libc::ELOOP | libc::ENOTDIR))
            }
        }
    }
}

/// `running`: who supervises the attempt, and the task once it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// The id of the log the attempt belongs to, as its launch said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The boot the pids belong to.
    pub boot: String,
    /// The supervisor. Its descendants are the attempt's processes.
    pub supervisor: ProcessRef,
    /// The task's first process; `None` for the moment between taking the directory and starting it.
    ///
    /// Kept as a second line of the file, which is appended once it is known.
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
    /// The first cgroup it and all that comes of it are in, to be removed in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
    /// The others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_groups: Vec<PathBuf>,
}

/// `state`: written when a freeze or thaw happened, never before the first one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// What it is doing.
    pub phase: Phase,
    /// Since when, in microseconds since 1970.
    pub since: u64,
    /// The cgroup made for freezing, to be removed in the end.
    #[serde(default)]
    pub group: Option<PathBuf>,
}

/// What a live attempt is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It runs.
    Running,
    /// Asked to freeze; some thread of it may still run.
    Freezing,
    /// No thread of it runs.
    Frozen,
}

/// `want`: what the worker wants of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "want")]
pub enum DesiredRecord {
    /// Run, and go on if frozen.
    Run,
    /// Stop in place, keeping memory.
    Freeze,
    /// End: TERM now, KILL after the grace. Repeated with less grace it ends sooner; there is no way back.
    Stop {
        /// From TERM to KILL.
        grace_ms: u64,
    },
}

/// `exit`: how it ended. Written when no process of the attempt is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Version of the record.
    pub v: u32,
    /// The attempt's key.
    pub key: String,
    /// Why it ended.
    pub cause: ExitCause,
    /// How the first process ended; `None` if it never started.
    pub status: Option<Status>,
    /// When it started, in microseconds since 1970.
    pub started_at: u64,
    /// When its last process was gone, in microseconds since 1970.
    pub ended_at: u64,
    /// Time spent running, without the time it was frozen.
    pub running_us: u64,
    /// What its processes used.
    pub usage: Usage,
    /// What they wrote.
    pub output: Output,
}

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCause {
    /// By itself.
    Exited,
    /// Its running time was over the timeout.
    TimedOut,
    /// It had more processes than it may, and nothing but looking kept it from more.
    Crowded {
        /// How many were seen.
        processes: u64,
    },
    /// The kernel killed a process of it because it needed more main memory than its limit.
    OutOfMemory {
        /// The limit.
        limit_bytes: u64,
    },
    /// Nothing was typed or printed in its terminal for as long as that may be.
    Idle {
        /// How long that is.
        limit_ms: u64,
    },
    /// The worker wanted it stopped. Without a status it was stopped before it started.
    Stopped,
    /// The program could not be started.
    FailedToStart {
        /// What was tried and what the system said.
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

/// What the processes of an attempt used, as far as they were waited for by each other or by the supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The largest resident size of any single process.
    pub peak_rss_bytes: u64,
    /// User and system time of all of them.
    pub cpu_us: u64,
}

/// What a task wrote. Counts are of what it wrote; the flags say that a file holds only the head of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Bytes written to standard output.
    pub out_bytes: u64,
    /// Bytes written to standard error.
    pub err_bytes: u64,
    /// The file of standard output is cut short.
    pub out_truncated: bool,
    /// The file of standard error is cut short.
    pub err_truncated: bool,
    /// The interleaved log is cut short.
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
        // A second line without its end is still being written.
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

/// Reads one record; `None` where there is none.
pub(super) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let Some(text) = read_bytes(path)? else { return Ok(None) };
    parse(path, &text).map(Some)
}

/// Writes a file under another name and renames it, so that nobody finds half of it, whoever is killed meanwhile.
pub fn write_atomically(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

/// Writes a record, at once. Not synced: see the module's page.
pub(super) fn write_record(path: &Path, record: &impl Serialize) -> Result<(), RecordError> {
    let written = serde_json::to_vec(record).map_err(io::Error::from).and_then(|mut text| {
        text.push(b'\n');
        write_atomically(path, &text)
    });
    written.map_err(|source| RecordError::Io { path: path.into(), source })
}

/// A name beside `path` no other process uses.
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
    // Asked first, because a newer record need not even look like ours.
    let Version { v: found } = parse_as_is(path, text)?;
    if found > VERSION {
        return Err(RecordError::Newer { path: path.into(), found });
    }
    parse_as_is(path, text)
}

fn parse_as_is<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(text).map_err(|source| RecordError::Malformed { path: path.into(), source })
}
