//! The TCP port that the server listens on.

use super::{DaemonError, Options};
use crate::serve::BACKLOG;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Listens where the options or the configuration say.
pub(super) async fn listen(options: &Options) -> Result<TcpListener, DaemonError> {
    let address = options.listen.clone().or_else(|| options.config.listen.clone());
    bind(address.unwrap_or_else(|| "127.0.0.1:7700".into())).await
}

/// Listens on the first address that a name resolves to and that is free.
pub(crate) async fn bind(address: String) -> Result<TcpListener, DaemonError> {
    let bind_to = |at: SocketAddr| {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(BACKLOG)
    };
    let bound = async {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for at in tokio::net::lookup_host(&address).await? {
            match bind_to(at) {
                Ok(listener) => return Ok(listener),
                Err(e) => failed = e,
            }
        }
        Err(failed)
    };
    bound.await.map_err(|source| DaemonError::Listen { address: address.clone(), source })
}
