//! Write buffer of a connection.
//!
//! hyper writes and flushes each HTTP/2 frame separately. With many watches on a connection, a change would
//! cost a TLS record and a system call for each of them. The buffer combines these writes.
//! [`WriteBuffer::drive`] first runs all streams that are ready, also those with tasks of their own, and then
//! sends the buffer. A full buffer is sent at once.
//!
//! The copy into the buffer yields full TLS records. Encrypting each write in place would save the copy, but makes more
//! and smaller records, and was slower in measurements.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::poll_budget::PollBudget;
use super::streams::Streams;

/// Maximum size of the buffer: four TLS records.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Size from which a write bypasses an empty buffer, because the copy would not save a record.
const LARGE_WRITE_BYTES: usize = 32 << 10;

/// Stream that hyper reads and writes.
pub(super) struct BufferedStream<S> {
    shared: Arc<Mutex<BufferState<S>>>,
}

/// Buffer of a [`BufferedStream`], sent by [`WriteBuffer::drive`].
pub(super) struct WriteBuffer<S> {
    shared: Arc<Mutex<BufferState<S>>>,
}

/// A stream, with the bytes that are not sent.
struct BufferState<S> {
    stream: S,
    buffer: BytesMut,
    /// Size of the buffer when the connection was last idle.
    seen_bytes: usize,
    /// Error of the last send, returned by the next write.
    error: Option<io::Error>,
    /// True if writes are sent at once: after an upgrade, the connection is not HTTP any more.
    is_passthrough: bool,
}

/// Adds a write buffer to a stream.
pub(super) fn buffered<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> (BufferedStream<S>, WriteBuffer<S>) {
    let shared = Arc::new(Mutex::new(BufferState {
        stream,
        buffer: BytesMut::new(),
        seen_bytes: 0,
        error: None,
        is_passthrough: false,
    }));
    let stream = BufferedStream {
        shared: shared.clone(),
    };
    (stream, WriteBuffer { shared })
}

impl<S: AsyncWrite + Unpin> WriteBuffer<S> {
    /// Runs a connection and its streams to completion, and sends their writes.
    pub(super) async fn drive<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        streams: &mut Streams,
    ) -> C::Output {
        let budget = PollBudget::new();
        poll_fn(|context| {
            let ended = budget.run(context, |context| {
                loop {
                    streams.poll(context);
                    let ended = connection.as_mut().poll(context);
                    if ended.is_ready() || !streams.has_new() {
                        return ended;
                    }
                }
            });
            match ended {
                Poll::Ready(ended) => Poll::Ready(self.end(ended, context)),
                Poll::Pending => {
                    self.send(streams.has_own_tasks(), context);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Sends the buffer unless more writes follow at once.
    fn send(&self, others_may_write: bool, context: &mut Context<'_>) {
        let mut shared = lock(&self.shared);
        let has_grown = shared.buffer.len() > shared.seen_bytes;
        shared.seen_bytes = shared.buffer.len();
        if has_grown && others_may_write {
            // Poll again after all tasks that are ready now: streams among them may write.
            return context.waker().wake_by_ref();
        }
        if let Poll::Ready(Err(error)) = shared.poll_send(context) {
            shared.error = Some(error);
            context.waker().wake_by_ref();
        }
    }

    /// Completes the connection. After an upgrade, the new owner of the stream sends the rest of the buffer.
    fn end<T>(&self, ended: T, context: &mut Context<'_>) -> T {
        let mut shared = lock(&self.shared);
        shared.is_passthrough = true;
        if let Poll::Ready(Err(error)) = shared.poll_send(context) {
            shared.error = Some(error);
        }
        ended
    }
}

impl<S: AsyncWrite + Unpin> BufferState<S> {
    /// Sends the buffer.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.buffer.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.buffer))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.buffer.advance(sent);
        }
        // An idle connection keeps no buffer.
        self.buffer = BytesMut::new();
        self.seen_bytes = 0;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Is ready if `bytes` more fit into the buffer, or with the error of an earlier send.
    fn poll_room(&mut self, context: &mut Context<'_>, bytes: usize) -> Poll<io::Result<()>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        if self.is_passthrough || self.buffer.len() + bytes > BUFFER_BYTES_MAX {
            return self.poll_send(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for BufferedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        if shared.is_passthrough
            && let Poll::Ready(Err(error)) = shared.poll_send(context)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut shared.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BufferedStream<S> {
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
        if shared.buffer.is_empty() && (shared.is_passthrough || bytes >= LARGE_WRITE_BYTES) {
            return Pin::new(&mut shared.stream).poll_write_vectored(context, slices);
        }
        if shared.buffer.capacity() == 0 {
            shared.buffer.reserve(BUFFER_BYTES_MAX);
        }
        for slice in slices {
            shared.buffer.extend_from_slice(slice);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        ready!(shared.poll_room(context, 0))?;
        if shared.buffer.is_empty() {
            Pin::new(&mut shared.stream).poll_flush(context)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        if let Some(error) = shared.error.take() {
            return Poll::Ready(Err(error));
        }
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_shutdown(context)
    }
}

fn lock<S>(shared: &Mutex<BufferState<S>>) -> MutexGuard<'_, BufferState<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
