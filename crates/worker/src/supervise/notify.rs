//! Notifications from supervisors to their worker: a datagram with the key of an attempt whose records changed.

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

/// How long a supervisor waits for a worker that does not read. The kernel queues as few as ten datagrams.
const PATIENCE: Duration = Duration::from_secs(2);

/// The worker's socket for notifications.
#[derive(Debug)]
pub struct NotifyListener {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifyListener {
    /// Listens at `path`, replacing an earlier listener. A socket path has at most 107 bytes.
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

    /// Waits for the next notification and returns its key.
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

/// The sending side, created once by the spawner and inherited by all supervisors it forks.
#[derive(Debug)]
pub(super) struct Notifier(UnixDatagram);

impl Notifier {
    pub(super) fn new() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Notifies the listener at `path` without blocking; `false` if its queue is full. A missing listener is no failure.
    pub(super) fn try_notify(&self, path: Option<&Path>, key: &str) -> bool {
        let Some(address) = path.and_then(|path| UnixAddr::new(path).ok()) else { return true };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendto(self.0.as_raw_fd(), key.as_bytes(), &address, flags) != Err(Errno::EAGAIN)
    }

    /// Notifies the listener at `path`, waiting a little for room in its queue.
    pub(super) fn notify(&self, path: Option<&Path>, key: &str) {
        if let Some(path) = path {
            let _nobody_listening = self.0.send_to(key.as_bytes(), path);
        }
    }
}
