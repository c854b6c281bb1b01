//! Copies of a server's state, made while it runs, and a data directory made of one.
//!
//! A backup is a directory: `log.db` and `history.db` as they were at one moment each, tokens and CA, and `backup.json`, which
//! is written last and says what is there. The history is copied first, so that it is never ahead of the log.
//!
//! A restored log is older than what happened since. It goes on under a new id ([`crate::recovery`]), and its unfinished
//! jobs are held: each of them may have run in the meantime, and what ran is not run again unless someone says so. Attempts
//! that were under way when the backup was made, and still are, are found by their records and go on.

use crate::clock::Clock;
use crate::data::{DataDir, DataError};
use crate::recovery::{self, RecoveryError, RecoveryReport};
use crate::store::{self, HistoryError, Log, LogError, SqliteHistory};
use crate::{tls, tokens};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use warpyard_api::client::TOKEN_FILE;
use warpyard_api::private_dir::{self, AllowedOwner, PrivateDirError};
use warpyard_policies::default_policy;
use warpyard_worker::agent::{Lineage, snapshots_dir};

/// The form of a backup; a newer one is refused.
const FORMAT: u32 = 1;

/// The file that says what a backup holds.
const MANIFEST: &str = "backup.json";

const LOG: &str = "log.db";
const HISTORY: &str = "history.db";

/// Files by which people, workers and clients know the server: the token, personal tokens and workers' keys, and the CA.
const IDENTITY: [&str; 4] = [TOKEN_FILE, tokens::FILE, tls::CA_CERT, tls::CA_KEY];

/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// What a backup holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the backup.
    pub format: u32,
    /// The program that made it.
    pub version: String,
    /// When it was made, in microseconds since 1970.
    pub made_at: u64,
    /// The data directory it was made of.
    pub data: PathBuf,
    /// The logs that numbered the jobs.
    pub lineage: Lineage,
    /// The last event in it.
    pub events: u64,
    /// How many jobs its log holds in memory, ended or not.
    pub jobs: u64,
    /// Those of them that are not over.
    pub unfinished: u64,
    /// Where the records of attempts were, if not in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<PathBuf>,
    /// The files whose contents are checked.
    pub files: Vec<FileEntry>,
    /// How many files of output and of snapshots there are beside them, and their bytes; none where they were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<(u64, u64)>,
}

/// A file of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
}

