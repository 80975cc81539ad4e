//! A TLS connection whose writes are collected and sent together.
//!
//! HTTP/2 writes and flushes every frame by itself. With many watches on a connection a change would be as many system
//! calls as there are watches; collected, they are a handful. What is collected is sent as soon as nothing more comes:
//! [`Cork::drive`] lets the other tasks that are ready run in between, which costs nothing when there are none. There is
//! a bound: what is more is sent at once.
//!
//! It is TLS that collects: a frame is encrypted from where it lies, which spares a copy of all that watches are told,
//! and the records wait in the session. Only small writes are joined before, since a record for each would cost more.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::streams::Streams;

/// Encrypted bytes that are collected before they are sent in any case: some records.
const COLLECTED_BYTES_MAX: usize = 128 << 10;
/// Writes below this size are joined with those that follow: a record of their own would cost more than the copy.
const SMALL_WRITE_BYTES: usize = 4 << 10;
/// Joined bytes that are encrypted in any case: one record.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// The side of a connection that HTTP reads and writes.
pub(super) struct Corked<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

/// The side that decides when what was written is sent.
pub(super) struct Cork<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

struct Shared<S> {
    stream: TlsStream<S>,
    /// Small writes, not encrypted yet.
    joined: BytesMut,
    /// Bytes written since all was sent.
    unsent_bytes: usize,
    /// Why what was collected could not be sent: HTTP hears it with its next write.
    failed: Option<io::Error>,
    /// Nothing is collected any more: the connection became something else than HTTP.
    is_open: bool,
}

/// Collects what is written to a stream.
pub(super) fn cork<S: AsyncRead + AsyncWrite + Unpin>(mut stream: TlsStream<S>) -> (Corked<S>, Cork<S>) {
    stream.get_mut().1.set_buffer_limit(Some(COLLECTED_BYTES_MAX));
    let shared = Arc::new(Mutex::new(Shared {
        stream,
        joined: BytesMut::new(),
        unsent_bytes: 0,
        failed: None,
        is_open: false,
    }));
    let corked = Corked {
        shared: shared.clone(),
    };
    (corked, Cork { shared })
}

impl<S: AsyncRead + AsyncWrite + Unpin> Cork<S> {
    /// Runs a connection and its streams to its end, and sends what it writes.
    pub(super) async fn drive<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        streams: &mut Streams,
    ) -> C::Output {
        let mut seen_bytes = 0;
        poll_fn(|context| {
            loop {
                streams.poll(context);
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    return Poll::Ready(self.end(ended, context));
                }
                if !streams.have_begun() {
                    break;
                }
            }
            let mut shared = lock(&self.shared);
            let more = shared.unsent_bytes > seen_bytes;
            seen_bytes = shared.unsent_bytes;
            if more {
                // Once more behind all tasks that are ready now, some of which may have something to write.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            seen_bytes = 0;
            if let Poll::Ready(Err(error)) = shared.poll_send(context) {
                shared.failed = Some(error);
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
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

impl<S: AsyncRead + AsyncWrite + Unpin> Shared<S> {
    /// Sends what was collected.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent_bytes == 0 {
            return Poll::Ready(Ok(()));
        }
        while !self.joined.is_empty() {
            self.encrypt(&[])?;
            if !self.joined.is_empty() {
                ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            }
        }
        // An idle connection keeps no buffer.
        self.joined = BytesMut::new();
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.unsent_bytes = 0;
        Poll::Ready(Ok(()))
    }

    /// Encrypts what was joined and as much of `slices` as there is room for behind it; tells how much.
    fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut session = self.stream.get_mut().1.writer();
        if self.joined.is_empty() {
            return session.write_vectored(slices);
        }
        let mut all = Vec::with_capacity(1 + slices.len());
        all.push(IoSlice::new(&self.joined));
        all.extend_from_slice(slices);
        let taken = session.write_vectored(&all)?;
        let taken_joined = taken.min(self.joined.len());
        self.joined.advance(taken_joined);
        Ok(taken - taken_joined)
    }

    /// Takes as much of `slices` as there is room for, and waits for some if there is none.
    fn poll_collect(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let taken = if bytes < SMALL_WRITE_BYTES && self.joined.len() + bytes <= JOINED_BYTES_MAX {
            for slice in slices {
                self.joined.extend_from_slice(slice);
            }
            bytes
        } else {
            loop {
                let taken = self.encrypt(slices)?;
                if taken > 0 || bytes == 0 {
                    break taken;
                }
                ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            }
        };
        self.unsent_bytes += taken;
        Poll::Ready(Ok(taken))
    }

    /// Why something that was taken before could not be sent.
    fn tell_failure(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
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
        shared.tell_failure()?;
        if shared.is_open {
            ready!(shared.poll_send(context))?;
            return Pin::new(&mut shared.stream).poll_write_vectored(context, slices);
        }
        shared.poll_collect(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        shared.tell_failure()?;
        if !shared.is_open {
            return Poll::Ready(Ok(()));
        }
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.shared);
        shared.tell_failure()?;
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.stream).poll_shutdown(context)
    }
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
