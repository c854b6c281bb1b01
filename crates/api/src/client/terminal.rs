//! A connection to the terminal a task runs in: one request whose answer is that the connection itself now leads there.

use super::find::{Target, socket_path};
use super::{CONNECT_WITHIN, ClientError};
use crate::wire::ProblemBody;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use warpyard_session::{ATTEMPT_HEADER, PROTOCOL};

/// The head of an answer has no more bytes than this.
const LARGEST_HEAD: usize = 64 << 10;

/// Nor has a refusal.
const LARGEST_REFUSAL: u64 = 1 << 20;

/// A way to the terminal of an attempt. What goes through it is said in [`warpyard_session`].
#[derive(Debug)]
pub struct Attached {
    stream: Stream,
    /// What came with the answer's head.
    rest: Vec<u8>,
    attempt: u32,
}

#[derive(Debug)]
enum Stream {
    Port(TcpStream),
    Socket(UnixStream),
}

impl Attached {
    /// Which attempt's terminal it is.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Has reading and writing not wait, where nothing can be read or written now.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.stream {
            Stream::Port(stream) => stream.set_nonblocking(nonblocking),
            Stream::Socket(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// What arrived together with the answer; reading gives what comes after it.
    pub fn take_arrived(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }
}

impl Read for Attached {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Attached {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Port(stream) => stream.as_fd(),
            Stream::Socket(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Port(stream) => stream.read(buffer),
            Stream::Socket(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Port(stream) => stream.write(bytes),
            Stream::Socket(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Port(stream) => stream.flush(),
            Stream::Socket(stream) => stream.flush(),
        }
    }
}

/// Asks for the terminal at `path` and waits for the answer.
pub(super) fn attach(target: &Target, path: &str) -> Result<Attached, ClientError> {
    let unreachable =
        |e: io::Error| ClientError::Unreachable { url: target.url.clone(), source: Box::new(e.into()) };
    let mut stream = connect(&target.url).map_err(unreachable)?;
    stream.write_all(request(target, path).as_bytes()).map_err(unreachable)?;
    let (head, rest) = read_head(&mut stream).map_err(unreachable)?;
    let Some(answer) = Answer::parse(&head) else {
        return Err(unreachable(io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP")));
    };
    match answer.status {
        101 => Ok(Attached { stream, rest, attempt: answer.attempt }),
        401 => Err(target.unauthorised()),
        status => {
            let mut body = rest;
            let more = answer.length.saturating_sub(body.len() as u64).min(LARGEST_REFUSAL);
            stream.take(more).read_to_end(&mut body).map_err(unreachable)?;
            let body = serde_json::from_slice(&body).unwrap_or_else(|_| {
                let detail = format!("the server at {} has no way to terminals", target.url);
                ProblemBody::new(status, crate::problem::code::NOT_FOUND, detail)
            });
            Err(ClientError::Refused(Box::new(body)))
        }
    }
}

fn connect(url: &str) -> io::Result<Stream> {
    if let Some(path) = socket_path(url) {
        return UnixStream::connect(path).map(Stream::Socket);
    }
    let host = host(url);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let host = if has_port { host.to_owned() } else { format!("{host}:80") };
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Stream::Port(stream));
            }
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

fn host(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or("localhost")
}

fn request(target: &Target, path: &str) -> String {
    let token =
        target.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\nContent-Length: 0\r\n{token}\r\n",
        host(&target.url)
    )
}

/// The head of an answer, and what came after it.
fn read_head(stream: &mut impl Read) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        let read = match stream.read(&mut chunk) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 || bytes.len() > LARGEST_HEAD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend(&chunk[..read]);
    }
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    length: u64,
    attempt: u32,
}

impl Answer {
    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let of = |name: &str| {
            headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
        };
        Some(Self {
            status,
            length: of("content-length").and_then(|n| n.parse().ok()).unwrap_or(0),
            attempt: of(ATTEMPT_HEADER).and_then(|n| n.parse().ok()).unwrap_or(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_head_is_not_lost() {
        let mut stream: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nWarpyard-Attempt: 3\r\n\r\n\x01rest";
        let (head, rest) = read_head(&mut stream).unwrap();
        assert_eq!(Answer::parse(&head), Some(Answer { status: 101, length: 0, attempt: 3 }));
        assert_eq!(rest, b"\x01rest");
    }

    #[test]
    fn an_answer_cut_short_is_a_server_that_went_away() {
        let mut stream: &[u8] = b"HTTP/1.1 101 Swit";
        assert_eq!(read_head(&mut stream).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
