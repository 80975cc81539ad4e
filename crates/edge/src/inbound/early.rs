//! A connection of which more was read than was meant: what is left comes first. Where it shares a bandwidth, what is read
//! waits for its turn in the same way.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::shared_bandwidth::{Lane, SharedBandwidth};
use crate::relay::{BreakOff, Side, carried_by};

/// Read at once, where what is read has to wait.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A connection, and what was read of it and is to be read again.
#[derive(Debug)]
pub(crate) struct Early {
    stream: TcpStream,
    words: Box<[u8]>,
    read: usize,
    bandwidth: Option<Box<SharedBandwidth>>,
}

impl Early {
    /// A connection of which nothing was read.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            words: Box::default(),
            read: 0,
            bandwidth: None,
        }
    }

    /// Has these bytes be read next. All that was put back before must have been read.
    pub fn put_back(&mut self, words: &[u8]) {
        (self.words, self.read) = (words.into(), 0);
    }

    /// Takes its turns from now on, if there is a bandwidth to be shared.
    pub fn share(&mut self, bandwidth: Option<Box<SharedBandwidth>>) {
        self.bandwidth = bandwidth;
    }

    fn left(&self) -> &[u8] {
        self.words.get(self.read..).unwrap_or_default()
    }

    fn received(&mut self) -> Option<&mut Lane> {
        self.bandwidth.as_deref_mut()?.received.as_mut()
    }

    fn sent(&mut self) -> Option<&mut Lane> {
        self.bandwidth.as_deref_mut()?.sent.as_mut()
    }

    /// Reads what passes in one turn. Nothing if the client has said all.
    fn poll_words(&mut self, cx: &mut Context<'_>, share: usize) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let bytes = scratch.len().min(share);
            let mut read = ReadBuf::new(scratch.get_mut(..bytes).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            self.put_back(read.filled());
            Poll::Ready(Ok(()))
        })
    }
}

impl Side for Early {
    fn bare(&self) -> Option<&TcpStream> {
        let is_as_it_comes = self.left().is_empty() && self.bandwidth.is_none();
        is_as_it_comes.then_some(&self.stream)
    }

    fn socket(&self) -> &TcpStream {
        &self.stream
    }

    fn is_held_back(&self) -> bool {
        let bandwidth = self.bandwidth.as_deref();
        bandwidth.is_some_and(SharedBandwidth::is_waiting)
    }
}

impl BreakOff for Early {
    fn break_off(&mut self) {
        self.stream.break_off();
    }
}

impl AsyncRead for Early {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left().is_empty() {
            let Some(share) = self.received().map(|lane| lane.share()) else {
                return Pin::new(&mut self.stream).poll_read(cx, buffer);
            };
            ready!(self.poll_words(cx, share))?;
        }
        let mut count = self.left().len().min(buffer.remaining());
        if count > 0
            && let Some(lane) = self.received()
        {
            count = ready!(lane.poll_turn(cx, count));
            lane.passed(count);
        }
        buffer.put_slice(self.left().get(..count).unwrap_or_default());
        self.read += count;
        if self.left().is_empty() {
            self.put_back(&[]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Early {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() || self.sent().is_none() {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let count = match self.sent() {
            Some(lane) => ready!(lane.poll_turn(cx, bytes.len())),
            None => bytes.len(),
        };
        let within = bytes.get(..count).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, within))?;
        if let Some(lane) = self.sent() {
            lane.passed(written);
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

    carried_by!(stream);
}

#[cfg(test)]
mod tests;