/// Why a backup could not be made or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error("{} has no log; name the server's data directory with --data", path.display())]
    NoLog {
        /// The data directory.
        path: PathBuf,
    },
    /// The place for the backup is taken.
    #[error("{} is there already and not empty; name a directory that is not there yet", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// It is no backup, or was never completed.
    #[error("{} is no complete backup: {MANIFEST} in it cannot be read ({why})", path.display())]
    Incomplete {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It was made by a newer program.
    #[error("{} has format {found}, newer than this program knows ({FORMAT}); use a newer warpyard", path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It is not what it was.
    #[error("{} is damaged: {why}; use another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Others could read or change it.
    #[error("{} is no place for a backup: {why}; name a directory that is yours alone", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Whose it is, or who can write to it.
        why: String,
    },
    /// The data directory has a log.
    #[error(
        "{} has a log already, which would be lost; name an empty directory with --data, or move log.db away first",
        path.display()
    )]
    HasLog {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What is done to a log that was restored.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The history.
    #[error("the history cannot be used")]
    History(#[from] HistoryError),
    /// A file.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Told how far something is: what is being done, bytes done, and how many there are about.
pub type Progress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// What was restored.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// What the backup held.
    pub backup: Manifest,
    /// How the log goes on.
    #[serde(flatten)]
    pub continued: RecoveryReport,
    /// Unfinished jobs whose snapshot is not there: their tasks will fail unless it is put back.
    pub without_snapshot: Vec<u64>,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::Io { path, source }
}

/// Copies the state of a server, which may be running, to a new directory; with `outputs` also what tasks printed and the
/// snapshots jobs were submitted with.
pub fn backup(
    data: &Path,
    to: &Path,
    outputs: bool,
    progress: Progress<'_>,
) -> Result<Manifest, BackupError> {
    let no_log = || BackupError::NoLog { path: data.into() };
    let data = data.canonicalize().map_err(|_| no_log())?;
    if length(&data.join(LOG)) == 0 {
        return Err(no_log());
    }
    // Before anything is changed, for it may be another's; and again once it is there, for another may have been faster.
    must_be_private(to, AllowedOwner::Own)?;
    match DirBuilder::new().mode(0o700).create(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            must_be_private(to, AllowedOwner::Own)?;
            if fs::read_dir(to).map_err(failed(to))?.next().is_some() {
                return Err(BackupError::Taken { path: to.into() });
            }
            let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(to, closed).map_err(failed(to))?;
        }
        made => made.map_err(failed(to))?,
    }
    if length(&data.join(HISTORY)) > 0 {
        copy_database(&data.join(HISTORY), &to.join(HISTORY), progress)?;
    }
    copy_database(&data.join(LOG), &to.join(LOG), progress)?;
    for name in IDENTITY.iter().filter(|name| data.join(name).exists()) {
        copy_file(&data.join(name), &to.join(name))?;
    }
    let outputs = outputs.then(|| copy_outputs(&data, to, progress)).transpose()?;
    // Read back from the copy, so that what is said to be there can be restored.
    let log = Log::open_to_read(&to.join(LOG))?;
    let cluster = log.read(&default_policy())?;
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: Clock::system().now().0,
        attempts: fs::read_link(data.join("attempts")).ok(),
        lineage: log.lineage().cloned().unwrap_or_else(|| Lineage::of_one(None)),
        events: cluster.seq(),
        jobs: cluster.jobs().iter().count() as u64,
        unfinished: cluster.jobs().iter().filter(|job| job.finished.is_none()).count() as u64,
        files: files_in(to)?,
        outputs,
        data,
    };
    drop(log);
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is always JSON");
    let path = to.join(MANIFEST);
    let written = create(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, &text)?;
        file.sync_all()
    });
    written.map_err(failed(&path))?;
    File::open(to).and_then(|dir| dir.sync_all()).map_err(failed(to))?;
    Ok(manifest)
}

/// Makes a data directory of a backup, which is checked first. The directory must have no log; records and output that a
/// server left there stay, and what of them belongs to the restored jobs is theirs again.
pub fn restore(
    from: &Path,
    data: &Path,
    hold: bool,
    progress: Progress<'_>,
) -> Result<Restored, BackupError> {
    must_be_private(from, AllowedOwner::OwnOrRoot)?;
    let backup = check(from, progress)?;
    if has_events(&data.join(LOG)) {
        return Err(BackupError::HasLog { path: data.into() });
    }
    let dir = DataDir::take(data)?;
    let data = dir.path();
    let mut set_aside = Vec::new();
    if length(&data.join(HISTORY)) > 0 {
        let path = data.join(HISTORY);
        set_aside.push(crate::store::set_aside(&path, "before-restore").map_err(failed(&path))?);
    }
    for entry in &backup.files {
        let target = data.join(&entry.name);
        // What is there is what people and workers know.
        if IDENTITY.contains(&entry.name.as_str()) && target.exists() {
            continue;
        }
        progress(&entry.name, 0, entry.bytes);
        // A write-ahead log of the file that was there would be taken for one of the file that is put there.
        for end in ["", "-wal", "-shm"] {
            let _not_there = fs::remove_file(data.join(format!("{}{end}", entry.name)));
        }
        copy_file(&from.join(&entry.name), &target)?;
    }
    for name in ["logs", "snapshots"] {
        if from.join(name).is_dir() {
            copy_tree(&from.join(name), &data.join(name), &mut |_| {})?;
        }
    }
    link_attempts(&backup, data)?;
    let mut log = Log::open_existing(&data.join(LOG))?;
    let mut cluster = log.load(&default_policy())?.cluster;
    let history = SqliteHistory::open(&data.join(HISTORY))?;
    let highest = recovery::highest_job(data, &history)?;
    drop(history);
    let held = recovery::resume_log(&mut log, &mut cluster, highest, hold)?;
    let continued = recovery::finish(data, &log, &cluster, held, set_aside)?;
    let needs_snapshot = cluster.jobs().iter().filter(|job| job.finished.is_none());
    let missing = needs_snapshot.filter(|job| {
        let snapshot = job.spec.snapshot.as_ref();
        snapshot.is_some_and(|snapshot| {
            let store = warpyard_snapshot::Store::of(&snapshots_dir(data), &snapshot.of);
            let id = warpyard_snapshot::Hash::try_from(snapshot.id.clone());
            !id.is_ok_and(|id| store.manifest(&id).is_ok())
        })
    });
    let without_snapshot = missing.map(|job| job.id.0).collect();
    Ok(Restored { backup, continued, without_snapshot })
}

