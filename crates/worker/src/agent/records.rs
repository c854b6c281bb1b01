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
        Err(e) if e.kind() == io::ErrorKind::NotFound => match place_in_memory() {
            Some(target) => {
                make(&target)?;
                symlink(&target, &attempts)?;
            }
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
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn place_in_memory() -> Option<PathBuf> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let in_memory = |dir: &&&str| statfs(**dir).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC);
    let root = IN_MEMORY.iter().find(in_memory)?;
    // Two servers never share a data directory, but one may be made anew where another was: hence the process and time.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Path::new(root).join(format!("warpyard-{}-{}", std::process::id(), since.as_micros())))
}
