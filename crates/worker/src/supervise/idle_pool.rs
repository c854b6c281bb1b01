//! The pool of idle supervisors: those that have finished an attempt and wait a moment for another, because forking a
//! supervisor costs more than everything else it does for an empty task.

use std::{
    io::{self, BufReader, IoSlice, IoSliceMut},
    net::Shutdown,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use nix::{
    cmsg_space,
    sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
        socketpair,
    },
};

use super::launch::{read_frame, write_frame};

/// How long an idle supervisor waits for a launch.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Larger launches go to a new supervisor: this much fits into a socket's buffer, so that dispatching never blocks.
const MAX_FRAME: usize = 64 << 10;

/// Creates the two sides of the pool: the spawner's, and the one its supervisors share.
pub(super) fn pair() -> io::Result<(IdlePool, IdleSlot)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    Ok((IdlePool(ours), IdleSlot { pool: theirs, socket: None }))
}

/// The spawner's side. An idle supervisor has sent one end of a socket of its own to it.
#[derive(Debug)]
pub(super) struct IdlePool(OwnedFd);

impl IdlePool {
    /// Sends a launch to an idle supervisor; `false` if there is none.
    pub(super) fn dispatch(&self, frame: &[u8]) -> bool {
        if frame.len() > MAX_FRAME {
            return false;
        }
        while let Some(socket) = self.next() {
            // A supervisor that has exited meanwhile has closed the other end, and the write fails.
            if write_frame(&socket, frame).is_ok() {
                return true;
            }
        }
        false
    }

    fn next(&self) -> Option<UnixStream> {
        let mut byte = [0];
        let mut control = cmsg_space!([std::os::fd::RawFd; 1]);
        let mut data = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut data, Some(&mut control), flags).ok()?;
        message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::ScmRights(fds) => fds.first().map(|&fd| own(fd)),
            _ => None,
        })
    }
}

#[expect(unsafe_code, reason = "a descriptor that came in a message has no owner yet")]
fn own(fd: i32) -> UnixStream {
    // SAFETY: the kernel made it for this process when the message was received, and nothing else has seen it.
    unsafe { UnixStream::from_raw_fd(fd) }
}

/// A supervisor's side of the pool.
#[derive(Debug)]
pub(super) struct IdleSlot {
    pool: OwnedFd,
    socket: Option<LaunchSocket>,
}

/// A socket pair, one end of which is sent to the spawner each time the supervisor is idle.
#[derive(Debug)]
struct LaunchSocket {
    ours: UnixStream,
    lent: UnixStream,
}

impl IdleSlot {
    /// Offers this supervisor and waits for a launch; `None` when none came in time.
    pub(super) fn wait(&mut self) -> Option<Vec<u8>> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(LaunchSocket::new().ok()?),
        };
        let fds = [socket.lent.as_raw_fd()];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let offer = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(self.pool.as_raw_fd(), &[IoSlice::new(b"+")], &offer, flags, None).ok()?;
        // At most one frame arrives, so nothing is lost with the buffer.
        let mut stream = BufReader::new(&socket.ours);
        read_frame(&mut stream)
            .or_else(|_| {
                // After the shutdown nothing more can arrive, but a frame may have arrived just before it.
                socket.ours.shutdown(Shutdown::Read)?;
                read_frame(&mut stream)
            })
            .ok()
            .flatten()
    }
}

impl LaunchSocket {
    fn new() -> io::Result<Self> {
        let (ours, lent) = UnixStream::pair()?;
        ours.set_read_timeout(Some(IDLE_TIMEOUT))?;
        Ok(Self { ours, lent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_goes_to_who_sits_and_to_nobody_else() {
        let (pool, mut slot) = pair().unwrap();
        assert!(!pool.dispatch(b"nobody is there yet"));
        let sitting = std::thread::spawn(move || [slot.wait(), slot.wait(), slot.wait()]);
        for launch in [b"first", b"other"] {
            while !pool.dispatch(launch) {
                std::thread::yield_now();
            }
        }
        assert!(!pool.dispatch(&vec![b'x'; MAX_FRAME + 1]));
        let waited = sitting.join().unwrap();
        assert_eq!(waited, [Some(b"first".to_vec()), Some(b"other".to_vec()), None]);
        // Its offer is still there, but it has left.
        assert!(!pool.dispatch(b"too late"));
    }
}
