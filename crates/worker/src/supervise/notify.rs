//! The poke a supervisor gives its worker: a datagram that holds the key of an attempt whose records changed.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, UnixAddr, sendto},
};

/// How long a supervisor waits for a worker that does not read its pokes. The kernel queues as few as ten.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens for pokes at a path.
#[derive(Debug)]
pub struct NotifyListener {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifyListener {
    /// Listens at `path`, in place of whoever listened there before. A path for a socket has at most 107 bytes.
    pub fn bind(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        Ok(Self { socket: UnixDatagram::bind(&path)?, path })
    }

    /// Where it listens: the path for [`Launch::notify`](super::Launch::notify).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next poke and returns its key.
    pub fn recv(&self) -> io::Result<String> {
        let mut buffer = [0; 512];
        let length = self.socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// The plain socket, for an event loop to take over.
    pub fn into_std(self) -> UnixDatagram {
        self.socket
    }
}

impl AsFd for NotifyListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The sending side. Made once by the spawner and shared by all supervisors it forks.
#[derive(Debug)]
pub(super) struct Notifier(UnixDatagram);

impl Notifier {
    pub(super) fn new() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Pokes whoever listens at `path` without waiting; `false` if there is somebody whose queue is full.
    pub(super) fn try_notify(&self, path: Option<&Path>, key: &str) -> bool {
        let Some(address) = path.and_then(|path| UnixAddr::new(path).ok()) else { return true };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendto(self.0.as_raw_fd(), key.as_bytes(), &address, flags) != Err(Errno::EAGAIN)
    }

    /// Pokes whoever listens at `path`, waiting a little for room in the queue.
    pub(super) fn notify(&self, path: Option<&Path>, key: &str) {
        if let Some(path) = path {
            let _nobody_listening = self.0.send_to(key.as_bytes(), path);
        }
    }
}
