//! Removal of directory trees that belong to users. No privileged process ever walks one: a helper process, this program
//! under another subcommand, becomes the tree's owner and empties it; its parent only removes the empty directory. However
//! deep the tree is, the helper needs one stack frame and three descriptors: it moves sub-directories up into the root and
//! empties them there.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat2};
use nix::sys::prctl;
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, geteuid, setgroups, setresgid, setresuid, unlinkat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The first argument that makes this program the helper: `remover UID GID`, with the directory as standard input.
pub const SUBCOMMAND: &str = "remover";

/// Entries one helper removes at most; the rest is left to another run.
const ENTRY_BUDGET: u64 = 200_000;

/// Run time of a helper. One that takes longer waits for a file system that does not answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Exit codes of the helper: some of the tree is left, or cannot be removed.
const EXIT_PARTIAL: u8 = 3;
const EXIT_STUCK: u8 = 4;

/// Outcome of removing a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone.
    Complete,
    /// Some of it is left for another run.
    Partial,
    /// Its owner cannot remove some of it, for this reason.
    Stuck(String),
    /// A file system in it does not answer.
    TimedOut,
}

/// Opens an entry of a directory that only this process's user can change: the entry itself, neither the target of a link nor
/// what is mounted on it. A user may have mounted a FUSE file system of their own there, and any system call on that would
/// block for as long as they like.
pub(crate) fn open_entry(parent: &File, name: &OsStr, flags: OFlag) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_BENEATH);
    match openat2(parent, name, how) {
        Err(Errno::EXDEV) => {
            Err(io::Error::new(io::ErrorKind::CrossesDevices, "a file system is mounted on it"))
        }
        opened => Ok(opened?.into()),
    }
}

/// Removes a directory in `parent`, which only this process's user can change, by a helper process that becomes the
/// directory's owner.
pub(crate) fn remove(program: &Path, parent: &File, name: &OsStr) -> io::Result<Removal> {
    let root = open_entry(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let owner = root.metadata()?;
    let mut helper = Command::new(program)
        .arg(SUBCOMMAND)
        .args([owner.uid().to_string(), owner.gid().to_string()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(root))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let Some(status) = wait(&mut helper)? else {
        return Ok(Removal::TimedOut);
    };
    match status.code() {
        Some(0) => {}
        Some(code) if code == i32::from(EXIT_PARTIAL) => return Ok(Removal::Partial),
        _ => {
            let mut why = String::new();
            // The helper writes one line, which fits into the pipe's buffer: it never blocks on it.
            if let Some(said) = helper.stderr.take() {
                said.take(4096).read_to_string(&mut why)?;
            }
            let why = if why.trim().is_empty() { format!("the helper ended: {status}") } else { why };
            return Ok(Removal::Stuck(why.trim().to_owned()));
        }
    }
    match unlinkat(parent, name, UnlinkatFlags::RemoveDir) {
        // The owner has created something new since.
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(Removal::Partial),
        removed => Ok(removed.map(|()| Removal::Complete)?),
    }
}

/// Waits for a helper; `None` if it took too long and was killed. Not waited for after the kill: it may hang in the kernel.
fn wait(helper: &mut std::process::Child) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + TIMEOUT;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = helper.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            helper.kill()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// The main function of the helper process.
pub fn remover_main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut id = || arguments.next().and_then(|text| text.parse::<u32>().ok());
    let (Some(uid), Some(gid)) = (id(), id()) else { return ExitCode::from(2) };
    let emptied = become_owner(uid, gid).and_then(|()| empty(io::stdin().as_fd(), ENTRY_BUDGET));
    match emptied {
        Ok(EmptyOutcome::Complete) => ExitCode::SUCCESS,
        Ok(EmptyOutcome::OutOfBudget) => ExitCode::from(EXIT_PARTIAL),
        Ok(EmptyOutcome::Undeletable(entries, errno)) => {
            eprintln!("{entries} entries cannot be removed by their owner: {}", errno.desc());
            ExitCode::from(EXIT_STUCK)
        }
        Err(e) => {
            eprintln!("cannot be emptied: {e}");
            ExitCode::from(EXIT_STUCK)
        }
    }
}

/// Becomes the owner for good: all ids, no supplementary groups and, as a consequence, no capabilities. A process that is
/// not root changes nothing, since everything it removes is its own.
fn become_owner(uid: u32, gid: u32) -> io::Result<()> {
    if geteuid().is_root() {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setgroups(&[])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    if geteuid().as_raw() != uid {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    prctl::set_no_new_privs()?;
    // Dies with the server: the next one starts a helper of its own.
    prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    Ok(())
}

/// Outcome of emptying a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyOutcome {
    Complete,
    OutOfBudget,
    /// The number of entries that cannot be removed, and the first error.
    Undeletable(u64, Errno),
}

/// Empties a directory, handling at most `budget` entries.
pub(crate) fn empty(root: BorrowedFd<'_>, budget: u64) -> io::Result<EmptyOutcome> {
    let mut work = Emptier { root, budget, names: 0 };
    let _owned_by_another = fchmod(root, Mode::S_IRWXU);
    loop {
        // Listed again each time, because sub-directories were moved into the root meanwhile.
        let (mut removed, mut left, mut why) = (false, 0, None);
        for entry in work.list(root)?.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            if work.spend() {
                return Ok(EmptyOutcome::OutOfBudget);
            }
            match work.remove(name) {
                Ok(()) => removed = true,
                Err(errno) => {
                    left += 1;
                    why.get_or_insert(errno);
                }
            }
        }
        match why {
            None if left == 0 && !removed => return Ok(EmptyOutcome::Complete),
            Some(errno) if !removed => return Ok(EmptyOutcome::Undeletable(left, errno)),
            _ => {}
        }
    }
}

/// The state of emptying one directory.
struct Emptier<'a> {
    root: BorrowedFd<'a>,
    budget: u64,
    /// Counter for the names of sub-directories moved into the root.
    names: u64,
}

