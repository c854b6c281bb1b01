//! Where the records of attempts are: `attempts` in the data directory, which for root is a link into memory.
//!
//! Records tell of processes, and no process outlives the machine; so a file system in memory is their place, and much
//! faster: on a disk the making and removing of a few small files costs more than running a short task. Only root has
//! such a place that nobody clears while processes still run; for everyone else they stay on the disk.

use super::keep::attempts_dir;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Places in memory that last until the machine restarts, the best first.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];

/// Makes the directory of attempts ready, wherever it is.
pub(super) fn prepare(data: &Path) -> io::Result<PathBuf> {
    let attempts = attempts_dir(data);
    match fs::read_link(&attempts) {
        // After a restart of the machine the link is there and what it led to is not.
        Ok(target) => make(&target)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => match in_memory() {
            Some(root) => symlink(take_place(root)?, &attempts)?,
            None => fs::create_dir_all(&attempts)?,
        },
        // A directory of its own: an earlier start had no place in memory.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
        Err(e) => return Err(e),
    }
    Ok(attempts)
}

/// Gives the place in memory back, if nothing is left in it.
pub(super) fn give_back(data: &Path) {
    let attempts = attempts_dir(data);
    if let Ok(target) = fs::read_link(&attempts)
        && fs::remove_dir(target).is_ok()
    {
        let _gone_already = fs::remove_file(attempts);
    }
}

fn make(dir: &Path) -> io::Result<()> {
    private().recursive(true).create(dir)
}

fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// The best place in memory, for whoever may use it.
fn in_memory() -> Option<&'static Path> {
    let lasts = |dir: &&&str| statfs(**dir).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC);
    let root = nix::unistd::geteuid().is_root().then(|| IN_MEMORY.iter().find(lasts)).flatten();
    root.map(|dir| Path::new(*dir))
}

/// Makes a directory that nobody else has: two agents that shared one would take each other's attempts for theirs.
fn take_place(root: &Path) -> io::Result<PathBuf> {
    let mut number = 0u64;
    loop {
        let place = root.join(format!("warpyard-{}-{number}", std::process::id()));
        match private().create(&place) {
            Ok(()) => return Ok(place),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(e),
        }
    }
}
