//! Copy of one direction between two connected sockets, up to the end of the stream.

use std::io;
use std::os::fd::AsFd;

use relay::Pipe;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Size of the buffer that all connections of a worker share, so that idle ones need no memory. A direction whose
/// receiver is slow stores the rest of one read.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// Consecutive steps that fill the buffer, or that the receiver does not take at once, after which a stream is bulk.
const BULK_STEPS: usize = 4;
/// Minimum of bytes in a pipe step of a bulk stream.
const SPARSE_BYTES: usize = 8 << 10;
/// Consecutive pipe steps below that minimum after which a stream is no longer bulk.
const SPARSE_STEPS: usize = 16;
/// Steps of one direction before others continue.
const STEPS_PER_POLL: usize = 16;

/// State of a direction after a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PumpProgress {
    /// All available data is sent.
    Drained,
    /// The receiver is not writable.
    Blocked,
    /// More data may be available; other connections continue first.
    Yielded,
    /// The sender closed its side, and all data is sent.
    Ended,
}

/// State of one direction.
#[derive(Debug, Default)]
pub(super) struct Pump {
    /// Data that was read and is not completely sent.
    unsent: Box<[u8]>,
    /// Number of those bytes that are sent.
    sent: usize,
    pipe: Option<Pipe>,
    /// Consecutive full steps, or sparse ones while there is a pipe.
    steps: usize,
    /// True if the stream has just become bulk.
    became_bulk: bool,
    /// True if the sender closed its side; the kernel reports this only once.
    peer_closed: bool,
    /// True if a short read does not mean that the receive queue is empty.
    reads_until_drained: bool,
    /// True if the receiver has received data.
    has_sent: bool,
    is_ended: bool,
}

impl Pump {
    /// Records that the sender closed its side.
    pub(super) fn record_peer_closed(&mut self) {
        self.peer_closed = true;
    }

    /// Records that a short read does not mean an empty queue: a read stops before urgent data (`tcp(7)`,
    /// "sockatmark"), and before a pending error.
    pub(super) fn read_until_drained(&mut self) {
        self.reads_until_drained = true;
    }

    /// Returns true if data was sent and the sender may send more. It may wait for an acknowledgement first.
    pub(super) fn is_mid_stream(&self) -> bool {
        self.has_sent && !self.peer_closed
    }

    /// Returns true if the receiver has received data.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// Returns true if data was read that is not sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads the available data of the sender, unless earlier data is unsent. The data is kept for any receiver. An
    /// error concerns the sender.
    pub(super) fn read_available(&mut self, from: &impl AsFd, buffer: &mut [u8]) -> io::Result<()> {
        if !self.has_unsent()
            && let Some((bytes, _)) = or_would_block(|| recv(from, &mut *buffer, RecvFlags::DONTWAIT))?
        {
            self.unsent = buffer.get(..bytes).unwrap_or_default().into();
        }
        Ok(())
    }

    /// Sends the unsent data to a receiver that may not be connected yet. Returns true if the receiver has received
    /// data, so that it is connected. An error means that it received none, so that another receiver may receive the
    /// data.
    pub(super) fn try_send(&mut self, to: &impl AsFd) -> io::Result<bool> {
        match self.flush(to) {
            // A receiver that received data has to receive the rest; a later send reports the error.
            Err(error) if !self.has_sent => Err(error),
            _ => Ok(self.has_sent),
        }
    }

    /// Returns true once after the stream has become bulk.
    pub(super) fn take_became_bulk(&mut self) -> bool {
        std::mem::take(&mut self.became_bulk)
    }

