//! Unix sockets, on which the kernel names the peer: one in the data directory, for its owner, and one for all users where
//! the machine is shared. Their files have the modes given here whatever the umask is.

use crate::serve::{BACKLOG, Limits, serve};
use axum::Router;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixSocket};
use tokio::runtime::Handle;
use warpyard_api::client::SOCKET_FILE;

/// A socket that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {}", path.display())]
pub struct BindError {
    path: PathBuf,
    source: io::Error,
}

/// A listening Unix socket; that of a shared machine removes its file when dropped.
pub(crate) struct SocketListener {
    path: PathBuf,
    /// Whether the file is removed with the listener. In the data directory it stays: a client that waits for the end of the
    /// server connects to it until then, and the next server replaces it.
    goes: bool,
    listener: Option<UnixListener>,
}

impl SocketListener {
    /// Listens on the socket for all users, replacing the file of a server that was killed.
    pub(crate) fn open(path: &Path, runtime: &Handle) -> Result<SocketListener, BindError> {
        let failed = |source| BindError { path: path.to_owned(), source };
        let _in_runtime = runtime.enter();
        let listener = bind_for_everyone(path).map_err(failed)?;
        Ok(SocketListener { path: path.to_owned(), goes: true, listener: Some(listener) })
    }

    /// Listens on the socket of a data directory that this process holds.
    pub(crate) fn of_data(data: &Path, runtime: &Handle) -> Result<SocketListener, BindError> {
        let path = data.join(SOCKET_FILE);
        let failed = |source| BindError { path: path.to_owned(), source };
        let _in_runtime = runtime.enter();
        let listener = bind_for_owner(data).map_err(failed)?;
        Ok(SocketListener { path, goes: false, listener: Some(listener) })
    }

    /// Serves connections for as long as the server lives.
    pub(crate) fn serve(mut self, router: Router, limits: Limits, runtime: &Handle) -> SocketListener {
        if let Some(listener) = self.listener.take() {
            runtime.spawn(serve(listener, None, router, limits));
        }
        self
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if self.goes {
            let _gone_already = fs::remove_file(&self.path);
        }
    }
}

fn bind_for_everyone(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
        must_be_ours(dir)?;
    }
    if is_socket(path) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        fs::remove_file(path)?;
    }
    let listener = listen(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Makes a directory that everyone may enter and nobody else may write to. One that is there keeps its mode.
fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_dir(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o755)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

/// Where others can write they could put a socket of their own in this one's place.
fn must_be_ours(dir: &Path) -> io::Result<()> {
    let found = fs::metadata(dir)?;
    let writable = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
    if found.uid() != 0 || writable {
        let what = format!(
            "{} must be root's, and nobody else's to write to: run `chown root {0}` and `chmod go-w {0}`",
            dir.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(())
}

/// Binds in a directory that is held by this process, through its descriptor: the address of a socket has room for 107
/// bytes of path only.
fn bind_for_owner(data: &Path) -> io::Result<UnixListener> {
    let path = data.join(SOCKET_FILE);
    if is_socket(&path) {
        fs::remove_file(&path)?;
    }
    let dir = File::open(data)?;
    let listener = listen(Path::new(&format!("/proc/self/fd/{}/{SOCKET_FILE}", dir.as_raw_fd())))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}
