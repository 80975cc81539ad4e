//! Idle timeout of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Idle time after which a connection fails (kubelet's `streamingConnectionIdleTimeout`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Connection whose reads fail when it was idle for four hours. Pings are traffic, so a client is idle if it accepts none.
pub(super) struct IdleTimeout<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
}

impl<S> IdleTimeout<S> {
    /// Starts the timeout.
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            deadline: Box::pin(sleep(IDLE_TIMEOUT)),
        }
    }

    fn restart_timeout(&mut self) {
        self.deadline.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.restart_timeout();
            return read;
        }
        self.deadline
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.restart_timeout();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
