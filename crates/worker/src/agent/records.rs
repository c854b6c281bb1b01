//! Where the records of attempts are: `attempts` in the data directory, which for root is a link into memory.
//!
//! Records tell of processes, and no process outlives the machine; so a file system in memory is their place, and much
//! faster: on a disk the making and removing of a few small files costs more than running a short task. Only root has
//! such a place that nobody clears while processes still run; for everyone else they stay on the disk.

use super::keep::attempts_dir;
use crate::supervise::{Found, boot_id, scan};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Places in memory that last until the machine restarts, the best first.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];

/// What places in memory are called.
const PREFIX: &str = "warpyard-";

/// The file in a place that says which link leads to it.
const OWNER: &str = "owner";

/// Makes the directory of attempts ready, wherever it is.
pub(super) fn prepare(data: &Path) -> io::Result<PathBuf> {
    let attempts = attempts_dir(data);
    match fs::read_link(&attempts) {
        // After a restart of the machine the link is there and what it led to is not; someone else may have made it since.
        Ok(target) if make(&target)? => say_whose(&target, &attempts)?,
        Ok(target) => {
            let root = target.parent().unwrap_or(Path::new("/"));
            let place = take_place(root, &attempts)?;
            fs::remove_file(&attempts)?;
            symlink(place, &attempts)?;
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => match in_memory() {
            Some(root) => {
                sweep(root);
                symlink(take_place(root, &attempts)?, &attempts)?;
            }
            None => fs::create_dir_all(&attempts)?,
        },
        // A directory of its own: an earlier start had no place in memory.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
        Err(e) => return Err(e),
    }
    Ok(attempts)
}

/// Whether the machine was restarted since an agent last began here; from now on this start is the last.
pub(super) fn machine_restarted(data: &Path) -> io::Result<bool> {
    let file = data.join("boot");
    let before = match fs::read_to_string(&file) {
        Ok(boot) => Some(boot),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    if before.as_deref() != Some(boot_id()) {
        fs::write(&file, boot_id())?;
    }
    Ok(before.is_some_and(|boot| boot != boot_id()))
}

/// Gives the place in memory back, if nothing is left in it.
pub(super) fn give_back(data: &Path) {
    let attempts = attempts_dir(data);
    let Ok(place) = fs::read_link(&attempts) else { return };
    let empty = fs::read_dir(&place)
        .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == OWNER)));
    if empty && fs::remove_dir_all(&place).is_ok() {
        let _gone_already = fs::remove_file(attempts);
    }
}

/// Removes places whose data directory is gone, unless something still runs in them.
fn sweep(root: &Path) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
    // What someone else put there is none of ours, and need not be what it looks like.
    for place in entries.filter(|p| named(p) && is_ours(p).unwrap_or(false)) {
        let owner = fs::read_to_string(place.join(OWNER)).map(PathBuf::from);
        let abandoned = owner.is_ok_and(|owner| fs::read_link(owner).ok().as_ref() != Some(&place));
        let runs = |found: &Found| matches!(found, Found::Running(_) | Found::Frozen(_));
        if abandoned && scan(&place).is_ok_and(|all| !all.iter().any(|(_, found)| runs(found))) {
            let _someone_elses = fs::remove_dir_all(&place);
        }
    }
}

/// Makes a directory if there is none; gives whether it is ours alone.
fn make(dir: &Path) -> io::Result<bool> {
    match private().create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => is_ours(dir),
        made => made.map(|()| true),
    }
}

/// Whether something is a directory of ours that nobody else can enter.
fn is_ours(dir: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(dir)?;
    let owned = found.uid() == nix::unistd::geteuid().as_raw();
    Ok(found.is_dir() && owned && found.mode() & 0o077 == 0)
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

/// Leaves word in a place of which link leads to it, by which it is known to be abandoned once that is gone.
fn say_whose(place: &Path, attempts: &Path) -> io::Result<()> {
    fs::write(place.join(OWNER), attempts.as_os_str().as_encoded_bytes())
}

/// Makes a directory that nobody else has: two agents that shared one would take each other's attempts for theirs.
fn take_place(root: &Path, attempts: &Path) -> io::Result<PathBuf> {
    let mut number = 0u64;
    loop {
        let place = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match private().create(&place) {
            Ok(()) => {
                say_whose(&place, attempts)?;
                return Ok(place);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_place_goes_when_its_data_directory_has_gone_and_not_before() {
        let root = tempfile::tempdir().expect("a directory");
        let (kept, gone) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let place_for = |data: &Path| {
            let attempts = attempts_dir(data);
            let place = take_place(root.path(), &attempts).expect("a place");
            symlink(&place, &attempts).expect("a link");
            place
        };
        let (first, second) = (place_for(kept.path()), place_for(gone.path()));
        assert_ne!(first, second);
        sweep(root.path());
        assert!(first.exists() && second.exists());
        drop(gone);
        sweep(root.path());
        assert!(first.exists() && !second.exists());
        give_back(kept.path());
        assert!(!first.exists() && !attempts_dir(kept.path()).exists());
    }

    #[test]
    fn a_place_that_someone_else_has_made_is_not_used() {
        let (root, data) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (attempts, place) = (attempts_dir(data.path()), root.path().join("warpyard-1-0"));
        symlink(&place, &attempts).expect("a link");
        prepare(data.path()).expect("it is made again after a restart");
        assert!(place.join(OWNER).exists() && fs::read_link(&attempts).expect("a link") == place);
        // Others may enter it: as one of theirs, which cannot be made here without root.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("its rights can be set");
        prepare(data.path()).expect("another is made");
        let now = fs::read_link(&attempts).expect("a link");
        assert_ne!(now, place);
        assert_eq!(fs::metadata(now).expect("it is there").mode() & 0o777, 0o700);
    }
}
