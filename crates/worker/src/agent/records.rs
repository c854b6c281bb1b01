//! The directory of attempt records: `attempts` in the data directory, which for root is a symbolic link into a file system in
//! memory (tmpfs).
//!
//! Records describe processes, and no process survives a reboot, so tmpfs is durable enough for them, and much faster: on a
//! disk, creating and removing a few small files costs more than running a short task. Only root has a tmpfs that nobody clears
//! while processes run; for other users records stay on the disk. They also do on a shared machine where every tmpfs can be
//! filled by anyone, and where one is full.
//!
//! A directory in tmpfs names its owner: a file in it, written atomically, contains the path of the link that leads to it. It is
//! written once the link exists, so a directory whose link is gone or leads elsewhere is abandoned and may be removed. A
//! directory without an owner file, or with an unreadable one, is left alone; so is one that belongs to the data directory of
//! which this one is a copy.

use super::keep::{Layout, attempts_dir, overflow_dir};
use crate::supervise::{Inspection, RecordedAttempt, boot_id, scan, write_atomically};
use crate::tree_removal::remove_flat;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use nix::unistd::{geteuid, mkdtemp};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use warpyard_core::AttemptId;

/// File systems in memory that last until the machine restarts, the best first.
const IN_MEMORY: [&str; 2] = ["/run", "/dev/shm"];

/// Name prefix of record directories in memory.
const PREFIX: &str = "warpyard-";

/// The owner file: the path of the link that leads to the directory.
const OWNER: &str = "owner";

/// Free bytes and inodes that the records of one more attempt need.
const ROOM: (u64, u64) = (1 << 20, 64);

/// Prepares the directory of attempt records. Where the machine is `shared`, it is on no file system that anyone can fill.
pub(super) fn prepare(data: &Path, shared: bool) -> io::Result<PathBuf> {
    let attempts = attempts_dir(data);
    if shared {
        leave_fillable(&attempts)?;
    }
    match fs::read_link(&attempts) {
        // After a restart of the machine the link exists and its target does not; another user may have created it since.
        Ok(target) if make(&target)? && !is_anothers(&target, &attempts)? => write_owner(&target, &attempts)?,
        Ok(target) => {
            fs::remove_file(&attempts)?;
            create_in(target.parent().unwrap_or(Path::new("/")), &attempts)?;
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => match in_memory(shared) {
            Some(root) => {
                sweep(root);
                create_in(root, &attempts)?;
            }
            None => fs::create_dir_all(&attempts)?,
        },
        // A directory of its own: an earlier start had no place in memory.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
        Err(e) => return Err(e),
    }
    Ok(attempts)
}

/// Leaves a directory that an earlier start made on a file system anyone can write to, unless an attempt runs in it.
fn leave_fillable(attempts: &Path) -> io::Result<()> {
    let Ok(place) = fs::read_link(attempts) else { return Ok(()) };
    let fillable = place.parent().is_some_and(anyone_can_fill);
    if fillable && is_ours(&place).unwrap_or(false) && scan(&place).is_ok_and(|all| all.is_empty()) {
        remove_place(&place)?;
        fs::remove_file(attempts)?;
    }
    Ok(())
}

fn anyone_can_fill(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|found| found.mode() & 0o002 != 0)
}

/// Creates a directory on the disk for the records of an attempt if the file system in memory has no room; returns whether it
/// did.
pub(super) fn make_room(layout: &Layout, attempt: AttemptId) -> io::Result<bool> {
    let attempts = attempts_dir(layout.data());
    let full = match (fs::read_link(&attempts), statvfs(&attempts)) {
        (Ok(_), Ok(found)) => {
            let bytes = found.blocks_available() * found.fragment_size();
            // A file system without a number of inodes says that it has none.
            bytes < ROOM.0 || (found.files() > 0 && found.files_available() < ROOM.1)
        }
        _ => false,
    };
    // An attempt that has started stays where it is.
    let dir = layout.attempt_dir(attempt);
    if let Some(name) = dir.file_name().filter(|_| full && !dir.exists()) {
        fs::create_dir_all(overflow_dir(layout.data()).join(name))?;
        return Ok(true);
    }
    Ok(false)
}

/// Number of an agent's session, larger than that of any before: the time of its start, or the successor of the latest where the
/// clock was set back. Should the latest be unknown as well, the server's acknowledgements correct the number.
pub(super) fn next_session(data: &Path) -> u64 {
    let file = data.join("session");
    let latest: u64 = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let session = now.max(latest + 1);
    let _no_room = write_atomically(&file, session.to_string().as_bytes());
    session
}

