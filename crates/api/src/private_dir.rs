//! Validation of data directories. A directory that another user owns, can write to or can replace is not used: its owner
//! could choose the server that clients connect to, or read its token.

use nix::unistd::{Group, Uid, User, geteuid};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The most symbolic links on a path, as in the kernel.
const MOST_LINKS: u32 = 40;

const STICKY: u32 = 0o1000;

/// Why a data directory is not private.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// It belongs to another user.
    #[error(
        "{} belongs to {}, and a data directory must be your own; choose another with --data or WARPYARD_DATA, or run this as {}",
        path.display(), describe_user(*owner), describe_user(*owner)
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Other users can write to it.
    #[error(
        "{} can be written to by other users (mode {mode:o}), who could put a server of their own there; run `chmod go-w {}`",
        path.display(), path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user can replace it, because a directory or link on the way to it is theirs.
    #[error(
        "{} is on the way to the data directory {} and belongs to {}, who could put another directory in its place; choose \
         another data directory with --data or WARPYARD_DATA",
        path.display(), data.display(), describe_user(*owner)
    )]
    ForeignParent {
        /// The directory or link.
        path: PathBuf,
        /// The data directory.
        data: PathBuf,
        /// The owner of the directory or link.
        owner: u32,
    },
    /// Other users can replace it, because they can write to a directory on the way to it.
    #[error(
        "{} is on the way to the data directory {} and can be written to by other users (mode {mode:o}), who could put \
         another directory in its place; run `chmod go-w {}`, or choose another data directory with --data or WARPYARD_DATA",
        path.display(), data.display(), path.display()
    )]
    WritableParent {
        /// The directory.
        path: PathBuf,
        /// The data directory.
        data: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be looked at.
    #[error("cannot examine {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Permitted owner of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedOwner {
    /// The user of this process, as a server requires.
    Own,
    /// The user of this process or root, as a client accepts.
    OwnOrRoot,
}

/// Checks a data directory, as far as it exists: its owner and mode, and that nobody but that owner and root can put
/// another directory or link in its place.
pub fn check(data: &Path, owner: AllowedOwner) -> Result<(), PrivateDirError> {
    let data =
        std::path::absolute(data).map_err(|source| PrivateDirError::Io { path: data.to_owned(), source })?;
    let own = geteuid().as_raw();
    let trusted = |uid: u32| uid == own || uid == 0 || is_unmapped_root(uid);
    let mut links = 0;
    // Resolved by hand, because every directory and link on the way counts, and not only those of the resolved path.
    let mut ahead: VecDeque<OsString> = names(&data).collect();
    let mut at = PathBuf::from("/");
    loop {
        let here = look(&at)?;
        let mode = here.mode() & 0o7777;
        if ahead.is_empty() {
            let may_own = here.uid() == own || owner == AllowedOwner::OwnOrRoot && here.uid() == 0;
            return match () {
                () if !may_own => Err(PrivateDirError::Foreign { path: at, owner: here.uid() }),
                () if mode & 0o022 != 0 => Err(PrivateDirError::Writable { path: at, mode }),
                () => Ok(()),
            };
        }
        if !trusted(here.uid()) {
            return Err(PrivateDirError::ForeignParent { path: at, data, owner: here.uid() });
        }
        let others_write = mode & 0o002 != 0 || mode & 0o020 != 0 && !is_private_group(&here);
        if others_write && mode & STICKY == 0 {
            return Err(PrivateDirError::WritableParent { path: at, data, mode });
        }
        let Some(name) = ahead.pop_front() else { return Ok(()) };
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        match fs::symlink_metadata(&next) {
            // The server creates what does not exist, accessible to its user alone.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(PrivateDirError::Io { path: next, source }),
            Ok(found) if found.is_symlink() => {
                if !trusted(found.uid()) {
                    return Err(PrivateDirError::ForeignParent { path: next, data, owner: found.uid() });
                }
                links += 1;
                let failed = |source| PrivateDirError::Io { path: next.clone(), source };
                if links > MOST_LINKS {
                    return Err(failed(io::Error::other("too many symbolic links")));
                }
                let target = fs::read_link(&next).map_err(failed)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(name);
                }
            }
            Ok(_) => at = next,
        }
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn look(path: &Path) -> Result<Metadata, PrivateDirError> {
    fs::symlink_metadata(path).map_err(|source| PrivateDirError::Io { path: path.to_owned(), source })
}

/// Whether the group of a directory has its owner as the only member, as on systems that give each user a group of
/// their own and a umask of 002.
fn is_private_group(dir: &Metadata) -> bool {
    let (Ok(Some(group)), Ok(Some(user))) =
        (Group::from_gid(dir.gid().into()), User::from_uid(Uid::from_raw(dir.uid())))
    else {
        return false;
    };
    group.name == user.name && user.gid == group.gid && group.mem.iter().all(|member| *member == user.name)
}

/// Whether a user id stands for one that this user namespace does not know, as root of the machine does in a container
/// without privileges: there, `/` belongs to it.
fn is_unmapped_root(uid: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let all_ids = |map: &str| {
        let numbers: Vec<&str> = map.split_ascii_whitespace().collect();
        numbers == ["0", "0", "4294967295"]
    };
    read("/proc/sys/kernel/overflowuid").trim().parse() == Ok(uid) && !all_ids(&read("/proc/self/uid_map"))
}

/// A user by name, or by uid where there is no such account.
pub fn describe_user(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("user {}", user.name),
        _ => format!("user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_a_directory_that_nobody_else_can_write_or_replace_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, data) = (dir.path().join("outer"), dir.path().join("outer/data"));
        fs::create_dir_all(&data).unwrap();
        mode(&outer, 0o755);
        mode(&data, 0o700);
        assert!(check(&data, AllowedOwner::Own).is_ok());
        assert!(check(&outer.join("not/there"), AllowedOwner::Own).is_ok());
        mode(&data, 0o770);
        assert!(matches!(check(&data, AllowedOwner::Own), Err(PrivateDirError::Writable { .. })));
        mode(&data, 0o755);
        assert!(check(&data, AllowedOwner::Own).is_ok(), "others may look; what is secret in it is closed");
        mode(&outer, 0o777);
        assert!(matches!(check(&data, AllowedOwner::Own), Err(PrivateDirError::WritableParent { .. })));
        mode(&outer, 0o1777);
        assert!(
            check(&data, AllowedOwner::Own).is_ok(),
            "what is in a sticky directory is replaced by its owner only"
        );
        let link = dir.path().join("link");
        symlink("outer/../outer/data", &link).unwrap();
        assert!(check(&link, AllowedOwner::Own).is_ok());
        mode(&outer, 0o777);
        assert!(
            matches!(check(&link, AllowedOwner::Own), Err(PrivateDirError::WritableParent { .. })),
            "links are followed"
        );
        symlink("round", dir.path().join("round")).unwrap();
        assert!(matches!(
            check(&dir.path().join("round"), AllowedOwner::Own),
            Err(PrivateDirError::Io { .. })
        ));
    }
}
