//! The data directory: everything a server keeps is in it, one server at a time uses it, and only its owner may read
//! it.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use warpyard_api::client::{ADDRESS_FILE, CA_FILE, TOKEN_FILE};
use warpyard_api::private_dir::{self, AllowedOwner, PrivateDirError};
use warpyard_api::token::Fingerprint;
use warpyard_worker::supervise::write_atomically;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another server uses it.
    #[error(
        "a warpyard server{} already uses {}; stop it with `warpyard down`, or choose another directory with --data",
        pid.as_deref().map(|p| format!(" (pid {p})")).unwrap_or_default(), path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other server's process.
        pid: Option<String>,
    },
    /// Others could read what people of a shared machine keep to themselves.
    #[error("{} is not root's alone, and a shared server keeps everyone's logs there; chown root and chmod 700 it", path.display())]
    NotClosed {
        /// The directory.
        path: PathBuf,
    },
    /// Another user could have prepared it.
    #[error(transparent)]
    NotPrivate(#[from] PrivateDirError),
    /// It cannot be read or written.
    #[error("cannot use the data directory {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A data directory, held while this lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Takes a directory for a server, making it if there is none.
    pub fn take(path: &Path) -> Result<DataDir, DataError> {
        let data = Self::lock(path)?;
        close(&data.path).map_err(|source| DataError::Io { path: data.path.clone(), source })?;
        Ok(data)
    }

    /// Takes a directory for this process, making it if there is none, and nothing in it.
    pub(crate) fn lock(path: &Path) -> Result<DataDir, DataError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| DataError::Io { path, source }
        };
        private_dir::check(path, AllowedOwner::Own)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))?;
        let path = path.canonicalize().map_err(failed(path))?;
        // Again, now that it is there: another may have been quicker to make it.
        private_dir::check(&path, AllowedOwner::Own)?;
        let lock_path = path.join("lock");
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path);
        let mut lock = open.map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let read = lock.read_to_string(&mut pid).is_ok();
                let pid = Some(pid.trim().to_owned()).filter(|p| read && !p.is_empty());
                return Err(DataError::InUse { path, pid });
            }
            Err(TryLockError::Error(source)) => return Err(DataError::Io { path: lock_path, source }),
        }
        let note = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        note.map_err(failed(&lock_path))?;
        Ok(DataDir { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that nobody but root can enter it.
    pub fn must_be_closed(&self) -> Result<(), DataError> {
        let path = self.path.clone();
        match fs::metadata(&path) {
            Ok(found) if found.uid() == 0 && found.mode() & 0o077 == 0 => Ok(()),
            Ok(_) => Err(DataError::NotClosed { path }),
            Err(source) => Err(DataError::Io { path, source }),
        }
    }

    /// The token that lets its owner in; made at the first start, readable by the owner alone.
    pub fn token(&self) -> Result<String, DataError> {
        let path = self.path.join(TOKEN_FILE);
        let failed = |source| DataError::Io { path: path.clone(), source };
        match fs::read_to_string(&path) {
            Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let mut random = [0u8; 32];
        File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random)).map_err(failed)?;
        let token: String = random.iter().map(|b| format!("{b:02x}")).collect();
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut f| writeln!(f, "{token}")).map_err(failed)?;
        Ok(token)
    }

    /// Leaves word of where the server listens and how its certificate is known, for the command line to find.
    pub fn announce(&self, url: &str, ca: Option<Fingerprint>) -> Result<(), DataError> {
        let path = self.path.join(CA_FILE);
        let known = match ca {
            Some(ca) => write_atomically(&path, format!("{ca}\n").as_bytes()),
            None => fs::remove_file(&path).or_else(|e| match e.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(e),
            }),
        };
        known.map_err(|source| DataError::Io { path, source })?;
        let path = self.path.join(ADDRESS_FILE);
        write_atomically(&path, format!("{url}\n").as_bytes())
            .map_err(|source| DataError::Io { path, source })
    }

    /// Takes that word back.
    pub fn withdraw(&self) {
        let _not_there = fs::remove_file(self.path.join(ADDRESS_FILE));
    }
}

/// What tasks were given and what they printed is closed to others even where the directory was made by hand and is not.
fn close(data: &Path) -> io::Result<()> {
    for name in ["log.db", "history.db"] {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(data.join(name))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let logs = data.join("logs");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&logs)?;
    fs::set_permissions(logs, Permissions::from_mode(0o700))
}
