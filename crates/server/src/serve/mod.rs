//! HTTP service on a listener, within limits: the number of connections, the size of a request's head and the number of its
//! headers, how long the head may take to arrive, and how long a client may accept nothing of the answer. On TCP,
//! unauthenticated connections have few slots and little time; on a Unix socket the kernel names the peer. Limits of
//! bodies are the router's.

mod connection;
mod unauthenticated;
mod write_timeout;

#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;

use crate::caller::PeerCredentials;
use crate::quota::Quota;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use connection::ListenerQuotas;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;
use write_timeout::WriteTimeoutStream;

/// The backlog of a listener; the kernel may keep fewer. With the usual 128 a burst of connections makes others wait a second
/// for their retry.
pub(crate) const BACKLOG: u32 = 4_096;

/// Idle time before the first TCP keep-alive probe, and the interval of further ones.
const ASK_WHETHER_ALIVE: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Limits of connections and requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many connections are served at once; through a socket more wait to be taken, through a port more are refused.
    connections: usize,
    /// How many of them one user of a shared machine may have; more are closed.
    per_user: usize,
    /// How many connections through a port there may be that have not shown whose they are; the oldest gives way.
    unknown: usize,
    /// How many of them may come from one address.
    unknown_per_address: usize,
    /// How long they may take to show it.
    unknown_within: Duration,
    /// The largest head of a request, in bytes; what is read with the last of it may be as much again.
    head: usize,
    /// The most headers a request may have.
    headers: usize,
    /// How long the head of a request may take to arrive, and how long a connection may rest between two.
    head_within: Duration,
    /// How long the other end may take nothing of what it is sent.
    patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4_096,
            per_user: 512,
            unknown: 512,
            unknown_per_address: 256,
            unknown_within: Duration::from_secs(10),
            head: 64 << 10,
            headers: 100,
            head_within: Duration::from_secs(30),
            patience: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The limits of one of three listeners of a process that may open so many files: together they take three eighths of
    /// them for known connections and one for unknown ones. A known one may need a second and third, for a log or a
    /// terminal, and the rest belongs to the log, the tables and the supervisors.
    pub(crate) fn within(open_files: u64) -> Limits {
        let eighth = usize::try_from(open_files / 8).unwrap_or(usize::MAX).max(16);
        let usual = Limits::default();
        Limits {
            connections: usual.connections.min(eighth),
            per_user: usual.per_user.min(eighth / 4),
            unknown: usual.unknown.min(eighth),
            unknown_per_address: usual.unknown_per_address.min(eighth / 2),
            ..usual
        }
    }

    /// The same for a socket that one user alone comes through.
    pub(crate) fn of_one_user(self) -> Limits {
        Limits { per_user: self.connections, ..self }
    }
}

/// A listener of any kind.
pub(crate) trait Acceptor: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts the next connection, with where it comes from.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, ConnectionSource)>> + Send;

    /// Waits for the first byte of a connection, without taking it.
    fn first_byte(stream: &Self::Stream) -> impl Future<Output = io::Result<u8>> + Send;
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectionSource {
    /// A Unix socket; the kernel names the process.
    Unix(PeerCredentials),
    /// A TCP port: the local and the peer's address.
    Tcp(SocketAddr, SocketAddr),
}

impl Acceptor for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, ConnectionSource)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        let _slower = stream.set_nodelay(true);
        // Who is only waiting, at a terminal or for word of changes, is sent nothing by which a dead line would be noticed.
        let alive = TcpKeepalive::new().with_time(ASK_WHETHER_ALIVE).with_interval(ASK_AGAIN);
        let _noticed_later = SockRef::from(&stream).set_tcp_keepalive(&alive);
        let local = stream.local_addr()?;
        Ok((stream, ConnectionSource::Tcp(local, peer)))
    }

    async fn first_byte(stream: &TcpStream) -> io::Result<u8> {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(first[0]),
        }
    }
}

impl Acceptor for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, ConnectionSource)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let peer = PeerCredentials::of(&stream);
        Ok((stream, ConnectionSource::Unix(peer)))
    }

    async fn first_byte(_stream: &UnixStream) -> io::Result<u8> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is for ports"))
    }
}

