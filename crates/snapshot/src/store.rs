//! Where one person's snapshots are: contents by hash, manifests by theirs. What is there is whole: files are written
//! beside their place and moved into it.

use crate::manifest::{Hash, Manifest};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// One person's snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Why something cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk.
    #[error("cannot use {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What arrives is not what was announced.
    #[error("what arrived is not what was announced: {0}")]
    Arrived(&'static str),
    /// There is no such snapshot, or not all of it.
    #[error("there is no snapshot {0} here, or not all of it arrived")]
    Unknown(String),
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Store {
    /// The snapshots of one person, among those of everyone kept at `root`.
    pub fn of(root: &Path, person: &str) -> Store {
        // Names of people need not be names of files.
        Store { dir: root.join(&Hash::of(person.as_bytes()).as_str()[..32]) }
    }

    /// Keeps a manifest, and says which contents are not there yet. One that declares other lengths than the contents
    /// have that are there is refused.
    pub fn announce(&self, manifest: &Manifest) -> Result<Vec<Hash>, StoreError> {
        self.check_lengths(manifest)?;
        self.place(&self.manifest_path(&manifest.id()), |file| file.write_all(&manifest.to_json()))?;
        Ok(self.missing(manifest))
    }

    /// Contents that are not there.
    pub fn missing(&self, manifest: &Manifest) -> Vec<Hash> {
        let absent = |(hash, _): &(&Hash, u64)| !self.content_path(hash).exists();
        manifest.distinct().into_iter().filter(absent).map(|(hash, _)| hash.clone()).collect()
    }

    /// Checks that contents that are there are as long as the manifest declares: what a snapshot holds is known from its
    /// manifest, before it is unpacked.
    fn check_lengths(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let lies = |(hash, size): &(&Hash, u64)| {
            fs::metadata(self.content_path(hash)).is_ok_and(|found| found.len() != *size)
        };
        match manifest.distinct().iter().any(lies) {
            true => Err(StoreError::Arrived("a file is declared to have another length than its content")),
            false => Ok(()),
        }
    }

    /// Takes in contents of a manifest, as [`crate::Packed::send`] writes them.
    pub fn receive(&self, manifest: &Manifest, mut from: impl Read) -> Result<(), StoreError> {
        let known = manifest.distinct();
        loop {
            let mut head = [0; 72];
            match read_whole(&mut from, &mut head).map_err(|_| StoreError::Arrived("it broke off"))? {
                0 => return Ok(()),
                72 => {}
                _ => return Err(StoreError::Arrived("it broke off")),
            }
            let digits = String::from_utf8_lossy(&head[..64]).into_owned();
            let hash = Hash::try_from(digits).map_err(|_| StoreError::Arrived("a hash is none"))?;
            let size = u64::from_le_bytes(head[64..].try_into().expect("eight bytes"));
            if !known.contains(&(&hash, size)) {
                return Err(StoreError::Arrived("it has content the manifest does not name"));
            }
            let mut arrived = Err(StoreError::Arrived("content has another hash"));
            self.place(&self.content_path(&hash), |file| {
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

    /// A snapshot all of which is there.
    pub fn manifest(&self, id: &Hash) -> Result<Manifest, StoreError> {
        let unknown = || StoreError::Unknown(id.to_string());
        let manifest = self.announced(id)?;
        self.check_lengths(&manifest)?;
        if self.missing(&manifest).is_empty() { Ok(manifest) } else { Err(unknown()) }
    }

    /// A manifest that was announced, whether or not its contents have come.
    pub fn announced(&self, id: &Hash) -> Result<Manifest, StoreError> {
        let unknown = || StoreError::Unknown(id.to_string());
        let text = fs::read(self.manifest_path(id)).map_err(|_| unknown())?;
        serde_json::from_slice(&text).map_err(|_| unknown())
    }

    /// How many snapshots are kept, and the bytes of their contents, each counted once.
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

    /// Where a content is.
    pub(crate) fn content_path(&self, hash: &Hash) -> PathBuf {
        let (first, rest) = hash.as_str().split_at(2);
        self.dir.join("contents").join(first).join(rest)
    }

    fn manifest_path(&self, id: &Hash) -> PathBuf {
        self.dir.join("manifests").join(id.as_str())
    }

    /// Writes a file beside its place and moves it there.
    fn place(&self, path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { path: path.to_owned(), source };
        let parent = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = self.dir.join(format!(".new-{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
        let written = file.and_then(|mut file| write(&mut file)).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _not_there = fs::remove_file(&beside);
        }
        written.map_err(failed)
    }

    /// Removes snapshots nobody needs, unless they came after `young`, and contents that are then in none. Returns how
    /// many snapshots went.
    pub fn prune(root: &Path, needed: &BTreeSet<String>, young: SystemTime) -> io::Result<usize> {
        let (mut gone, mut failed) = (0, None);
        for person in list(root)? {
            // One that cannot be tidied must not keep the others from it.
            match (Store { dir: person }).prune_one(needed, young) {
                Ok(snapshots) => gone += snapshots,
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        failed.map_or(Ok(gone), Err)
    }

    fn prune_one(&self, needed: &BTreeSet<String>, young: SystemTime) -> io::Result<usize> {
        let mut gone = 0;
        let mut kept = BTreeSet::new();
        for path in list(&self.dir.join("manifests"))? {
            let id = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if needed.contains(&id) || is_young(&path, young) {
                let manifest = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
                let manifest: Manifest = manifest.unwrap_or_default();
                kept.extend(manifest.distinct().into_iter().map(|(hash, _)| hash.clone()));
            } else {
                fs::remove_file(&path)?;
                gone += 1;
            }
        }
        for first in list(&self.dir.join("contents"))? {
            for path in list(&first)? {
                let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
                let hash = format!("{}{}", name(&first).unwrap_or_default(), name(&path).unwrap_or_default());
                let named = Hash::try_from(hash).is_ok_and(|hash| kept.contains(&hash));
                if !named && !is_young(&path, young) {
                    fs::remove_file(&path)?;
                }
            }
        }
        // What a server left that was killed while it took something in.
        for path in list(&self.dir)?.into_iter().filter(|path| !path.is_dir() && !is_young(path, young)) {
            fs::remove_file(&path)?;
        }
        Ok(gone)
    }
}

fn is_young(path: &Path, since: SystemTime) -> bool {
    let made = fs::metadata(path).and_then(|meta| meta.modified());
    made.is_ok_and(|made| made >= since)
}

fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Reads until the buffer is full or nothing more comes.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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
