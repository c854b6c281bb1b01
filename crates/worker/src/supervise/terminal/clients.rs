//! Clients attached to a terminal: frames received from each, frames queued for each, and the removal of clients that read
//! nothing. The listening socket and the terminal itself are elsewhere.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use crate::supervise::clock::Instant;
use nix::poll::{PollFd, PollFlags};
use warpyard_session::{ClientFrame, Frame, FrameDecoder, MAX_CLIENTS, SessionFrame};

/// Queue length of a client above which nothing more is read from the program.
const HIGH_WATER: usize = 256 << 10;
/// How long a client may read nothing before it is dropped.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long clients have to read the rest of the output in the end.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// All attached clients.
#[derive(Debug, Default)]
pub(super) struct Clients(Vec<Client>);

impl Clients {
    /// Accepts a client unless there are too many, which the server prevents with a message of its own.
    pub(super) fn accept(&mut self, stream: UnixStream) {
        if self.0.len() < MAX_CLIENTS {
            self.0.push(Client::new(stream));
        }
    }

    /// Whether every client's queue is below the high-water mark, so that more may be read from the program.
    pub(super) fn keep_up(&self) -> bool {
        self.0.iter().all(|client| client.outgoing.len() < HIGH_WATER)
    }

    /// Descriptors to poll, one per client.
    pub(super) fn poll_fds(&self, listen: bool) -> impl Iterator<Item = PollFd<'_>> {
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        self.0.iter().map(move |client| {
            let wanted =
                when(listen, PollFlags::POLLIN) | when(!client.outgoing.is_empty(), PollFlags::POLLOUT);
            PollFd::new(client.stream.as_fd(), wanted)
        })
    }

    /// Reads what each has sent, in the order of [`poll_fds`](Self::poll_fds). Returns frames with the index of their client.
    pub(super) fn read(&mut self, events: &[PollFlags], buffer: &mut [u8]) -> Vec<(usize, ClientFrame)> {
        for (client, event) in self.0.iter_mut().zip(events) {
            if event.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
                client.read(buffer);
            }
        }
        let mut asked = Vec::new();
        for (at, client) in self.0.iter_mut().enumerate() {
            while let Some(ask) = client.next() {
                asked.push((at, ask));
            }
        }
        asked
    }

    /// Marks a client as joined and queues the output it has missed.
    pub(super) fn join(&mut self, at: usize, from: u64, missed: Vec<u8>) {
        self.0[at].join(from, missed);
    }

    /// Queues a frame for every joined client.
    pub(super) fn broadcast(&mut self, say: &SessionFrame) {
        for client in self.0.iter_mut().filter(|client| client.joined) {
            say.put(&mut client.outgoing);
        }
    }

    /// Sends queued frames and drops clients that have left or stalled.
    pub(super) fn send(&mut self, now: Instant) {
        for client in &mut self.0 {
            client.write();
            client.stuck = match client.outgoing.len() {
                HIGH_WATER.. => client.stuck.or(Some(now)),
                _ => None,
            };
        }
        self.0.retain(|client| !client.gone && client.stuck.is_none_or(|since| now < since + STALL_TIMEOUT));
    }

    /// When the next stalled client is dropped.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().filter_map(|client| client.stuck.map(|since| since + STALL_TIMEOUT)).min()
    }

    /// Sends the end to every client.
    pub(super) fn close(mut self) {
        for client in &mut self.0 {
            SessionFrame::End.put(&mut client.outgoing);
            let _left = client.finish();
        }
    }
}

