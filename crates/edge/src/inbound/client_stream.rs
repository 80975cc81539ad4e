//! A client's TCP stream that waits for bandwidth, and whose bytes can be read again.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::throttle::{ConnectionBandwidth, Throttle};
use crate::stream::{AbortiveClose, RelayStream, delegate_write_control};

/// Bytes of one read of a throttled stream.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A client's TCP stream, with bytes that were read and are to be read again.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: TcpStream,
    /// Bytes that come before those of the stream, from `position` on.
    unread: Box<[u8]>,
    position: usize,
    bandwidth: Option<Box<ConnectionBandwidth>>,
}

impl ClientStream {
    /// Creates a stream of which no byte was read.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            unread: Box::default(),
            position: 0,
            bandwidth: None,
        }
    }

    /// Makes these bytes the next bytes to read. The bytes of an earlier call must have been read.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        (self.unread, self.position) = (bytes.into(), 0);
    }

    /// Limits the bandwidth from now on, if one is given.
    pub(super) fn throttle(&mut self, bandwidth: Option<Box<ConnectionBandwidth>>) {
        self.bandwidth = bandwidth;
    }

    fn unread_rest(&self) -> &[u8] {
        self.unread.get(self.position..).unwrap_or_default()
    }

    fn received(&mut self) -> Option<&mut Throttle> {
        self.bandwidth.as_deref_mut()?.received.as_mut()
    }

    fn sent(&mut self) -> Option<&mut Throttle> {
        self.bandwidth.as_deref_mut()?.sent.as_mut()
    }

    /// Reads at most `bytes_max` into the unread bytes. They stay empty if the client has sent all of its data.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let bytes = scratch.len().min(bytes_max);
            let mut read = ReadBuf::new(scratch.get_mut(..bytes).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            self.unread(read.filled());
            Poll::Ready(Ok(()))
        })
    }
}

impl RelayStream for ClientStream {
    fn plain_tcp(&self) -> Option<&TcpStream> {
        let is_unchanged = self.unread_rest().is_empty() && self.bandwidth.is_none();
        is_unchanged.then_some(&self.stream)
    }

    fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    fn is_throttled(&self) -> bool {
        let bandwidth = self.bandwidth.as_deref();
        bandwidth.is_some_and(ConnectionBandwidth::is_waiting)
    }
}

impl AbortiveClose for ClientStream {
    fn abort_on_drop(&mut self) {
        self.stream.abort_on_drop();
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread_rest().is_empty() {
            let Some(bytes_max) = self.received().map(|throttle| throttle.chunk_bytes_max()) else {
                return Pin::new(&mut self.stream).poll_read(cx, buffer);
            };
            ready!(self.poll_read_ahead(cx, bytes_max))?;
        }
        let mut count = self.unread_rest().len().min(buffer.remaining());
        if count > 0
            && let Some(throttle) = self.received()
        {
            count = ready!(throttle.poll_reserve(cx, count));
            throttle.consume(count);
        }
        buffer.put_slice(self.unread_rest().get(..count).unwrap_or_default());
        self.position += count;
        if self.unread_rest().is_empty() {
            self.unread(&[]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() || self.sent().is_none() {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let count = match self.sent() {
            Some(throttle) => ready!(throttle.poll_reserve(cx, bytes.len())),
            None => bytes.len(),
        };
        let within = bytes.get(..count).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, within))?;
        if let Some(throttle) = self.sent() {
            throttle.consume(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.sent().is_some() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[], |first| first));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    delegate_write_control!(stream);
}

#[cfg(test)]
mod tests;
