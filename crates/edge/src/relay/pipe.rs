//! Pipes, through which the kernel moves the data of a long stream from socket to socket without copying it to this
//! process (splice(2)). For a stream with little data a pipe costs more than it saves: two system calls for each
//! step.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Pipes at the same time. Each holds two descriptors, and its content is memory of the kernel. Streams without a
/// pipe are copied.
pub(super) const PIPES_MAX: usize = 256;
/// Idle pipes that a thread keeps: opening one and setting its size takes several system calls.
const IDLE_PIPES_MAX: usize = 16;
/// Requested size of a pipe; the kernel may allow less.
const PIPE_BYTES: usize = 1 << 20;

static OPEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IDLE: RefCell<Vec<Ends>> = const { RefCell::new(Vec::new()) };
}

/// A pipe of one direction. If it is empty when it is dropped, its thread keeps it.
#[derive(Debug)]
pub(super) struct Pipe {
    ends: Option<Ends>,
    /// Bytes in the pipe.
    buffered: usize,
}

#[derive(Debug)]
struct Ends {
    output: OwnedFd,
    input: OwnedFd,
}

impl Pipe {
    /// An empty pipe. Returns `None` if too many are open or no descriptor is left.
    pub fn take() -> Option<Self> {
        let idle = IDLE.with_borrow_mut(Vec::pop);
        let ends = idle.or_else(Ends::open)?;
        Some(Self {
            ends: Some(ends),
            buffered: 0,
        })
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.buffered == 0
    }

    /// Moves received bytes of a socket into the pipe. Returns their number, which is 0 at the end of the stream.
    ///
    /// # Errors
    /// The error of the socket; `WouldBlock` if nothing was received.
    pub fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let moved = from.try_io(Interest::READABLE, || {
            retry_on_intr(|| splice(from, None, &ends.input, None, PIPE_BYTES, FLAGS)).map_err(would_block)
        })?;
        self.buffered += moved;
        Ok(moved)
    }

    /// Sends the bytes of the pipe. Returns the number of sent bytes.
    ///
    /// # Errors
    /// The error of the socket; `WouldBlock` if its send buffer is full.
    pub fn drain(&mut self, to: &TcpStream) -> io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let buffered = self.buffered;
        let moved = to.try_io(Interest::WRITABLE, || {
            retry_on_intr(|| splice(&ends.output, None, to, None, buffered, FLAGS)).map_err(would_block)
        })?;
        self.buffered = self.buffered.saturating_sub(moved);
        Ok(moved)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.buffered > 0 {
            return;
        }
        // When a thread exits, its storage may be gone already.
        let ends = self.ends.take();
        let returned = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            if idle.len() < IDLE_PIPES_MAX {
                idle.extend(ends);
            }
        });
        if returned.is_err() {
            tracing::trace!("pipe closed with its thread");
        }
    }
}

impl Ends {
    fn open() -> Option<Self> {
        let is_room = OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < PIPES_MAX).then_some(open + 1)
        });
        is_room.ok()?;
        match pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC) {
            Ok((output, input)) => {
                if let Err(error) = fcntl_setpipe_size(&input, PIPE_BYTES) {
                    tracing::trace!(%error, "size of a pipe not set");
                }
                Some(Self { output, input })
            }
            Err(error) => {
                OPEN.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "no pipe, stream is copied");
                None
            }
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

fn would_block(error: Errno) -> io::Error {
    error.into()
}
