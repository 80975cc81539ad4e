//! Pipes: through one, the kernel moves the pages of a long stream from socket to socket, and no byte of them comes to this
//! process (splice(2)). A stream that says little is better off without: a pipe costs two calls more for each step.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Pipes at the same time: each holds two descriptors, and what is in it is the kernel's memory. Streams for which none
/// is left are copied.
pub(super) const PIPES_MAX: usize = 256;
/// Of these, how many a thread keeps for streams to come: making one and giving it its size is several calls.
const SPARE_MAX: usize = 16;
/// What a pipe is made to hold; the kernel may allow less.
const PIPE_BYTES: usize = 1 << 20;

static OPEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SPARE: RefCell<Vec<Ends>> = const { RefCell::new(Vec::new()) };
}

/// A pipe in the use of one direction. It goes back to its thread when it is dropped empty.
#[derive(Debug)]
pub(super) struct Pipe {
    ends: Option<Ends>,
    /// Bytes that are in it.
    held: usize,
}

#[derive(Debug)]
struct Ends {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    /// An empty pipe; nothing if there are too many, or no descriptors are left.
    pub fn take() -> Option<Self> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let ends = spare.or_else(Ends::open)?;
        Some(Self {
            ends: Some(ends),
            held: 0,
        })
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Has the kernel move what a socket has received into it; how much. Nothing if the other side has ended.
    pub fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let moved = from.try_io(Interest::READABLE, || {
            retry_on_intr(|| splice(from, None, &ends.into, None, PIPE_BYTES, FLAGS)).map_err(would_block)
        })?;
        self.held += moved;
        Ok(moved)
    }

    /// Has the kernel send what is in it; how much it took.
    pub fn drain(&mut self, to: &TcpStream) -> io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let held = self.held;
        let moved = to.try_io(Interest::WRITABLE, || {
            retry_on_intr(|| splice(&ends.out, None, to, None, held, FLAGS)).map_err(would_block)
        })?;
        self.held = self.held.saturating_sub(moved);
        Ok(moved)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.held > 0 {
            return;
        }
        // A thread that ends has no place for spare ones any more.
        let ends = self.ends.take();
        let kept = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.extend(ends);
            }
        });
        if kept.is_err() {
            tracing::trace!("a pipe is closed with its thread");
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
            Ok((out, into)) => {
                if let Err(error) = fcntl_setpipe_size(&into, PIPE_BYTES) {
                    tracing::trace!(%error, "a pipe keeps its size");
                }
                Some(Self { out, into })
            }
            Err(error) => {
                OPEN.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "a stream is copied for want of a pipe");
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
