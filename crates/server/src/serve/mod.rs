//! Answering on a socket, within limits: how many connections there may be, how large the head of a request and how many
//! headers it may have, how long it may take to arrive, and how long its sender may take nothing of the answer. The same
//! for the port of the pages and for the socket of a shared machine. How large a body may be is the interface's to say.

mod patient;
pub(crate) mod seats;

#[cfg(test)]
mod tests;

use crate::http::{self, App};
use crate::who::Peer;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use patient::Patient;
use seats::{Seat, Seats};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

/// How long a connection may be silent before its other end is asked whether it is there, and how soon again.
const ASK_WHETHER_ALIVE: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// What a connection may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many are served at once; more wait to be taken.
    connections: usize,
    /// How many of them one user of a shared machine may have; more are closed.
    per_user: usize,
    /// The largest head of a request, in bytes; what is read with the last of it may be as much again.
    head: usize,
    /// The most headers a request may have.
    headers: usize,
    /// How long the head of a request may take to arrive.
    head_within: Duration,
    /// How long the other end may take nothing of what it is sent.
    patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4_096,
            per_user: 512,
            head: 64 << 10,
            headers: 100,
            head_within: Duration::from_secs(30),
            patience: Duration::from_secs(30),
        }
    }
}

/// Where connections come in.
pub(crate) trait Listening: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one, and who is at its other end where the kernel knows.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<Peer>)>> + Send;
}

impl Listening for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<Peer>)> {
        let (stream, _) = TcpListener::accept(self).await?;
        let _slower = stream.set_nodelay(true);
        // Who is only waiting, at a terminal or for word of changes, is sent nothing by which a dead line would be noticed.
        let alive = TcpKeepalive::new().with_time(ASK_WHETHER_ALIVE).with_interval(ASK_AGAIN);
        let _noticed_later = SockRef::from(&stream).set_tcp_keepalive(&alive);
        Ok((stream, None))
    }
}

impl Listening for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<Peer>)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let peer = Peer::of(&stream);
        Ok((stream, Some(peer)))
    }
}

/// Answers for as long as the server lives.
pub(crate) async fn serve(listener: impl Listening, app: Arc<App>) {
    answer_all(listener, http::router(app), Limits::default()).await;
}

async fn answer_all(listener: impl Listening, router: Router, limits: Limits) {
    let (places, users) = (Arc::new(Semaphore::new(limits.connections)), Arc::<Seats<u32>>::default());
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of files, or a caller that left again: both pass.
                eprintln!("warpyard: a connection could not be taken: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let seat = match peer.and_then(Peer::uid) {
            Some(uid) => match users.take(uid, limits.per_user) {
                None => continue,
                seat => seat,
            },
            None => None,
        };
        tokio::spawn(answer(stream, peer, router.clone(), limits, (place, seat)));
    }
}

/// Answers what comes through one connection until it ends or goes beyond a limit.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Option<Peer>,
    router: Router,
    limits: Limits,
    held: (OwnedSemaphorePermit, Option<Seat<u32>>),
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_within);
    http.max_buf_size(limits.head).max_headers(limits.headers);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(peer) = peer {
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        router.clone().oneshot(request)
    });
    // It keeps its place for as long as it is open, whatever it becomes.
    let stream = Patient::new(stream, limits.patience, held);
    // A connection that breaks is the caller's to notice.
    let _broken = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}
