//! The supervisor's side of its attempt directory: claiming it exclusively, reading the desired state and writing the exit
//! record. The directory is the process's working directory, so that records are written to it and no other.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
};
use serde::Serialize;

use crate::supervise::{
    clock,
    launch::Launch,
    notify::Notifier,
    process::{self, ProcessRef},
    record::{self, DesiredRecord, ExitCause, ExitRecord, Output, RunningRecord, Usage, VERSION},
};

/// First and longest interval between two tries to write the exit record to a full disk.
const WRITE_RETRY: Duration = Duration::from_secs(1);
const MAX_WRITE_RETRY: Duration = Duration::from_secs(30);

/// Enters the attempt directory. Never creates it: one that is gone belonged to an attempt that is over, and the launch
/// came too late.
pub(super) fn enter_dir(dir: &Path) -> io::Result<()> {
    std::env::set_current_dir(dir)
}

/// Claims the attempt directory by creating `running` in it; fails if there is one. Returns the file, to which the task's
/// process is appended later.
///
/// The record is written under another name and moved in place with `RENAME_NOREPLACE`, so that of two supervisors exactly
/// one succeeds and no reader finds half a record.
pub(super) fn claim_dir(launch: &Launch) -> io::Result<File> {
    let running = RunningRecord {
        v: VERSION,
        key: launch.key.clone(),
        log: launch.log.clone(),
        on_lost: launch.on_lost,
        boot: process::boot_id().to_owned(),
        supervisor: ProcessRef::now(std::process::id() as i32),
        task: None,
    };
    let temporary = record::temporary_name(Path::new(record::RUNNING));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
    append_line(&mut file, &running)?;
    let claimed =
        match renameat2(AT_FDCWD, &temporary, AT_FDCWD, record::RUNNING, RenameFlags::RENAME_NOREPLACE) {
            // The file system does not support the flag; a hard link is just as exclusive.
            Err(Errno::EINVAL | Errno::ENOSYS) => {
                let linked = fs::hard_link(&temporary, record::RUNNING);
                fs::remove_file(&temporary)?;
                linked
            }
            Err(e) => {
                fs::remove_file(&temporary)?;
                Err(e.into())
            }
            Ok(()) => Ok(()),
        };
    claimed.map(|()| file)
}

/// Claims the directory that a worker created in place of one that was removed, unless another supervisor has it.
pub(super) fn reclaim_dir(launch: &Launch) -> Option<File> {
    let before = File::open(".").ok()?;
    let claimed = enter_dir(&launch.dir).and_then(|()| claim_dir(launch));
    if claimed.is_err() {
        // Records are written by relative names, which must not reach another supervisor's directory.
        nix::unistd::fchdir(&before).ok()?;
    }
    claimed.ok()
}

/// Whether `dir` is this process's working directory: neither removed nor replaced by another of its name.
pub(super) fn is_current(dir: &Path) -> bool {
    let identity = |dir: &Path| dir.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(dir), identity(Path::new("."))), (Ok(one), Ok(other)) if one == other)
}

/// Appends a record as one line of JSON.
pub(super) fn append_line(file: &mut File, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// The desired state, if there is one and it can be read. An unreadable record is tried again at the next notification.
pub(super) fn read_desired() -> Option<DesiredRecord> {
    DesiredRecord::read(Path::new(record::WANT)).ok().flatten()
}

/// The exit record of an attempt whose program never started.
pub(super) fn exit_before_start(launch: &Launch, cause: ExitCause) -> ExitRecord {
    let now = clock::unix_us();
    ExitRecord {
        v: VERSION,
        key: launch.key.clone(),
        cause,
        status: None,
        started_at: now,
        ended_at: now,
        running_us: 0,
        usage: Usage::default(),
        output: Output::default(),
    }
}

/// Writes the exit record, retrying for as long as the disk is full, and notifies the worker.
pub(super) fn write_exit(launch: &Launch, notifier: &Notifier, exit: &ExitRecord) {
    let mut pause = WRITE_RETRY;
    while record::write_record(Path::new(record::EXIT), exit).is_err() {
        // Nobody reads the record of a directory that was removed, unless one was created in its place for this attempt.
        if !is_current(&launch.dir) && reclaim_dir(launch).is_none() {
            break;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(MAX_WRITE_RETRY);
    }
    notifier.notify(launch.notify.as_deref(), &launch.key);
}
