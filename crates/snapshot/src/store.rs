//! Snapshot store of one user: contents and manifests by hash. Files are complete once visible: they are written to a
//! temporary name and renamed.

use crate::manifest::{Hash, Manifest};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Snapshot store of one user.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Reason a snapshot cannot be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Error of the file system.
    #[error("cannot use {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Received data that differs from what was announced.
    #[error("what arrived is not what was announced: {0}")]
    Mismatch(&'static str),
    /// Unknown or incomplete snapshot.
    #[error("there is no snapshot {0} here, or not all of it arrived")]
    Unknown(String),
}

static NEXT_TEMP: AtomicU64 = AtomicU64::new(0);

impl Store {
    /// Store of one user below `root`.
    pub fn of(root: &Path, person: &str) -> Store {
        // User names are not necessarily valid file names.
        Store { dir: root.join(&Hash::of(person.as_bytes()).as_str()[..32]) }
    }

    /// Stores a manifest and returns the contents that are missing. Rejects one that declares other lengths than
    /// present contents have.
    pub fn announce(&self, manifest: &Manifest) -> Result<Vec<Hash>, StoreError> {
        self.check_lengths(manifest)?;
        self.write_atomic(&self.manifest_path(&manifest.id()), |file| file.write_all(&manifest.to_json()))?;
        Ok(self.missing(manifest))
    }

    /// Contents that are not present.
    pub fn missing(&self, manifest: &Manifest) -> Vec<Hash> {
        let absent = |(hash, _): &(&Hash, u64)| !self.content_path(hash).exists();
        manifest.distinct().into_iter().filter(absent).map(|(hash, _)| hash.clone()).collect()
    }

    /// Verifies that present contents have the declared lengths, so that the size of a snapshot is known from its
    /// manifest before it is unpacked.
    fn check_lengths(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let differs = |(hash, size): &(&Hash, u64)| {
            fs::metadata(self.content_path(hash)).is_ok_and(|found| found.len() != *size)
        };
        match manifest.distinct().iter().any(differs) {
            true => Err(StoreError::Mismatch("a file is declared to have another length than its content")),
            false => Ok(()),
        }
    }

    /// Receives contents of a manifest, as [`crate::PackedDir::send`] writes them.
    pub fn receive(&self, manifest: &Manifest, mut from: impl Read) -> Result<(), StoreError> {
        let known = manifest.distinct();
        loop {
            let mut head = [0; 72];
            match read_full(&mut from, &mut head).map_err(|_| StoreError::Mismatch("it broke off"))? {
                0 => return Ok(()),
                72 => {}
                _ => return Err(StoreError::Mismatch("it broke off")),
            }
            let digits = String::from_utf8_lossy(&head[..64]).into_owned();
            let hash = Hash::try_from(digits).map_err(|_| StoreError::Mismatch("a hash is none"))?;
            let size = u64::from_le_bytes(head[64..].try_into().expect("eight bytes"));
            if !known.contains(&(&hash, size)) {
                return Err(StoreError::Mismatch("it has content the manifest does not name"));
            }
            let mut arrived = Err(StoreError::Mismatch("content has another hash"));
            self.write_atomic(&self.content_path(&hash), |file| {
                let found = copy_hashed(&mut from, size, file)?;
                match found == hash {
                    true => arrived = Ok(()),
                    false => return Err(io::ErrorKind::InvalidData.into()),
                }
                Ok(())
            })
            .or_else(|e| if arrived.is_err() { Ok(()) } else { Err(e) })?;
            arrived?;
        }
    }

    /// Manifest of a complete snapshot.
    pub fn manifest(&self, id: &Hash) -> Result<Manifest, StoreError> {
        let unknown = || StoreError::Unknown(id.to_string());
        let manifest = self.announced(id)?;
        self.check_lengths(&manifest)?;
        if self.missing(&manifest).is_empty() { Ok(manifest) } else { Err(unknown()) }
    }

