//! Verified connections: the process that listens on a socket must belong to root or to this user, a server with TLS must
//! have a certificate of the right CA, and one on a plain TCP port must prove that it knows the token. Nothing is sent before, so that another user's process that took a
//! dead server's address learns neither the token nor a job.

use super::discovery::{Target, full_url, socket_path};
use super::http::{read_body, read_head};
use super::tls::{self, TlsStream};
use super::{ANSWER_WITHIN, CONNECT_WITHIN};
use crate::private_dir::describe_user;
use crate::proof::{self, SecretDigest};
use crate::token::{Fingerprint, Secret};
use crate::wire::ProofView;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest path in the address of a Unix socket, without its terminating zero.
const LONGEST_SOCKET_PATH: usize = 107;

/// Why the peer of a connection could not be verified to be the server.
#[derive(Debug, thiserror::Error)]
pub enum VerificationError {
    /// The process that listens on the socket belongs to another user.
    #[error("{} listens on {}, and neither you nor root; nothing was sent", describe_user(*uid), path.display())]
    Peer {
        /// The socket.
        path: PathBuf,
        /// The user of the process.
        uid: u32,
    },
    /// There is no token to verify a proof with.
    #[error("there is no token to know it by")]
    NoToken,
    /// The peer gives no proof, like servers of earlier versions.
    #[error("it does not prove that it knows the token (status {status})")]
    NoProof {
        /// The HTTP status of its response.
        status: u16,
    },
    /// The server does not know the token.
    #[error("it does not know the token: it has expired or was revoked, or is another server's")]
    UnknownToken,
    /// The peer gives a wrong proof.
    #[error("it does not know the token")]
    WrongProof,
    /// The server's certificate does not come from the CA that is expected.
    #[error("its certificate comes from a CA with the fingerprint {found}, and {expected} was expected")]
    Fingerprint {
        /// The fingerprint in the token, or of the login.
        expected: Fingerprint,
        /// The fingerprint of the CA that the server presented.
        found: Fingerprint,
    },
    /// The server's certificate comes from no CA that this machine trusts, and no fingerprint is known.
    #[error(
        "its certificate comes from a CA that this machine does not know, with the fingerprint {found} ({fault})"
    )]
    NoKnownCa {
        /// The fingerprint of the CA that the server presented.
        found: Fingerprint,
        /// What is wrong with the certificate.
        fault: String,
    },
    /// The peer does not speak TLS.
    #[error("it does not speak TLS")]
    NoTls,
    /// The peer speaks TLS only.
    #[error("it speaks TLS only")]
    SpeaksTls,
    /// TLS failed for another reason.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server gives no proofs for this host and port.
    #[error("it does not answer for {host}")]
    Host {
        /// The host and port of the connection.
        host: String,
    },
}

impl From<VerificationError> for io::Error {
    fn from(distrust: VerificationError) -> io::Error {
        io::Error::other(distrust)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Port(TcpStream),
    Tls(Box<TlsStream>),
    Socket(UnixStream),
}

impl Stream {
    /// Connects to a server and verifies it. `addresses` are those of its host, if they are resolved already.
    pub(super) fn connect(target: &Target, addresses: Option<&[SocketAddr]>) -> io::Result<Stream> {
        if let Some(path) = socket_path(&target.url) {
            let stream = connect_socket(Path::new(path))?;
            return match getsockopt(&stream, PeerCredentials)?.uid() {
                uid if uid == 0 || uid == nix::unistd::geteuid().as_raw() => Ok(Stream::Socket(stream)),
                uid => Err(VerificationError::Peer { path: path.into(), uid }.into()),
            };
        }
        let host = host_and_port(&target.url);
        let mut stream = match addresses {
            Some(addresses) => connect_port(addresses.iter().copied())?,
            None => connect_port(host.to_socket_addrs()?)?,
        };
        // The address as dialled, and not the name: another program may listen on another address of the same name.
        let dialled = stream.peer_addr().map(|to| SocketAddr::new(to.ip(), to.port()).to_string())?;
        for limit in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            limit(&stream, Some(ANSWER_WITHIN))?;
        }
        let stream = match target.is_tls() {
            // The certificate says who the server is.
            true => Stream::Tls(Box::new(tls::handshake(stream, &host, target.ca)?)),
            false => {
                prove(&mut stream, &[&dialled, &host], target.token.as_deref())?;
                Stream::Port(stream)
            }
        };
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Takes bytes that have arrived and that the kernel knows nothing of any more, because they were decrypted together with
    /// others.
    pub(super) fn take_decrypted(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Stream::Tls(stream) = self {
            // Ends with `WouldBlock` when there is nothing more.
            let _all_taken = stream.conn.reader().read_to_end(&mut bytes);
        }
        bytes
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Port(stream) => stream.set_nonblocking(nonblocking),
            Stream::Tls(stream) => stream.sock.set_nonblocking(nonblocking),
            Stream::Socket(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    pub(super) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Port(stream) => stream.set_read_timeout(limit),
            Stream::Tls(stream) => stream.sock.set_read_timeout(limit),
            Stream::Socket(stream) => stream.set_read_timeout(limit),
        }
    }