/// Whether the machine was restarted since the last start of an agent; records this start as the last.
pub(super) fn machine_restarted(data: &Path) -> io::Result<bool> {
    let file = data.join("boot");
    let before = match fs::read_to_string(&file) {
        Ok(boot) => Some(boot),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    if before.as_deref() != Some(boot_id()) {
        write_atomically(&file, boot_id().as_bytes())?;
    }
    Ok(before.is_some_and(|boot| boot != boot_id()))
}

/// Removes the directory in memory if it contains no records.
pub(super) fn give_back(data: &Path) {
    let attempts = attempts_dir(data);
    let Ok(place) = fs::read_link(&attempts) else { return };
    // Records are directories; files are what it says of itself.
    let is_file = |entry: fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let empty = fs::read_dir(&place).is_ok_and(|mut all| all.all(|entry| entry.is_ok_and(is_file)));
    if empty && remove_flat(&place).is_ok() {
        let _gone_already = fs::remove_file(attempts);
    }
}

/// Removes directories whose data directory is gone, unless an attempt still runs in them.
fn sweep(root: &Path) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
    // Directories of other users are not ours to remove, and need not be what they look like.
    for place in entries.filter(|p| named(p) && is_ours(p).unwrap_or(false)) {
        // An unreadable attempt may be running.
        let over = |found: &Inspection| {
            matches!(
                found,
                Ok(RecordedAttempt::NotStarted | RecordedAttempt::Exited(_) | RecordedAttempt::Died(_))
            )
        };
        let abandoned = is_abandoned(&place).unwrap_or(false);
        if abandoned && scan(&place).is_ok_and(|all| all.iter().all(|(_, found)| over(found))) {
            let _someone_elses = remove_place(&place);
        }
    }
}

/// Removes a directory and the records in it: files, and directories of files.
fn remove_place(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_flat(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir(place)
}

/// Creates a directory if there is none; returns whether it is private to this user.
fn make(dir: &Path) -> io::Result<bool> {
    match private().create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => is_ours(dir),
        made => made.map(|()| true),
    }
}

/// Whether a path is a directory of this user that nobody else can enter.
fn is_ours(dir: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(dir)?;
    let owned = found.uid() == geteuid().as_raw();
    Ok(found.is_dir() && owned && found.mode() & 0o077 == 0)
}

fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// The best file system in memory, for root.
fn in_memory(shared: bool) -> Option<&'static Path> {
    let lasts = |dir: &&&str| {
        statfs(**dir).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC)
            && !(shared && anyone_can_fill(Path::new(**dir)))
    };
    let root = geteuid().is_root().then(|| IN_MEMORY.iter().find(lasts)).flatten();
    root.map(|dir| Path::new(*dir))
}

/// Creates a directory for the attempts of a data directory.
///
/// Other agents may sweep at any moment, so the owner file is written only once the link exists: before that the directory would
/// look abandoned.
fn create_in(root: &Path, attempts: &Path) -> io::Result<()> {
    // A fresh name: an agent that found a directory of the same name abandoned may be about to remove it.
    let place = mkdtemp(&root.join(format!("{PREFIX}XXXXXX")))?;
    symlink(&place, attempts)?;
    write_owner(&place, attempts)
}

/// Writes the owner file.
fn write_owner(place: &Path, attempts: &Path) -> io::Result<()> {
    write_atomically(&place.join(OWNER), attempts.as_os_str().as_bytes())
}

