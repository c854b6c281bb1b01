//! The socket of a worker's machine: the same Unix socket as the server's own, whose requests are forwarded to the server
//! with the worker's key. The worker vouches for the caller: the kernel names the peer, and a header carries the login name.
//! So people of every machine of a cluster reach the server without a token.
//!
//! The server decides which workers may vouch, and for whom. Root is refused here already.

#[cfg(test)]
mod tests;

use crate::caller::PeerCredentials;
use crate::http::VOUCHED_USER;
use crate::http::refusal::Refusal;
use crate::serve::Limits;
use crate::unix_listener::{BindError, SocketListener};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, HOST, HeaderName, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use warpyard_api::client::{Target, client_config, connect_plain};
use warpyard_api::problem::code;
use warpyard_worker::accounts::Account;
use warpyard_worker::inherited::open_file_limit;

/// How long a connection to the server may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Headers that are about one connection and not about the request, and those that say who calls.
const NOT_FORWARDED: [HeaderName; 7] =
    [AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING];

/// A socket whose requests are forwarded; its file goes when this is dropped.
pub struct Forwarder {
    _listener: SocketListener,
}

/// Why requests cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The server's address or TLS.
    #[error("cannot forward to {url}")]
    Server {
        /// The server's address.
        url: String,
        /// What is wrong with it.
        source: io::Error,
    },
}

/// Starts forwarding from a socket for all users of this machine to a server, with the worker's key as the target's token.
/// The socket's directory must be root's, as the worker is.
pub fn start(socket: PathBuf, target: Target, runtime: &Handle) -> Result<Forwarder, ForwarderError> {
    let url = target.url.clone();
    let upstream = Upstream::new(target).map_err(|source| ForwarderError::Server { url, source })?;
    let listener = SocketListener::open(&socket, runtime)?;
    let router = Router::new().fallback(forward).with_state(Arc::new(upstream));
    let listener = listener.serve(router, Limits::within(open_file_limit()), runtime);
    Ok(Forwarder { _listener: listener })
}

/// The server that requests are forwarded to.
struct Upstream {
    target: Target,
    /// Host and port.
    host: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Upstream {
    fn new(target: Target) -> io::Result<Upstream> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let uri: Uri = target.url.parse().map_err(|_| wrong("this is not an address"))?;
        let name = uri.host().ok_or_else(|| wrong("the address has no host"))?;
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let host = format!("{name}:{port}");
        let tls = match is_tls {
            false => None,
            true => {
                let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(name).map_err(|_| wrong("this is not the name of a host"))?;
                Some((Arc::new(client_config(target.ca)?), name))
            }
        };
        Ok(Upstream { target, host, tls })
    }

    /// Sends a request on a connection of its own, so that one caller's long answer delays no other's.
    async fn send(&self, request: Request) -> io::Result<Response<hyper::body::Incoming>> {
        match &self.tls {
            None => {
                let target = self.target.clone();
                let connect = tokio::task::spawn_blocking(move || connect_plain(&target));
                let stream = connect.await.map_err(io::Error::other)??;
                stream.set_nonblocking(true)?;
                exchange(TcpStream::from_std(stream)?, request).await
            }
            Some((config, name)) => {
                let connect = async {
                    let stream = TcpStream::connect(&self.host).await?;
                    stream.set_nodelay(true)?;
                    TlsConnector::from(config.clone()).connect(name.clone(), stream).await
                };
                let stream = timeout(CONNECT_WITHIN, connect).await??;
                exchange(stream, request).await
            }
        }
    }
}

/// Sends a request and waits for the head of its response; the rest is streamed.
async fn exchange<S>(stream: S, request: Request) -> io::Result<Response<hyper::body::Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake::<_, Body>(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Ends with the response's body, or with the upgraded connection.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.map_err(io::Error::other)
}

/// Forwards one request, in the caller's name.
async fn forward(State(upstream): State<Arc<Upstream>>, mut request: Request) -> Response {
    let peer = request.extensions().get::<ConnectInfo<PeerCredentials>>().map(|ConnectInfo(peer)| *peer);
    let user = match vouched_user(peer) {
        Ok(user) => user,
        Err(refusal) => return refusal.into_response(),
    };
    let caller = request.extensions_mut().remove::<OnUpgrade>();
    let forwarded = match rewritten(&upstream, request, &user) {
        Ok(forwarded) => forwarded,
        Err(e) => return Refusal::internal(e).into_response(),
    };
    match upstream.send(forwarded).await {
        Ok(response) => answered(response, caller),
        Err(e) => {
            let url = &upstream.target.url;
            tracing::warn!("a request of {user} could not be forwarded to {url}: {e}");
            let said = format!("the server at {url} cannot be reached from this machine: {e}");
            Refusal::new(502, code::NOT_READY, said).into_response()
        }
    }
}

/// The login name of a peer that may be vouched for.
fn vouched_user(peer: Option<PeerCredentials>) -> Result<String, Refusal> {
    let none = || Refusal::new(401, code::NO_ACCOUNT, "you have no account on this machine");
    let uid = peer.and_then(PeerCredentials::uid).ok_or_else(none)?;
    if uid == 0 {
        let said = "this worker vouches for its users and never for root; use a token of yours, or the server's own machine";
        return Err(Refusal::new(403, code::MAY_NOT_VOUCH, said));
    }
    Account::by_uid(uid).map_err(Refusal::internal)?.map(|account| account.name).ok_or_else(none)
}

/// The request as it goes on: with the worker's key and the caller's name, and nothing of the sort from the caller.
fn rewritten(upstream: &Upstream, request: Request, user: &str) -> io::Result<Request> {
    let (mut parts, body) = request.into_parts();
    let upgrades = parts.headers.contains_key(UPGRADE);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().map_err(io::Error::other)?;
    let named: Vec<HeaderName> = connection_headers(&parts.headers).collect();
    NOT_FORWARDED.iter().chain(&named).for_each(|name| drop(parts.headers.remove(name)));
    parts.headers.remove(VOUCHED_USER);
    let value = |text: &str| HeaderValue::from_str(text).map_err(io::Error::other);
    let key = format!("Bearer {}", upstream.target.token.as_deref().unwrap_or_default());
    parts.headers.insert(HOST, value(&upstream.host)?);
    parts.headers.insert(AUTHORIZATION, value(&key)?);
    parts.headers.insert(VOUCHED_USER, value(user)?);
    let connection = if upgrades { "upgrade" } else { "close" };
    parts.headers.insert(CONNECTION, HeaderValue::from_static(connection));
    // What the listener noted of the caller's connection is not the server's to see.
    parts.extensions.clear();
    Ok(Request::from_parts(parts, body))
}

/// The headers that the header `Connection` lists as its own, but for the protocol to upgrade to.
fn connection_headers(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> + use<> {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != UPGRADE)
        .collect();
    listed.into_iter()
}

/// The server's response; where it upgrades the connection, the caller's goes on into it.
fn answered(response: Response<hyper::body::Incoming>, caller: Option<OnUpgrade>) -> Response {
    let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let mut response = response;
    if let Some(caller) = caller.filter(|_| upgraded) {
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            let (Ok(caller), Ok(server)) = (caller.await, server.await) else { return };
            // When either side closes, the other's connection ends too.
            let _either_left = copy_bidirectional(&mut TokioIo::new(caller), &mut TokioIo::new(server)).await;
        });
    } else {
        response.headers_mut().remove(CONNECTION);
    }
    response.headers_mut().remove(TRANSFER_ENCODING);
    response.map(Body::new)
}
