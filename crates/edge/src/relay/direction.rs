//! One direction of a relay.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use relay::Pipe;
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

use super::buffer::BUFFER;
use super::initial_data::InitialData;
use crate::stream::RelayStream;

/// Bytes of a bulk read.
const BULK_READ_BYTES_MIN: usize = 16 << 10;
/// Bulk reads in a row after which a stream gets a pipe.
const BULK_READS_MIN: u32 = 8;
/// Bytes below which a splice is small.
const SMALL_SPLICE_BYTES: usize = 8 << 10;
/// Number of small splices in a row after which a stream loses its pipe.
const SMALL_SPLICES_MAX: u32 = 16;
/// Maximum number of steps of a direction before other tasks run.
const STEPS_PER_POLL_MAX: u32 = 32;

/// State of a direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Bytes that were read, from `written` on still to be written.
    pending: Box<[u8]>,
    /// Bytes of `pending` that are written.
    written: usize,
    pipe: Option<Pipe>,
    /// Bulk reads in a row; with a pipe, small splices in a row.
    steps: u32,
    relayed_bytes: u64,
    /// True while the writer may buffer bytes.
    is_unflushed: bool,
    stage: Stage,
}

/// Stage of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// More data may come.
    #[default]
    Open,
    /// All data was read and written. The shutdown waits until other tasks have run once. If the peer closes its side
    /// meanwhile, the wait saves a segment.
    Drained,
    /// The writer has to be shut down.
    ShuttingDown,
    /// The writer has to be shut down, and the kernel holds the last bytes back, to send them in the same segment.
    ShuttingDownWithData,
    /// The writer is shut down.
    ShutDown,
}

/// Result of a step.
enum Step {
    /// Data was read.
    Read,
    /// The reader has ended.
    End,
    /// The reader has ended, and the kernel holds the last bytes back until the shutdown.
    EndWithData,
}

impl Direction {
    /// Returns a direction that starts with the initial data of a client.
    pub(super) fn following(initial: InitialData) -> Self {
        Self {
            pending: initial.bytes,
            written: initial.sent,
            relayed_bytes: initial.sent as u64,
            ..Self::default()
        }
    }

    /// Returns true if all data was written. The writer may not be shut down yet.
    pub(super) fn is_drained(&self) -> bool {
        self.stage != Stage::Open && self.pending.is_empty()
    }

    /// Returns true while the shutdown waits until other tasks have run.
    pub(super) fn defers_shutdown(&self) -> bool {
        self.stage == Stage::Drained && self.pending.is_empty()
    }

    /// Bytes that were written.
    pub(super) fn relayed_bytes(&self) -> u64 {
        self.relayed_bytes
    }

