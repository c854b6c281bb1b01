//! Answering on a socket, within limits: how many connections there may be, how large the head of a request, how long it
//! and its body may take to arrive.

use crate::http::{self, App};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How many connections are served at once; more wait to be taken.
const CONNECTIONS: usize = 4_096;

/// The largest head of a request, in bytes.
const HEAD_LIMIT: usize = 64 << 10;

/// How long the head of a request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// Answers for as long as the server lives.
pub(crate) async fn serve(listener: TcpListener, app: Arc<App>) {
    let service = http::router(app);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                // Out of files, or a caller that left again: both pass.
                eprintln!("warpyard: a connection could not be taken: {e}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _slower = stream.set_nodelay(true);
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_LIMIT);
            // A connection that breaks is the caller's to notice.
            let _broken = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