impl Emptier<'_> {
    fn list(&self, dir: BorrowedFd<'_>) -> io::Result<Dir> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Dir::openat(dir, c".", flags, Mode::empty())?)
    }

    /// Takes one entry off the budget; `true` if it was used up.
    fn spend(&mut self) -> bool {
        let spent = self.budget == 0;
        self.budget = self.budget.saturating_sub(1);
        spent
    }

    /// Removes an entry of the root, or as much of it as possible. `Ok` if anything was removed or moved.
    fn remove(&mut self, name: &CStr) -> Result<(), Errno> {
        let left = match unlink(self.root, name) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => self.flatten(name)?,
            other => return other,
        };
        match unlinkat(self.root, name, UnlinkatFlags::RemoveDir) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => left,
            other => other,
        }
    }

    /// Empties a sub-directory of the root by removing its files and moving its own sub-directories up into the root. The
    /// inner result is `Ok` if anything was removed or moved, else the last error.
    fn flatten(&mut self, name: &CStr) -> Result<Result<(), Errno>, Errno> {
        let sub = self.enter(name)?;
        let mut done = Err(Errno::ENOTEMPTY);
        let list = self.list(sub.as_fd()).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)));
        for entry in list?.iter() {
            let entry = entry?;
            let child = entry.file_name();
            if is_dots(child) {
                continue;
            }
            if self.spend() {
                // The rest is found by the next run.
                return Ok(Ok(()));
            }
            let moved = match unlink(sub.as_fd(), child) {
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => self.move_up(sub.as_fd(), child),
                other => other,
            };
            done = if moved.is_ok() { Ok(()) } else { done.or(moved) };
        }
        Ok(done)
    }

    /// Opens a sub-directory of the root: itself, neither the target of a link nor a mounted file system.
    fn enter(&self, name: &CStr) -> Result<File, Errno> {
        let enter = || {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let resolve = ResolveFlag::RESOLVE_NO_XDEV
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_BENEATH;
            openat2(self.root, name, OpenHow::new().flags(flags).resolve(resolve)).map(File::from)
        };
        let sub = match enter() {
            Err(Errno::EACCES) => {
                fchmodat(self.root, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
                enter()?
            }
            other => other?,
        };
        let _someone_elses = fchmod(&sub, Mode::S_IRWXU);
        Ok(sub)
    }

    /// Moves a directory into the root under a name that is free there.
    fn move_up(&mut self, from: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        let mut may_retry = true;
        loop {
            self.names += 1;
            let fresh = CString::new(format!(".warpyard-{}", self.names)).map_err(|_| Errno::EINVAL)?;
            match renameat2(from, name, self.root, fresh.as_c_str(), RenameFlags::RENAME_NOREPLACE) {
                Err(Errno::EEXIST) if !self.spend() => {}
                // Moving a directory to another parent rewrites its `..`, for which it must be writable.
                Err(Errno::EACCES) if may_retry => {
                    may_retry = false;
                    fchmodat(from, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
                }
                other => return other,
            }
        }
    }
}

/// Removes a file or an empty directory.
fn unlink(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR | Errno::EPERM) => unlinkat(dir, name, UnlinkatFlags::RemoveDir),
        // Already gone.
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Removes a directory that contains only files of ours: no other user can create anything in it.
pub(crate) fn remove_flat(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::open;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A chain of directories deeper than any path may be long.
    fn deep(at: &Path, depth: usize) {
        let mut dir = open(at, OFlag::O_DIRECTORY | OFlag::O_RDONLY, Mode::empty()).expect("it is there");
        for _ in 0..depth {
            nix::sys::stat::mkdirat(&dir, c"d", Mode::S_IRWXU).expect("made");
            dir = nix::fcntl::openat(&dir, c"d", OFlag::O_DIRECTORY, Mode::empty()).expect("entered");
        }
    }

    #[test]
    fn whatever_a_tree_is_like_all_of_it_goes_and_nothing_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, beside) = (dir.path().join("root"), dir.path().join("beside"));
        fs::create_dir_all(root.join("a/b/c")).expect("made");
        fs::create_dir_all(root.join("wide")).expect("made");
        fs::create_dir(&beside).expect("made");
        fs::write(beside.join("kept"), "").expect("written");
        for n in 0..500 {
            fs::create_dir_all(root.join(format!("wide/{n}/x"))).expect("made");
            fs::write(root.join(format!("wide/{n}/x/file")), "").expect("written");
        }
        symlink(&beside, root.join("a/link")).expect("a link");
        fs::create_dir(root.join(".warpyard-1")).expect("a name that is in the way");
        deep(&root, 5000);
        fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o000)).expect("closed");
        let opened = File::open(&root).expect("it is there");
        assert_eq!(empty(opened.as_fd(), 100).expect("a try"), EmptyOutcome::OutOfBudget);
        assert_eq!(empty(opened.as_fd(), u64::MAX).expect("all"), EmptyOutcome::Complete);
        fs::remove_dir(&root).expect("it is empty");
        assert!(beside.join("kept").exists());
    }
}