/// One attached client.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    arriving: FrameDecoder,
    outgoing: Vec<u8>,
    joined: bool,
    gone: bool,
    /// Since when its queue has been above the high-water mark.
    stuck: Option<Instant>,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        let (arriving, outgoing) = (FrameDecoder::default(), Vec::new());
        Self { stream, arriving, outgoing, joined: false, gone: false, stuck: None }
    }

    fn join(&mut self, from: u64, missed: Vec<u8>) {
        if !std::mem::replace(&mut self.joined, true) {
            SessionFrame::Offset(from).put(&mut self.outgoing);
            SessionFrame::Output(missed).put(&mut self.outgoing);
        }
    }

    fn read(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.gone = true,
            Ok(length) => self.arriving.push(&buffer[..length]),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(_) => self.gone = true,
        }
    }

    fn next(&mut self) -> Option<ClientFrame> {
        let asked = self.arriving.next_frame();
        self.gone |= asked.is_err();
        asked.ok().flatten()
    }

    fn write(&mut self) {
        let mut sent = 0;
        while sent < self.outgoing.len() && !self.gone {
            match self.stream.write(&self.outgoing[sent..]) {
                Ok(length) => sent += length,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        self.outgoing.drain(..sent);
    }

    /// Sends the rest of the queue, for a limited time.
    fn finish(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(DRAIN_TIMEOUT))?;
        self.stream.write_all(&self.outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Someone who has joined, and their own end.
    fn client(clients: &mut Clients) -> UnixStream {
        let (theirs, ours) = UnixStream::pair().expect("two ends");
        ours.set_nonblocking(true).expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        clients.accept(ours);
        clients.join(clients.0.len() - 1, 0, Vec::new());
        theirs
    }

    /// Takes all that has arrived.
    fn taken(stream: &mut UnixStream) -> usize {
        let (mut all, mut buffer) = (0, vec![0; 64 << 10]);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            all += length;
        }
        all
    }

    #[test]
    fn who_takes_nothing_is_waited_for_and_then_sent_away_and_others_have_everything() {
        let (mut clients, begin) = (Clients::default(), Instant::now());
        let (mut slow, mut quick) = (client(&mut clients), client(&mut clients));
        let (chunk, mut printed, mut got) = (vec![b'x'; 32 << 10], 0, 0);
        while clients.keep_up() {
            clients.broadcast(&SessionFrame::Output(chunk.clone()));
            clients.send(begin);
            (printed, got) = (printed + chunk.len(), got + taken(&mut quick));
            assert!(printed < 64 << 20, "too much is kept for whoever takes nothing");
        }
        assert!(got > printed, "each frame has a head of its own");
        assert_eq!(clients.next_due(), Some(begin + STALL_TIMEOUT));

        // Until then the program waits for both, and any sign of life starts afresh.
        clients.send(begin + (STALL_TIMEOUT - Duration::from_millis(1)));
        assert_eq!((clients.0.len(), clients.keep_up()), (2, false));
        taken(&mut slow);
        clients.send(begin + (STALL_TIMEOUT - Duration::from_millis(1)));
        assert!(clients.keep_up() && clients.next_due().is_none(), "they took something");
        while clients.keep_up() {
            clients.broadcast(&SessionFrame::Output(chunk.clone()));
            clients.send(begin + STALL_TIMEOUT);
            taken(&mut quick);
        }
        clients.send(begin + STALL_TIMEOUT + STALL_TIMEOUT);
        assert_eq!((clients.0.len(), clients.keep_up()), (1, true), "the slow one is gone");
        clients.broadcast(&SessionFrame::Output(b"after".to_vec()));
        clients.send(begin + STALL_TIMEOUT + STALL_TIMEOUT);
        assert_eq!(taken(&mut quick), 10, "the other goes on");
    }

    #[test]
    fn one_too_many_costs_nobody_their_place() {
        let mut clients = Clients::default();
        let mut here: Vec<_> = (0..MAX_CLIENTS).map(|_| client(&mut clients)).collect();
        let (mut late, ours) = UnixStream::pair().expect("two ends");
        clients.accept(ours);
        assert!(matches!(late.read(&mut [0]), Ok(0)), "it is closed");
        clients.broadcast(&SessionFrame::Output(b"on".to_vec()));
        clients.send(Instant::now());
        assert!(here.iter_mut().all(|stream| taken(stream) > 0));
        here.remove(0);
        clients.read(&[PollFlags::POLLIN; MAX_CLIENTS], &mut [0; 64]);
        clients.send(Instant::now());
        assert_eq!(clients.0.len(), MAX_CLIENTS - 1, "and one that left makes room");
    }
}