    /// Copies data. Completes when all data is written and the writer is shut down.
    ///
    /// With `may_defer`, the shutdown usually waits. `is_last` states that the other direction has no more data either,
    /// so that both connections are closed in any case.
    pub(super) fn poll<F: RelayStream, T: RelayStream>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
        is_last: bool,
        may_defer: bool,
    ) -> Poll<io::Result<()>> {
        for _ in 0..STEPS_PER_POLL_MAX {
            if self.stage == Stage::ShutDown {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_pending(cx, to))?;
            if self.stage == Stage::Drained {
                if may_defer && !is_last {
                    return Poll::Pending;
                }
                self.stage = Stage::ShuttingDown;
            }
            if matches!(self.stage, Stage::ShuttingDown | Stage::ShuttingDownWithData) {
                // Closing a plain socket sends the same FIN.
                let is_implied_by_close =
                    self.stage == Stage::ShuttingDown && is_last && to.plain_tcp().is_some();
                if !is_implied_by_close {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                }
                self.stage = Stage::ShutDown;
                continue;
            }
            if self.pipe.is_some() && self.steps >= SMALL_SPLICES_MAX {
                (self.pipe, self.steps) = (None, 0);
            }
            let step = match self.pipe {
                Some(_) => self.poll_splice(cx, from)?,
                None => self.poll_copy(cx, from, to)?,
            };
            match step {
                Poll::Ready(Step::Read) => {}
                Poll::Ready(Step::End) => self.stage = Stage::Drained,
                Poll::Ready(Step::EndWithData) => self.stage = Stage::ShuttingDownWithData,
                Poll::Pending => {
                    if self.is_unflushed && Pin::new(&mut *to).poll_flush(cx)?.is_ready() {
                        self.is_unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes the pending bytes.
    fn poll_pending<T: RelayStream>(&mut self, cx: &mut Context<'_>, to: &mut T) -> Poll<io::Result<()>> {
        while self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty()) {
            let (Some(pipe), Some(socket)) = (&mut self.pipe, to.plain_tcp()) else {
                break;
            };
            ready!(socket.poll_write_ready(cx))?;
            match socket.try_io(Interest::WRITABLE, || Ok(pipe.drain(socket)?)) {
                Ok(bytes) => self.relayed_bytes += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        while let Some(left) = self.pending.get(self.written..).filter(|left| !left.is_empty()) {
            let bytes = ready!(Pin::new(&mut *to).poll_write(cx, left))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.count_written(bytes);
        }
        if self.written > 0 {
            (self.pending, self.written) = (Box::default(), 0);
        }
        Poll::Ready(Ok(()))
    }

    fn count_written(&mut self, bytes: usize) {
        self.written += bytes;
        self.relayed_bytes += bytes as u64;
        self.is_unflushed = true;
    }

    /// Performs a step of a stream with little data, through the buffer of the thread.
    fn poll_copy<F: RelayStream, T: RelayStream>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
    ) -> io::Result<Poll<Step>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            let next = poll_read_available(cx, from, &mut read);
            let data = read.filled();
            if data.is_empty() {
                return next;
            }
            let is_all = matches!(next, Ok(Poll::Ready(Step::End)));
            let (written, is_corked) = match to.plain_tcp().filter(|_| is_all) {
                Some(socket) => (poll_write_corked(cx, socket, data)?, true),
                None => (Pin::new(&mut *to).poll_write(cx, data)?, false),
            };
            let written = match written {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            self.pending = data.get(written..).unwrap_or_default().into();
            self.relayed_bytes += written as u64;
            self.is_unflushed = true;
            self.steps = if data.len() >= BULK_READ_BYTES_MIN {
                self.steps + 1
            } else {
                0
            };
            if self.steps >= BULK_READS_MIN {
                self.steps = 0;
                if from.plain_tcp().is_some() && to.plain_tcp().is_some() {
                    self.pipe = Pipe::take();
                }
            }
            match next? {
                Poll::Ready(Step::End) if is_corked && self.pending.is_empty() => {
                    Ok(Poll::Ready(Step::EndWithData))
                }
                Poll::Pending if !self.pending.is_empty() => Ok(Poll::Ready(Step::Read)),
                next => Ok(next),
            }
        })
    }

    /// Performs a step of a stream with much data, into the pipe. The next step writes it before it reads again.
    fn poll_splice<F: RelayStream>(&mut self, cx: &mut Context<'_>, from: &mut F) -> io::Result<Poll<Step>> {
        let (Some(pipe), Some(socket)) = (&mut self.pipe, from.plain_tcp()) else {
            return Ok(Poll::Ready(Step::Read));
        };
        loop {
            if socket.poll_read_ready(cx)?.is_pending() {
                return Ok(Poll::Pending);
            }
            match socket.try_io(Interest::READABLE, || Ok(pipe.fill(socket)?)) {
                Ok(0) => return Ok(Poll::Ready(Step::End)),
                Ok(bytes) => {
                    self.steps = if bytes < SMALL_SPLICE_BYTES {
                        self.steps + 1
                    } else {
                        0
                    };
                    return Ok(Poll::Ready(Step::Read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads until nothing is left for now, the buffer is full, or the stream ends.
fn poll_read_available<F: RelayStream>(
    cx: &mut Context<'_>,
    from: &mut F,
    read: &mut ReadBuf<'_>,
) -> io::Result<Poll<Step>> {
    while read.remaining() > 0 {
        let before = read.filled().len();
        match Pin::new(&mut *from).poll_read(cx, read) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) if is_truncated(&error) => return Ok(Poll::Ready(Step::End)),
            Poll::Ready(result) => result?,
        }
        if read.filled().len() == before {
            return Ok(Poll::Ready(Step::End));
        }
    }
    Ok(Poll::Ready(Step::Read))
}

/// Writes the last bytes. The kernel holds them back for a moment, to send them with the FIN (MSG_MORE).
fn poll_write_corked(cx: &mut Context<'_>, to: &TcpStream, data: &[u8]) -> io::Result<Poll<usize>> {
    const FLAGS: SendFlags = SendFlags::MORE.union(SendFlags::NOSIGNAL);
    loop {
        if to.poll_write_ready(cx)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let written = to.try_io(Interest::WRITABLE, || {
            Ok(retry_on_intr(|| send(to, data, FLAGS))?)
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return written.map(Poll::Ready),
        }
    }
}

/// Returns true for a TLS stream that ended without `close_notify`. The relay handles this as the end of the stream.
fn is_truncated(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}
