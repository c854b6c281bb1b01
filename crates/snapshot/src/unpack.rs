//! Unpacking a snapshot. Until it is complete, only the unpacking process can enter the directory, so no other user
//! can place a link in it; then it is renamed into place and given to its owner. The process may be killed at any
//! moment.

use crate::manifest::{Entry, Hash, ManifestError};
use crate::store::{Store, StoreError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// Owner of an unpacked directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Reason a snapshot cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Missing from the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Invalid manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Larger than allowed.
    #[error("it holds {holds} bytes, more than the {most} it was submitted with")]
    TooLarge {
        /// Declared size in bytes.
        holds: u64,
        /// Largest allowed size.
        most: u64,
    },
    /// Error of the file system.
    #[error("cannot make {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Unpacks a snapshot of at most `most` bytes into a directory, unless that exists. Safe to call concurrently.
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
        .and_then(|()| ensure_private(parent))
        .map_err(failed(parent))?;
    let lock_path = into.with_extension("lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock_path);
    let lock = lock.map_err(failed(&lock_path))?;
    lock.lock().map_err(failed(&lock_path))?;
    let chown = |path: &Path| match owner {
        Some(Owner { uid, gid }) => lchown(path, Some(uid), Some(gid)).map_err(failed(path)),
        None => Ok(()),
    };
    if fs::symlink_metadata(into).is_ok() {
        // Complete, because it was renamed there; the process that did so may have died before the chown.
        return chown(into);
    }
    let manifest = store.manifest(id)?;
    manifest.check()?;
    if manifest.bytes() > most {
        return Err(UnpackError::TooLarge { holds: manifest.bytes(), most });
    }
    let temp = into.with_extension("new");
    if temp.exists() {
        // A leftover of a killed process. Only we could enter it, so its contents can be trusted and removed.
        ensure_private(&temp).and_then(|()| fs::remove_dir_all(&temp)).map_err(failed(&temp))?;
    }
    DirBuilder::new().mode(0o700).create(&temp).map_err(failed(&temp))?;
    for (name, entry) in &manifest.entries {
        let path = temp.join(name);
        create_entry(store, entry, &path).map_err(failed(&path))?;
        chown(&path)?;
    }
    // Directories that may not be written are closed once all is in them.
    for (name, entry) in manifest.entries.iter().rev() {
        if let Entry::Dir { mode } = entry {
            let path = temp.join(name);
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o777)).map_err(failed(&path))?;
        }
    }
    fs::rename(&temp, into).map_err(failed(into))?;
    // Last, so that no other user could enter it under its temporary name.
    chown(into)
}

/// Rejects a directory that others may modify: they could replace what is created there before it is complete.
fn ensure_private(dir: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(dir)?;
    let owned = found.uid() == fs::symlink_metadata("/proc/self")?.uid();
    match found.is_dir() && owned && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may change it; remove it")),
    }
}

fn create_entry(store: &Store, entry: &Entry, path: &Path) -> io::Result<()> {
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
