//! Minimal HTTP parsing: the head and body of one response, on a connection that carries something else afterwards.

use std::io::{self, Read};
use warpyard_session::ATTEMPT_HEADER;

/// The largest head of a response.
const LARGEST_HEAD: usize = 64 << 10;

/// The largest body of a response that is parsed here.
const LARGEST_BODY: u64 = 1 << 20;

/// The head of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: u64,
    /// The attempt whose terminal the connection leads to.
    pub(super) attempt: u32,
}

impl Head {
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

/// Reads the head of a response, and what came after it.
pub(super) fn read_head(stream: &mut impl Read) -> io::Result<(Head, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = Head::parse(&String::from_utf8_lossy(&bytes));
            let not_http = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
            return head.map(|head| (head, rest)).ok_or_else(not_http);
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

/// Reads the body of a response; `rest` came with its head.
pub(super) fn read_body(stream: &mut impl Read, head: &Head, rest: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = rest;
    let more = head.length.saturating_sub(body.len() as u64).min(LARGEST_BODY);
    stream.take(more).read_to_end(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_head_is_not_lost() {
        let mut stream: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nWarpyard-Attempt: 3\r\n\r\n\x01rest";
        let (head, rest) = read_head(&mut stream).unwrap();
        assert_eq!(head, Head { status: 101, length: 0, attempt: 3 });
        assert_eq!(rest, b"\x01rest");
    }

    #[test]
    fn an_answer_cut_short_is_a_server_that_went_away() {
        let mut stream: &[u8] = b"HTTP/1.1 101 Swit";
        assert_eq!(read_head(&mut stream).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