/// The owner of a directory, by its owner file.
fn owner(place: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read(place.join(OWNER)) {
        // An older agent may be about to write it.
        Ok(said) => Ok(Some(PathBuf::from(OsString::from_vec(said))).filter(|owner| *owner != Path::new(""))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn leads_to(link: &Path, place: &Path) -> io::Result<bool> {
    match fs::read_link(link) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        target => Ok(target? == place),
    }
}

/// Whether a directory names an owner that does not link to it.
fn is_abandoned(place: &Path) -> io::Result<bool> {
    owner(place)?.map_or(Ok(false), |owner| Ok(!leads_to(&owner, place)?))
}

/// Whether a directory belongs to another data directory, of which this one is a copy.
fn is_anothers(place: &Path, attempts: &Path) -> io::Result<bool> {
    let Some(owner) = owner(place)? else { return Ok(false) };
    // One link may have several names.
    let which = |link: &Path| fs::symlink_metadata(link).map(|found| (found.dev(), found.ino()));
    Ok(leads_to(&owner, place)? && which(&owner)? != which(attempts)?)
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
            create_in(root.path(), &attempts).expect("a place");
            fs::read_link(&attempts).expect("a link")
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
        prepare(data.path(), false).expect("it is made again after a restart");
        assert_eq!(fs::read_to_string(place.join(OWNER)).expect("text"), attempts.display().to_string());
        assert_eq!(fs::read_link(&attempts).expect("a link"), place);
        // Others may enter it: as one of theirs, which cannot be made here without root.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("its rights can be set");
        prepare(data.path(), false).expect("another is made");
        let now = fs::read_link(&attempts).expect("a link");
        assert_ne!(now, place);
        assert_eq!(fs::metadata(now).expect("it is there").mode() & 0o777, 0o700);
    }

    #[test]
    fn a_copy_of_a_data_directory_has_a_place_of_its_own_and_one_that_moved_keeps_its_own() {
        let root = tempfile::tempdir().expect("a directory");
        let all = tempfile::tempdir().expect("a directory");
        let [data, copy, moved] = ["data", "copy", "moved"].map(|name| all.path().join(name));
        let leads_to = |data: &Path| fs::read_link(attempts_dir(data)).expect("a link");
        for dir in [&data, &copy] {
            fs::create_dir(dir).expect("made");
        }
        create_in(root.path(), &attempts_dir(&data)).expect("a place");
        let place = leads_to(&data);
        symlink(&place, attempts_dir(&copy)).expect("copied");
        prepare(&copy, false).expect("another place");
        assert_ne!(leads_to(&copy), place);
        prepare(&data, false).expect("the same place");
        fs::rename(&data, &moved).expect("moved");
        prepare(&moved, false).expect("the same place");
        assert_eq!(leads_to(&moved), place);
        assert_eq!(
            fs::read_to_string(place.join(OWNER)).ok(),
            attempts_dir(&moved).to_str().map(str::to_owned)
        );
    }

    #[test]
    fn what_an_older_agent_left_is_swept_and_what_nobody_can_tell_of_is_not() {
        let (root, data) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let place = |name: &str, owner: Option<&Path>| {
            let place = root.path().join(name);
            private().create(&place).expect("made");
            if let Some(owner) = owner {
                fs::write(place.join(OWNER), owner.as_os_str().as_encoded_bytes()).expect("written");
            }
            place
        };
        // A file system that cannot be read just now.
        let looped = data.path().join("loop");
        symlink(&looped, &looped).expect("a link");
        let [gone, elsewhere] = ["gone", "elsewhere"].map(|name| attempts_dir(&data.path().join(name)));
        fs::create_dir(data.path().join("elsewhere")).expect("made");
        symlink(root.path(), &elsewhere).expect("a link");
        let swept = [place("warpyard-1-0", Some(&gone)), place("warpyard-1-1", Some(&elsewhere))];
        let kept = [
            place("warpyard-2-0", Some(&attempts_dir(&looped))),
            place("warpyard-2-1", Some(Path::new(""))),
            place("warpyard-2-2", None),
        ];
        sweep(root.path());
        assert_eq!((swept.map(|p| p.exists()), kept.map(|p| p.exists())), ([false; 2], [true; 3]));
    }

    #[test]
    fn a_place_is_given_back_also_if_a_start_was_cut_short_in_it() {
        let (root, data) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        create_in(root.path(), &attempts_dir(data.path())).expect("a place");
        fs::write(attempts_dir(data.path()).join(".owner.1"), "").expect("written");
        give_back(data.path());
        assert_eq!(fs::read_dir(root.path()).expect("read").count(), 0);
    }

    #[test]
    fn no_place_is_swept_while_it_is_being_taken() {
        let root = tempfile::tempdir().expect("a directory");
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let data = tempfile::tempdir().expect("a directory");
                        let attempts = attempts_dir(data.path());
                        sweep(root.path());
                        create_in(root.path(), &attempts).expect("a place");
                        // As each start says again whose it is.
                        write_owner(&fs::read_link(&attempts).expect("a link"), &attempts)
                            .expect("it is there");
                        sweep(root.path());
                        assert!(attempts.join(OWNER).exists(), "someone else took it for abandoned");
                    }
                });
            }
        });
    }
}
