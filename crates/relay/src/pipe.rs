//! Pipe for bulk streams: `splice(2)` moves pages in the kernel without a copy into this process.
//!
//! For a stream with little data, a pipe costs more than it saves: two system calls for each step.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

#[cfg(test)]
mod tests;

/// Maximum number of open pipes of this process. Each one holds two file descriptors and up to [`PIPE_BYTES`] of kernel
/// memory. Streams without a pipe are copied.
const PIPES_MAX: usize = 256;
/// Maximum number of idle pipes that a thread keeps: opening a pipe and setting its size takes several system calls.
const IDLE_PIPES_MAX: usize = 16;
/// Requested capacity of a pipe, which is the default limit for unprivileged users (pipe(7)). Larger steps
/// cost less per byte. The kernel may allow less.
const PIPE_BYTES: usize = 1 << 20;

const SPLICE_FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

static OPEN_PIPES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IDLE_PIPES: RefCell<Vec<PipeEnds>> = const { RefCell::new(Vec::new()) };
}

/// Pipe for one direction of a connection. The thread keeps a pipe that is empty when it is dropped.
#[derive(Debug)]
pub struct Pipe {
    /// `None` only while the pipe is dropped.
    ends: Option<PipeEnds>,
    buffered_bytes: usize,
}

/// The two ends of a pipe.
#[derive(Debug)]
struct PipeEnds {
    output: OwnedFd,
    input: OwnedFd,
}

impl Pipe {
    /// Takes an empty pipe. Returns `None` if too many pipes are open, or if no file descriptor is left.
    pub fn take() -> Option<Self> {
        let idle = IDLE_PIPES.with_borrow_mut(Vec::pop);
        let ends = idle.or_else(PipeEnds::open)?;
        Some(Self {
            ends: Some(ends),
            buffered_bytes: 0,
        })
    }

    /// Returns true if the pipe holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.buffered_bytes == 0
    }

    /// Moves received bytes of a socket into the pipe. Returns their number, which is 0 at the end of the stream.
    ///
    /// # Errors
    /// The error of the socket; `EAGAIN` if nothing was received or the pipe is full.
    pub fn fill(&mut self, from: impl AsFd) -> rustix::io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let moved = retry_on_intr(|| splice(&from, None, &ends.input, None, PIPE_BYTES, SPLICE_FLAGS))?;
        self.buffered_bytes += moved;
        Ok(moved)
    }

    /// Sends bytes of the pipe. Returns their number, which may be less than the content of the pipe.
    ///
    /// # Errors
    /// The error of the socket; `EAGAIN` if its send buffer is full.
    pub fn drain(&mut self, to: impl AsFd) -> rustix::io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let buffered = self.buffered_bytes;
        let moved = retry_on_intr(|| splice(&ends.output, None, &to, None, buffered, SPLICE_FLAGS))?;
        self.buffered_bytes = buffered.saturating_sub(moved);
        Ok(moved)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if !self.is_empty() {
            return;
        }
        let ends = self.ends.take();
        let returned = IDLE_PIPES.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < IDLE_PIPES_MAX {
                idle.extend(ends);
            }
        });
        // When a thread exits, its storage may already be destroyed.
        if returned.is_err() {
            tracing::trace!("pipe closed with its thread");
        }
    }
}

impl PipeEnds {
    fn open() -> Option<Self> {
        let is_room = OPEN_PIPES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < PIPES_MAX).then_some(open + 1)
        });
        is_room.ok()?;
        match pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC) {
            Ok((output, input)) => {
                if let Err(error) = fcntl_setpipe_size(&input, PIPE_BYTES) {
                    tracing::trace!(%error, "pipe not enlarged");
                }
                Some(Self { output, input })
            }
            Err(error) => {
                OPEN_PIPES.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "pipe not opened; the stream is copied");
                None
            }
        }
    }
}

impl Drop for PipeEnds {
    fn drop(&mut self) {
        OPEN_PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}