/// Serves connections with a router for as long as the server lives; those of a port with TLS, where it has that.
pub(crate) async fn serve<A: Acceptor>(
    listener: A,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
) {
    let (sockets, users) = (Arc::new(Semaphore::new(limits.connections)), Arc::<Quota<u32>>::default());
    let ports = ListenerQuotas::new(&limits);
    loop {
        let Ok(place) = sockets.clone().acquire_owned().await else { return };
        let (stream, origin) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of files, or a caller that left again: both pass.
                tracing::warn!("a connection could not be taken: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let router = router.clone();
        match origin {
            ConnectionSource::Unix(peer) => {
                let seat = match peer.uid() {
                    Some(uid) => match users.acquire(uid, limits.per_user) {
                        None => continue,
                        seat => seat,
                    },
                    None => None,
                };
                let tell = move |request: &mut Request| {
                    request.extensions_mut().insert(ConnectInfo(peer));
                };
                tokio::spawn(answer(stream, tell, router, limits, (place, seat)));
            }
            // Never waits for a place: whoever comes displaces one that has said nothing.
            ConnectionSource::Tcp(local, peer) => {
                drop(place);
                let (connection, evicted) = Connection::new((local, peer), &ports);
                let (told, held) = (connection.clone(), connection.clone());
                let tell = move |request: &mut Request| {
                    request.extensions_mut().insert(told.clone());
                };
                let tls = tls.clone();
                // A handshake counts as the beginning of an unauthenticated connection: it has as little time, and gives way
                // as soon.
                let answered = async move {
                    match tls {
                        None => answer(stream, tell, router, limits, held).await,
                        Some(tls) => {
                            if let Some(stream) = handshake::<A>(&tls, stream).await {
                                answer(stream, tell, router, limits, held).await;
                            }
                        }
                    }
                };
                tokio::spawn(async move {
                    tokio::select! {
                        () = answered => {}
                        () = evicted.notified() => {}
                        () = unknown_for_long(connection, limits.unknown_within) => {}
                    }
                });
            }
        }
    }
}

/// The answer to a client that speaks plain HTTP where TLS is spoken, such as a browser that was given no scheme.
const SPEAKS_TLS: &str = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade, close\r\nContent-Type: \
    text/plain; charset=utf-8\r\nContent-Length: 57\r\n\r\nThis server speaks HTTPS: write https:// in its address.\n";

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// Negotiates TLS with a client; none where that fails.
async fn handshake<A: Acceptor>(tls: &TlsAcceptor, mut stream: A::Stream) -> Option<TlsStream<A::Stream>> {
    if A::first_byte(&stream).await.ok()? == HANDSHAKE {
        return tls.accept(stream).await.ok();
    }
    let _gone = stream.write_all(SPEAKS_TLS.as_bytes()).await;
    let _gone = stream.shutdown().await;
    // What the client sent is taken: closing a connection with unread bytes would make the kernel drop the answer.
    let _gone = stream.read(&mut [0; 4096]).await;
    None
}

/// Waits until a connection was unauthenticated for too long; forever, once it is authenticated.
async fn unknown_for_long(connection: Arc<Connection>, within: Duration) {
    tokio::time::sleep(within).await;
    if connection.is_known() {
        drop(connection);
        std::future::pending().await
    }
}

/// Serves one connection until it ends or exceeds a limit. `tell` adds to each request where it comes from; `held` is dropped
/// with the stream.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tell: impl Fn(&mut Request) + Clone + Send + 'static,
    router: Router,
    limits: Limits,
    held: impl Unpin + Send + 'static,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_within);
    http.max_buf_size(limits.head).max_headers(limits.headers);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        tell(&mut request);
        router.clone().oneshot(request)
    });
    // It keeps its place for as long as it is open, whatever it becomes.
    let stream = WriteTimeoutStream::new(stream, limits.patience, held);
    // A connection that breaks is the caller's to notice.
    let _broken = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}
