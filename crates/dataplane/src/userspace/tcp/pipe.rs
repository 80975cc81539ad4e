//! Pipe for bulk streams: `splice(2)` moves pages in the kernel without a copy into this process. For other streams,
//! a pipe costs more than it saves.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Maximum of pipes. Each one holds two file descriptors and up to [`PIPE_BYTES`] of kernel memory. Further streams
/// are copied.
const PIPES_MAX: usize = 64;
/// Requested capacity of a pipe, which is the default limit for unprivileged users. Larger steps cost less per byte.
/// The kernel may allow less.
const PIPE_BYTES: usize = 1 << 20;

static PIPES: AtomicUsize = AtomicUsize::new(0);

/// Pipe for one direction of a connection.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes in the pipe.
    pub buffered: usize,
}

impl Pipe {
    /// Opens a pipe. Returns `None` if there are too many, or no file descriptor is left.
    pub fn open() -> Option<Self> {
        let is_room = PIPES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < PIPES_MAX).then_some(open + 1)
        });
        is_room.ok()?;
        match pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC) {
            Ok((out, into)) => {
                if let Err(error) = fcntl_setpipe_size(&into, PIPE_BYTES) {
                    tracing::trace!(%error, "pipe not enlarged");
                }
                Some(Self {
                    out,
                    into,
                    buffered: 0,
                })
            }
            Err(error) => {
                PIPES.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "pipe not opened");
                None
            }
        }
    }

    /// Moves data from the sender into an empty pipe. Returns the number of bytes; zero at end of stream.
    pub fn fill(&mut self, from: &impl AsFd) -> rustix::io::Result<usize> {
        let bytes = splice(from, None, &self.into, None, PIPE_BYTES, flags())?;
        self.buffered += bytes;
        Ok(bytes)
    }

    /// Moves data from the pipe to the receiver until the pipe is empty or the receiver blocks.
    pub fn drain(&mut self, to: &impl AsFd) -> rustix::io::Result<()> {
        while self.buffered > 0 {
            let written = splice(&self.out, None, to, None, self.buffered, flags())?;
            self.buffered = self.buffered.saturating_sub(written);
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}

fn flags() -> SpliceFlags {
    SpliceFlags::MOVE | SpliceFlags::NONBLOCK
}