    pub(super) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Port(stream) => stream.set_write_timeout(limit),
            Stream::Tls(stream) => stream.sock.set_write_timeout(limit),
            Stream::Socket(stream) => stream.set_write_timeout(limit),
        }
    }
}

/// Connects to a server on a plain TCP port, and verifies that it knows the token; for clients other than
/// [`Client`](super::Client), which go on with HTTP on this connection.
pub fn connect_plain(target: &Target) -> io::Result<TcpStream> {
    match Stream::connect(
        &Target { url: full_url(&target.url).map_err(io::Error::other)?, ..target.clone() },
        None,
    )? {
        Stream::Port(stream) => Ok(stream),
        Stream::Tls(_) | Stream::Socket(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Requests a proof that the peer knows the token, for each host in turn until it answers for one. Trying several
/// weakens nothing: a server gives proofs only for its own address and for configured names.
pub(super) fn prove(stream: &mut (impl Read + Write), hosts: &[&str], token: Option<&str>) -> io::Result<()> {
    let token = token.ok_or(VerificationError::NoToken)?;
    let mut nonce = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    let nonce = proof::hex(&nonce);
    // Of its own token a server knows all; of other secrets, digests.
    let (key, which) = match token.parse::<Secret>() {
        Ok(secret) => {
            let SecretDigest { id, key } = secret.digest();
            (key, format!("&token={id}"))
        }
        Err(_) => (token.to_owned(), String::new()),
    };
    for host in hosts {
        let request = format!("GET /v1/proof?nonce={nonce}{which} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let (head, rest) = read_head(stream)?;
        let body = read_body(stream, &head, rest)?;
        match head.status {
            200 => {
                let given = serde_json::from_slice::<ProofView>(&body);
                let expected = proof::server_proof(&key, &nonce, host);
                return match given {
                    Ok(given) if proof::constant_time_eq(given.proof.as_bytes(), expected.as_bytes()) => {
                        Ok(())
                    }
                    Ok(_) => Err(VerificationError::WrongProof.into()),
                    Err(_) => Err(VerificationError::NoProof { status: 200 }.into()),
                };
            }
            421 => {}
            426 => return Err(VerificationError::SpeaksTls.into()),
            401 if !which.is_empty() => return Err(VerificationError::UnknownToken.into()),
            status => return Err(VerificationError::NoProof { status }.into()),
        }
    }
    Err(VerificationError::Host { host: hosts.last().copied().unwrap_or_default().to_owned() }.into())
}

/// The host and port of an address.
pub(super) fn host_and_port(url: &str) -> String {
    let (scheme, host) = url.split_once("://").unwrap_or(("http", "localhost"));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let usual = if scheme == "https" { 443 } else { 80 };
    if has_port { host.to_owned() } else { format!("{host}:{usual}") }
}

fn connect_port(addresses: impl IntoIterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// Connects to a socket, through a descriptor of its directory if the path is too long for a socket address.
fn connect_socket(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= LONGEST_SOCKET_PATH {
        return UnixStream::connect(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_DIRECTORY;
    let parent = OpenOptions::new().read(true).custom_flags(flags.bits()).open(parent)?;
    UnixStream::connect(Path::new(&format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Port(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Socket(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Port(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Socket(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Port(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
            Stream::Socket(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Port(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.sock.as_fd(),
            Stream::Socket(stream) => stream.as_fd(),
        }
    }
}
