//! A write timeout for connections. Without it a client that stops reading keeps its connection slot until TCP gives up.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail once they made no progress for a while.
pub(super) struct WriteTimeoutStream<S, H> {
    stream: S,
    patience: Duration,
    /// Runs while a write is pending.
    until: Pin<Box<Sleep>>,
    waiting: bool,
    /// Dropped with the stream: quotas of the connection.
    _held: H,
}

impl<S, H> WriteTimeoutStream<S, H> {
    pub(super) fn new(stream: S, patience: Duration, held: H) -> WriteTimeoutStream<S, H> {
        WriteTimeoutStream { stream, patience, until: Box::pin(sleep(patience)), waiting: false, _held: held }
    }

    /// The result of a write, or its timeout.
    fn watched<T>(&mut self, got: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if got.is_ready() {
            self.waiting = false;
            return got;
        }
        if !self.waiting {
            self.waiting = true;
            self.until.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing")))
    }
}

impl<S: AsyncRead + Unpin, H: Unpin> AsyncRead for WriteTimeoutStream<S, H> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for WriteTimeoutStream<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let got = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watched(got, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let got = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watched(got, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let got = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(got, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let got = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watched(got, cx)
    }
}