/// Refuses a directory of a backup that others could read from, write to or replace: it holds the token and environments,
/// and a server restored from it runs what it says.
fn must_be_private(path: &Path, owner: AllowedOwner) -> Result<(), BackupError> {
    let why = match private_dir::check(path, owner) {
        Ok(()) => return Ok(()),
        Err(PrivateDirError::Foreign { owner, .. }) => {
            format!("it belongs to {}", private_dir::describe_user(owner))
        }
        Err(PrivateDirError::Writable { mode, .. }) => format!("other users can write to it (mode {mode:o})"),
        Err(PrivateDirError::ForeignParent { path, owner, .. }) => {
            format!("{} on the way to it belongs to {}", path.display(), private_dir::describe_user(owner))
        }
        Err(PrivateDirError::WritableParent { path, mode, .. }) => {
            format!("other users can write to {} on the way to it (mode {mode:o})", path.display())
        }
        Err(PrivateDirError::Io { source, .. }) => source.to_string(),
    };
    Err(BackupError::NotPrivate { path: path.into(), why })
}

/// Whether there is a log that something would be lost with: a server that was started where the log was lost, and refused
/// to go on, leaves an empty one. One that cannot be read may hold anything.
fn has_events(path: &Path) -> bool {
    length(path) > 0 && Log::open_to_read(path).map_or(true, |log| log.seq() > 0)
}

/// Checks that a backup is complete, is as it was, and that a server can go on from it.
fn check(from: &Path, progress: Progress<'_>) -> Result<Manifest, BackupError> {
    let incomplete = |why: String| BackupError::Incomplete { path: from.into(), why };
    let text = fs::read(from.join(MANIFEST)).map_err(|e| incomplete(e.to_string()))?;
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_slice(&text).map_err(|e| incomplete(e.to_string()))?;
    if format > FORMAT {
        return Err(BackupError::Newer { path: from.into(), found: format });
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| incomplete(e.to_string()))?;
    for entry in &manifest.files {
        let path = from.join(&entry.name);
        let damaged = |why: &str| BackupError::Damaged { path: path.clone(), why: why.to_owned() };
        // Names are the ones that are ever written, and lead nowhere else.
        if !names().any(|name| name == entry.name) {
            return Err(damaged("a backup holds no such file"));
        }
        progress(&format!("checking {}", entry.name), 0, entry.bytes);
        let found = entry_of(&path, &entry.name)?;
        if found.sha256 != entry.sha256 {
            return Err(damaged("its content is not what was written"));
        }
        if !IDENTITY.contains(&entry.name.as_str())
            && let Some(corruption) = store::find_corruption(&path)?
        {
            return Err(damaged(&corruption));
        }
    }
    let log = Log::open_to_read(&from.join(LOG))?;
    let cluster = log.read(&default_policy())?;
    let damaged = |name: &str, why: String| BackupError::Damaged { path: from.join(name), why };
    if cluster.seq() != manifest.events {
        return Err(damaged(LOG, format!("it ends with event {}, not {}", cluster.seq(), manifest.events)));
    }
    if from.join(HISTORY).exists() {
        let seq = SqliteHistory::last_event(&from.join(HISTORY))?;
        if seq > manifest.events {
            return Err(damaged(HISTORY, format!("it has events up to {seq}, beyond the log's")));
        }
    }
    Ok(manifest)
}

