//! The socket through which people of a shared machine come in. Anyone may connect; the kernel says who they are.

use crate::http::App;
use crate::serve::serve;
use crate::up::UpError;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::runtime::{Handle, Runtime};

/// A socket that listens; its file goes with it.
pub(crate) struct Door {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Door {
    /// Makes the socket, in place of one a server that was killed left behind.
    pub(crate) fn open(path: &Path, runtime: &Handle) -> Result<Door, UpError> {
        let failed = |source| UpError::Listen { address: path.display().to_string(), source };
        let _in_runtime = runtime.enter();
        let listener = bind(path).map_err(failed)?;
        Ok(Door { path: path.to_owned(), listener: Some(listener) })
    }

    /// Answers for as long as the server lives.
    pub(crate) fn serve(mut self, app: Arc<App>, runtime: &Runtime) -> Door {
        if let Some(listener) = self.listener.take() {
            runtime.spawn(serve(listener, app));
        }
        self
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _gone_already = fs::remove_file(&self.path);
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}
