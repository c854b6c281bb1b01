//! Attaching to the terminal of a task: one request that upgrades its connection.

use super::ClientError;
use super::discovery::{Target, socket_path};
use super::http::{read_body, read_head};
use super::stream::{Stream, host_and_port};
use crate::wire::ProblemBody;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use warpyard_session::PROTOCOL;

/// A connection to the terminal of an attempt, in the protocol of [`warpyard_session`].
#[derive(Debug)]
pub struct TerminalConnection {
    stream: Stream,
    /// Bytes that came with the response's head.
    rest: Vec<u8>,
    attempt: u32,
}

impl TerminalConnection {
    /// The attempt whose terminal it is.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Makes reading and writing non-blocking.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    /// Takes the bytes that came with the response; reading continues after them.
    pub fn take_arrived(&mut self) -> Vec<u8> {
        let mut arrived = std::mem::take(&mut self.rest);
        arrived.extend(self.stream.take_decrypted());
        arrived
    }
}

impl Read for TerminalConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for TerminalConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for TerminalConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Requests the terminal at `path` and waits for the response.
pub(super) fn attach(target: &Target, path: &str) -> Result<TerminalConnection, ClientError> {
    let failed = |e: io::Error| ClientError::of_connection(target, e.into());
    let mut stream = Stream::connect(target, None).map_err(failed)?;
    stream.write_all(request(target, path).as_bytes()).map_err(failed)?;
    let (head, rest) = read_head(&mut stream).map_err(failed)?;
    match head.status {
        101 => Ok(TerminalConnection { stream, rest, attempt: head.attempt }),
        401 => Err(target.unauthorised()),
        status => {
            let body = read_body(&mut stream, &head, rest).map_err(failed)?;
            let body = serde_json::from_slice(&body).unwrap_or_else(|_| {
                let detail = format!("the server at {} has no way to terminals", target.url);
                ProblemBody::new(status, crate::problem::code::NOT_FOUND, detail)
            });
            Err(ClientError::Refused(Box::new(body)))
        }
    }
}

fn request(target: &Target, path: &str) -> String {
    let host = match socket_path(&target.url) {
        Some(_) => "localhost".to_owned(),
        None => host_and_port(&target.url),
    };
    let token =
        target.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\nContent-Length: 0\r\n{token}\r\n"
    )
}