    /// Announced manifest, whether or not its contents have arrived.
    pub fn announced(&self, id: &Hash) -> Result<Manifest, StoreError> {
        let unknown = || StoreError::Unknown(id.to_string());
        let text = fs::read(self.manifest_path(id)).map_err(|_| unknown())?;
        serde_json::from_slice(&text).map_err(|_| unknown())
    }

    /// Number of snapshots, and the total length of distinct contents.
    pub fn usage(&self) -> io::Result<(u64, u64)> {
        let mut bytes = 0;
        for first in list(&self.dir.join("contents"))? {
            for content in list(&first)? {
                // One that goes while it is looked at takes nothing.
                bytes += fs::metadata(&content).map_or(0, |meta| meta.len());
            }
        }
        Ok((list(&self.dir.join("manifests"))?.len() as u64, bytes))
    }

    /// Path of a content.
    pub(crate) fn content_path(&self, hash: &Hash) -> PathBuf {
        let (first, rest) = hash.as_str().split_at(2);
        self.dir.join("contents").join(first).join(rest)
    }

    fn manifest_path(&self, id: &Hash) -> PathBuf {
        self.dir.join("manifests").join(id.as_str())
    }

    /// Writes a file under a temporary name and renames it.
    fn write_atomic(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { path: path.to_owned(), source };
        let parent = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        let number = NEXT_TEMP.fetch_add(1, Ordering::Relaxed);
        let temp = self.dir.join(format!(".new-{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp);
        let written = file.and_then(|mut file| write(&mut file)).and_then(|()| fs::rename(&temp, path));
        if written.is_err() {
            let _not_there = fs::remove_file(&temp);
        }
        written.map_err(failed)
    }

    /// Removes snapshots that are not needed, unless newer than `newer_than`, and contents that no snapshot refers to.
    /// Returns the number of removed snapshots.
    pub fn prune(root: &Path, needed: &BTreeSet<String>, newer_than: SystemTime) -> io::Result<usize> {
        let (mut removed, mut failed) = (0, None);
        for person in list(root)? {
            // A store that cannot be pruned must not keep the others from it.
            match (Store { dir: person }).prune_one(needed, newer_than) {
                Ok(snapshots) => removed += snapshots,
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or(Ok(removed), Err)
    }

    fn prune_one(&self, needed: &BTreeSet<String>, newer_than: SystemTime) -> io::Result<usize> {
        let mut removed = 0;
        let mut kept = BTreeSet::new();
        for path in list(&self.dir.join("manifests"))? {
            let id = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if needed.contains(&id) || is_newer(&path, newer_than) {
                let manifest = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
                let manifest: Manifest = manifest.unwrap_or_default();
                kept.extend(manifest.distinct().into_iter().map(|(hash, _)| hash.clone()));
            } else {
                fs::remove_file(&path)?;
                removed += 1;
            }
        }
        for first in list(&self.dir.join("contents"))? {
            for path in list(&first)? {
                let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
                let hash = format!("{}{}", name(&first).unwrap_or_default(), name(&path).unwrap_or_default());
                let named = Hash::try_from(hash).is_ok_and(|hash| kept.contains(&hash));
                if !named && !is_newer(&path, newer_than) {
                    fs::remove_file(&path)?;
                }
            }
        }
        // Temporary files of a server that was killed while receiving.
        for path in list(&self.dir)?.into_iter().filter(|path| !path.is_dir() && !is_newer(path, newer_than))
        {
            fs::remove_file(&path)?;
        }
        Ok(removed)
    }
}

fn is_newer(path: &Path, than: SystemTime) -> bool {
    let made = fs::metadata(path).and_then(|meta| meta.modified());
    made.is_ok_and(|made| made >= than)
}

fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Reads until the buffer is full or the input ends.
fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

fn copy_hashed(from: &mut impl Read, size: u64, to: &mut File) -> io::Result<Hash> {
    let (mut hasher, mut left) = (Sha256::new(), size);
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = from.read(&mut buffer[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        left -= n as u64;
    }
    Ok(Hash::finish(hasher))
}
