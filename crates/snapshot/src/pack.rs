//! Packing a directory: entries matched by `.gitignore` and `.warpyardignore` are left out, and so is `.git`.

use crate::manifest::{Entry, Hash, Manifest};
use ignore::WalkBuilder;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Ignore file, in the format of `.gitignore`.
pub const IGNORE_FILE: &str = ".warpyardignore";

/// Directory as it is now.
#[derive(Debug)]
pub struct PackedDir {
    root: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

/// Reason a directory cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Entry that cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Error of walking the directory.
    #[error("cannot look through the directory")]
    Walk(#[source] ignore::Error),
    /// Name that is not UTF-8.
    #[error("the name of {} is not text", .0.display())]
    NotText(PathBuf),
    /// It is too large.
    #[error(
        "{} holds more than {max_bytes} bytes: {} alone has {largest}; name what is not needed in {IGNORE_FILE}",
        root.display(), path.display()
    )]
    TooLarge {
        /// The directory.
        root: PathBuf,
        /// Largest allowed size.
        max_bytes: u64,
        /// The largest file met.
        path: PathBuf,
        /// Its length.
        largest: u64,
    },
    /// File that changed while it was read.
    #[error("{} changed while it was read", .0.display())]
    Changed(PathBuf),
}

impl PackedDir {
    /// Walks a directory and hashes its files, up to `max_bytes` in total.
    pub fn of(root: &Path, max_bytes: u64) -> Result<PackedDir, PackError> {
        let mut manifest = Manifest::default();
        let (mut total, mut largest) = (0u64, (0, PathBuf::new()));
        let mut walk = WalkBuilder::new(root);
        walk.hidden(false).git_global(false).require_git(false).add_custom_ignore_filename(IGNORE_FILE);
        walk.follow_links(false).sort_by_file_name(Ord::cmp);
        walk.filter_entry(|entry| entry.file_name() != ".git");
        for entry in walk.build() {
            let entry = match entry {
                // A directory that went away since it was listed; not the one that was asked for.
                Err(e) if is_gone(&e) && e.depth() != Some(0) => continue,
                entry => entry.map_err(PackError::Walk)?,
            };
            let path = entry.path();
            let inside = path.strip_prefix(root).unwrap_or(path);
            if inside.as_os_str().is_empty() {
                continue;
            }
            let failed = |source| PackError::Io { path: path.to_owned(), source };
            let Some(meta) = unless_gone(fs::symlink_metadata(path)).map_err(failed)? else { continue };
            let mode = meta.permissions().mode() & 0o777;
            let packed_entry = if meta.is_dir() {
                Entry::Dir { mode }
            } else if meta.is_symlink() {
                let Some(target) = unless_gone(fs::read_link(path)).map_err(failed)? else { continue };
                let target = target.into_os_string().into_string();
                Entry::Link { target: target.map_err(|_| PackError::NotText(path.to_owned()))? }
            } else if meta.is_file() {
                total = total.saturating_add(meta.len());
                largest = largest.max((meta.len(), inside.to_owned()));
                if total > max_bytes {
                    let (largest, path) = largest;
                    return Err(PackError::TooLarge { root: root.to_owned(), max_bytes, path, largest });
                }
                let Some(file) = unless_gone(File::open(path)).map_err(failed)? else { continue };
                let (size, hash) = copy_hashing(file, io::sink()).map_err(failed)?;
                Entry::File { mode, size, hash }
            } else {
                // Sockets, pipes and devices are not content.
                continue;
            };
            let name = inside.to_str().ok_or_else(|| PackError::NotText(path.to_owned()))?;
            manifest.entries.insert(name.to_owned(), packed_entry);
        }
        Ok(PackedDir { root: root.to_owned(), manifest })
    }

    /// Writes contents as [`crate::Store::receive`] reads them: hash, length, bytes, one after another.
    pub fn send(&self, wanted: &[Hash], mut to: impl Write) -> Result<(), PackError> {
        for hash in wanted {
            let found = self.manifest.entries.iter().find_map(|(name, entry)| match entry {
                Entry::File { hash: own, size, .. } if own == hash => Some((name, *size)),
                _ => None,
            });
            let Some((name, size)) = found else { continue };
            let path = self.root.join(name);
            let failed = |source| PackError::Io { path: path.clone(), source };
            to.write_all(hash.as_str().as_bytes()).map_err(failed)?;
            to.write_all(&size.to_le_bytes()).map_err(failed)?;
            let file = match File::open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(PackError::Changed(path)),
                opened => opened.map_err(failed)?,
            };
            let sent = copy_hashing(file.take(size), &mut to).map_err(failed)?;
            if sent != (size, hash.clone()) {
                return Err(PackError::Changed(path));
            }
        }
        Ok(())
    }
}

fn is_gone(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
}

/// `None` for an entry deleted since it was listed: it is not part of the directory as it is now.
fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Copies a content; returns its length and hash.
fn copy_hashing(mut from: impl Read, mut to: impl Write) -> io::Result<(u64, Hash)> {
    let (mut hasher, mut size) = (Sha256::new(), 0u64);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok((size, Hash::finish(hasher)));
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        size += n as u64;
    }
}
