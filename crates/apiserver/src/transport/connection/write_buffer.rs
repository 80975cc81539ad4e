//! A connection whose writes are collected and sent together.
//!
//! HTTP/2 writes and flushes every frame by itself. With many watches on a connection a change would be as many records
//! of TLS and system calls as there are watches; collected, they are a handful. What is collected is sent as soon as
//! nothing more comes: [`Cork::drive`] lets all streams of the connection run first that have something to do, and those
//! that have tasks of their own, if there are any. There is a bound: a full buffer is sent at once.
//!
//! Records of TLS are full that way. Encrypting each write from where it lies spares a copy, but makes more and smaller records:
//! it was tried, and measured to be slower.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::poll_budget::Turn;
use super::streams::Streams;

/// Bytes that are collected before they are sent in any case: some records of TLS.
const COLLECTED_BYTES_MAX: usize = 64 << 10;
/// Writes from this size on are sent as they are: collecting them would only copy them.
const LARGE_WRITE_BYTES: usize = 32 << 10;

/// The side of a connection that HTTP reads and writes.
pub(super) struct Corked<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

/// The side that decides when what was written is sent.
pub(super) struct Cork<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

struct Shared<S> {
    stream: S,
    collected: BytesMut,
    /// How many of them there were when that was last asked.
    seen_bytes: usize,
    /// Why what was collected could not be sent: HTTP hears it with its next write.
    failed: Option<io::Error>,
    /// Nothing is collected any more: the connection became something else than HTTP.
    is_open: bool,
}

/// Collects what is written to a stream.
pub(super) fn cork<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> (Corked<S>, Cork<S>) {
    let shared = Arc::new(Mutex::new(Shared {
        stream,
        collected: BytesMut::new(),
        seen_bytes: 0,
        failed: None,
        is_open: false,
    }));
    let corked = Corked {
        shared: shared.clone(),
    };
    (corked, Cork { shared })
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    /// Runs a connection and its streams to its end, and sends what it writes.
    pub(super) async fn drive<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        streams: &mut Streams,
    ) -> C::Output {
        let turn = Turn::new();
        poll_fn(|context| {
            let ended = turn.run(context, |context| {
                loop {
                    streams.poll(context);
                    let ended = connection.as_mut().poll(context);
                    if ended.is_ready() || !streams.have_begun() {
                        return ended;
                    }
                }
            });
            match ended {
                Poll::Ready(ended) => Poll::Ready(self.end(ended, context)),
                Poll::Pending => {
                    self.send(streams.have_own_tasks(), context);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Sends what was collected if nothing more comes.
    fn send(&self, others_may_write: bool, context: &mut Context<'_>) {
        let mut shared = lock(&self.shared);
        let has_more = shared.collected.len() > shared.seen_bytes;
        shared.seen_bytes = shared.collected.len();
        if has_more && others_may_write {
            // Once more behind all tasks that are ready now, some of which may have something to write.
            return context.waker().wake_by_ref();
        }
        if let Poll::Ready(Err(error)) = shared.poll_send(context) {
            shared.failed = Some(error);
            context.waker().wake_by_ref();
        }
    }

    /// A connection that goes on as something else: its owner sends what is left.
    fn end<T>(&self, ended: T, context: &mut Context<'_>) -> T {
        let mut shared = lock(&self.shared);
        shared.is_open = true;
        if let Poll::Ready(Err(error)) = shared.poll_send(context) {
            shared.failed = Some(error);
        }
        ended
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    /// Sends what was collected.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.collected.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.collected.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.collected))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.collected.advance(sent);
        }
        // An idle connection keeps no buffer.
        self.collected = BytesMut::new();
        self.seen_bytes = 0;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Ready when there is room for `bytes` more, or an error is to be told.
    fn poll_room(&mut self, context: &mut Context<'_>, bytes: usize) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if self.is_open || self.collected.len() + bytes > COLLECTED_BYTES_MAX {
            return self.poll_send(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        if shared.is_open
            && let Poll::Ready(Err(error)) = shared.poll_send(context)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut shared.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = lock(&self.shared);
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        ready!(shared.poll_room(context, bytes))?;
        if shared.collected.is_empty() && (shared.is_open || bytes >= LARGE_WRITE_BYTES) {
            return Pin::new(&mut shared.stream).poll_write_vectored(context, slices);
        }
        if shared.collected.capacity() == 0 {
            shared.collected.reserve(COLLECTED_BYTES_MAX);
        }
        for slice in slices {
            shared.collected.extend_from_slice(slice);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        ready!(shared.poll_room(context, 0))?;
        match shared.collected.is_empty() {
            true => Pin::new(&mut shared.stream).poll_flush(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        if let Some(error) = shared.failed.take() {
            return Poll::Ready(Err(error));
        }
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_shutdown(context)
    }
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