/// Leads to the records of attempts that were in memory when the backup was made, if they still are and no other data
/// directory leads to them.
fn link_attempts(backup: &Manifest, data: &Path) -> Result<(), BackupError> {
    let link = data.join("attempts");
    let Some(place) = backup.attempts.as_ref().filter(|place| place.is_dir()) else { return Ok(()) };
    let elsewhere =
        backup.data != data && fs::read_link(backup.data.join("attempts")).is_ok_and(|to| to == *place);
    if elsewhere || fs::symlink_metadata(&link).is_ok() {
        return Ok(());
    }
    symlink(place, &link).map_err(failed(&link))
}

/// Copies a database that may be written to meanwhile, as it is at one moment.
fn copy_database(from: &Path, to: &Path, progress: Progress<'_>) -> Result<(), BackupError> {
    // Made first and closed to others; SQLite takes an empty file for one it may fill.
    create(to).map_err(failed(to))?;
    let (name, whole) = (from.file_name().unwrap_or_default().to_string_lossy(), length(from));
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Relaxed) {
                progress(&format!("copying {name}"), length(to), whole);
                thread::park_timeout(TOLD_EVERY);
            }
        });
        let copied = store::copy_database(from, to);
        done.store(true, Relaxed);
        copied
    })?;
    File::open(to).and_then(|file| file.sync_all()).map_err(failed(to))
}

/// Copies what tasks printed and the snapshots; gives how many files that were and their bytes. What tasks still print is
/// copied as far as it is.
fn copy_outputs(data: &Path, to: &Path, progress: Progress<'_>) -> Result<(u64, u64), BackupError> {
    let (mut files, mut bytes) = (0, 0);
    for name in ["logs", "snapshots"] {
        if data.join(name).is_dir() {
            copy_tree(&data.join(name), &to.join(name), &mut |length| {
                files += 1;
                bytes += length;
                if files % 100 == 0 {
                    progress(&format!("copying {name}"), bytes, 0);
                }
            })?;
        }
    }
    Ok((files, bytes))
}

/// Copies directories and regular files, and nothing else. Files that go meanwhile are passed over.
fn copy_tree(from: &Path, to: &Path, copied: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
    let mut left = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        match DirBuilder::new().mode(0o700).create(&to) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&to)(e)),
            _ => {}
        }
        let Ok(entries) = fs::read_dir(&from) else { continue };
        for entry in entries.flatten() {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push((source, target)),
                Ok(kind) if kind.is_file() && !target.exists() => match File::open(&source) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    opened => {
                        let mut opened = opened.map_err(failed(&source))?;
                        let copy = create(&target).and_then(|mut file| io::copy(&mut opened, &mut file));
                        copied(copy.map_err(failed(&target))?);
                    }
                },
                _ => {}
            }
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut source = File::open(from).map_err(failed(from))?;
    let copied = create(to).and_then(|mut file| {
        io::copy(&mut source, &mut file)?;
        file.sync_all()
    });
    copied.map_err(failed(to))
}

/// A new file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The files of a backup.
fn names() -> impl Iterator<Item = &'static str> {
    [LOG, HISTORY].into_iter().chain(IDENTITY)
}

fn files_in(backup: &Path) -> Result<Vec<FileEntry>, BackupError> {
    let there = names().filter(|name| backup.join(name).exists());
    there.map(|name| entry_of(&backup.join(name), name)).collect()
}

fn entry_of(path: &Path, name: &str) -> Result<FileEntry, BackupError> {
    let mut file = File::open(path).map_err(failed(path))?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut chunk).map_err(failed(path))? {
            0 => break,
            n => {
                hash.update(&chunk[..n]);
                bytes += n as u64;
            }
        }
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(FileEntry { name: name.to_owned(), bytes, sha256 })
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}
