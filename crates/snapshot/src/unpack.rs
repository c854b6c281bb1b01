//! Putting a snapshot back. Until it is whole nobody but whoever unpacks can enter the place, so nobody can slip a link
//! into it; then it is moved where it belongs and given to its owner. Whoever unpacks may be killed at any moment.

use crate::manifest::{Entry, Hash, NotAManifest};
use crate::store::{Store, StoreError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// Whose an unpacked directory is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Why a snapshot cannot be put back.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is not there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not one that could be used.
    #[error(transparent)]
    Manifest(#[from] NotAManifest),
    /// It holds more than it may.
    #[error("it holds {holds} bytes, more than the {most} it was submitted with")]
    TooLarge {
        /// How many bytes it declares.
        holds: u64,
        /// How many it may.
        most: u64,
    },
    /// The disk.
    #[error("cannot make {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes a directory that holds a snapshot of `most` bytes at most, if there is none of that name. Several may try at once.
pub fn unpack(
    store: &Store,
    id: &Hash,
    into: &Path,
    owner: Option<Owner>,
    most: u64,
) -> Result<(), UnpackError> {
    let parent = into.parent().unwrap_or(into);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| UnpackError::Io { path, source }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(parent)
        .and_then(|()| must_be_ours(parent))
        .map_err(failed(parent))?;
    let lock_path = into.with_extension("lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock_path);
    let lock = lock.map_err(failed(&lock_path))?;
    lock.lock().map_err(failed(&lock_path))?;
    let give = |path: &Path| match owner {
        Some(Owner { uid, gid }) => lchown(path, Some(uid), Some(gid)).map_err(failed(path)),
        None => Ok(()),
    };
    if fs::symlink_metadata(into).is_ok() {
        // Whole, for it was moved there; whoever moved it may have died before giving it away.
        return give(into);
    }
    let manifest = store.manifest(id)?;
    manifest.check()?;
    if manifest.bytes() > most {
        return Err(UnpackError::TooLarge { holds: manifest.bytes(), most });
    }
    let beside = into.with_extension("new");
    if beside.exists() {
        // Whoever made it died on the way. Nobody else could enter it, so what is in it is what was put there.
        must_be_ours(&beside).and_then(|()| fs::remove_dir_all(&beside)).map_err(failed(&beside))?;
    }
    DirBuilder::new().mode(0o700).create(&beside).map_err(failed(&beside))?;
    for (name, entry) in &manifest.entries {
        let path = beside.join(name);
        put(store, entry, &path).map_err(failed(&path))?;
        give(&path)?;
    }
    // Directories that may not be written are closed once all is in them.
    for (name, entry) in manifest.entries.iter().rev() {
        if let Entry::Dir { mode } = entry {
            let path = beside.join(name);
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o777)).map_err(failed(&path))?;
        }
    }
    fs::rename(&beside, into).map_err(failed(into))?;
    // Last, so that nobody but us could ever enter it under the other name.
    give(into)
}

/// In a directory that others may change, what is made can become something else before it is done.
fn must_be_ours(dir: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(dir)?;
    let owned = found.uid() == fs::symlink_metadata("/proc/self")?.uid();
    match found.is_dir() && owned && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may change it; remove it")),
    }
}

fn put(store: &Store, entry: &Entry, path: &Path) -> io::Result<()> {
    match entry {
        Entry::Dir { .. } => DirBuilder::new().mode(0o700).create(path),
        Entry::Link { target } => symlink(target, path),
        Entry::File { mode, hash, size } => {
            // One byte more than declared would be seen, and no more than that is copied.
            let mut from = File::open(store.content_path(hash))?.take(size.saturating_add(1));
            let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            if io::copy(&mut from, &mut to)? != *size {
                let why = format!("its content is not of the {size} bytes it declares");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            to.set_permissions(Permissions::from_mode(mode & 0o777))
        }
    }
}