    /// Returns true if the stream is relayed up to its end.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Relays the available data. The registration is edge-triggered. The pump therefore continues until nothing is
    /// readable, the receiver is not writable, or its steps are used up.
    pub(super) fn pump(
        &mut self,
        from: &impl AsFd,
        to: &impl AsFd,
        buffer: &mut [u8],
    ) -> io::Result<PumpProgress> {
        if self.is_ended {
            return Ok(PumpProgress::Ended);
        }
        for _ in 0..STEPS_PER_POLL {
            if !self.flush(to)? {
                return Ok(PumpProgress::Blocked);
            }
            self.close_idle_pipe();
            let step = match self.pipe {
                Some(_) => self.splice(from)?,
                None => self.copy(from, to, buffer)?,
            };
            if let Some(pumped) = step {
                self.is_ended = pumped == PumpProgress::Ended;
                return Ok(pumped);
            }
        }
        Ok(PumpProgress::Yielded)
    }

    /// Sends unsent data. Returns true if nothing is left.
    fn flush(&mut self, to: &impl AsFd) -> io::Result<bool> {
        while let Some(pipe) = self.pipe.as_mut().filter(|pipe| !pipe.is_empty()) {
            if or_would_block(|| pipe.drain(to))?.is_none() {
                return Ok(false);
            }
        }
        while let Some(remaining) = self
            .unsent
            .get(self.sent..)
            .filter(|remaining| !remaining.is_empty())
        {
            match or_would_block(|| send(to, remaining, SEND))? {
                Some(bytes) => {
                    self.sent += bytes;
                    self.has_sent = true;
                }
                None => return Ok(false),
            }
        }
        (self.unsent, self.sent) = (Box::default(), 0);
        Ok(true)
    }

    /// Copies one read. Returns `None` if another step may follow.
    fn copy(
        &mut self,
        from: &impl AsFd,
        to: &impl AsFd,
        buffer: &mut [u8],
    ) -> io::Result<Option<PumpProgress>> {
        let Some((bytes, _)) = or_would_block(|| recv(from, &mut *buffer, RecvFlags::DONTWAIT))? else {
            self.reads_until_drained = false;
            return Ok(Some(PumpProgress::Drained));
        };
        if bytes == 0 {
            return Ok(Some(PumpProgress::Ended));
        }
        let is_full = bytes == buffer.len();
        let data = buffer.get(..bytes).unwrap_or_default();
        // MSG_MORE lets the FIN travel in the same segment as the last data.
        let flags = if self.peer_closed && !is_full {
            SEND | SendFlags::MORE
        } else {
            SEND
        };
        let sent = or_would_block(|| send(to, data, flags))?.unwrap_or(0);
        self.has_sent |= sent > 0;
        self.unsent = data.get(sent..).unwrap_or_default().into();
        self.steps = if is_full || !self.unsent.is_empty() {
            self.steps + 1
        } else {
            0
        };
        if self.steps >= BULK_STEPS {
            self.steps = 0;
            self.became_bulk = true;
            self.pipe = Pipe::take();
        }
        // A short read has emptied the receive queue.
        if is_full || self.has_unsent() || self.reads_until_drained {
            return Ok(None);
        }
        Ok(Some(if self.peer_closed {
            PumpProgress::Ended
        } else {
            PumpProgress::Drained
        }))
    }

    /// Moves data through the pipe. Returns `None` if another step may follow.
    fn splice(&mut self, from: &impl AsFd) -> io::Result<Option<PumpProgress>> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(None);
        };
        let Some(bytes) = or_would_block(|| pipe.fill(from))? else {
            return Ok(Some(PumpProgress::Drained));
        };
        if bytes == 0 {
            return Ok(Some(PumpProgress::Ended));
        }
        self.steps = if bytes < SPARSE_BYTES { self.steps + 1 } else { 0 };
        Ok(None)
    }

    /// Closes the pipe of a stream that is no longer bulk.
    fn close_idle_pipe(&mut self) {
        if self.steps >= SPARSE_STEPS && self.pipe.as_ref().is_some_and(Pipe::is_empty) {
            (self.pipe, self.steps) = (None, 0);
        }
    }
}

const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Calls a function until it is not interrupted; returns `None` if it would block.
fn or_would_block<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<Option<T>> {
    match retry_on_intr(call) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
