//! A pipe for a stream with much to say: the kernel passes its pages on without copying them into this process and back.
//! For a stream that says little a pipe costs more than it saves.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Pipes at the same time: each holds two descriptors and up to [`PIPE_BYTES`] of the kernel's memory. Further streams
/// are copied.
const PIPES_MAX: usize = 64;
/// What a pipe is made to hold: the more goes at once, the less it costs. The kernel may allow less; it allows everybody
/// this much.
const PIPE_BYTES: usize = 1 << 20;

static PIPES: AtomicUsize = AtomicUsize::new(0);

/// A pipe of one direction of a connection.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes that are in it.
    pub held: usize,
}

impl Pipe {
    /// Opens a pipe; `None` if there are too many, or no descriptors are left.
    pub fn open() -> Option<Self> {
        let is_room = PIPES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < PIPES_MAX).then_some(open + 1)
        });
        is_room.ok()?;
        match pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC) {
            Ok((out, into)) => {
                if let Err(error) = fcntl_setpipe_size(&into, PIPE_BYTES) {
                    tracing::trace!(%error, "a pipe stays as small as it is");
                }
                Some(Self { out, into, held: 0 })
            }
            Err(error) => {
                PIPES.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "no pipe for a stream");
                None
            }
        }
    }

    /// Takes what a sender has said into an empty pipe; how much. Nothing if it has ended.
    pub fn fill(&mut self, from: &impl AsFd) -> rustix::io::Result<usize> {
        let bytes = splice(from, None, &self.into, None, PIPE_BYTES, flags())?;
        self.held += bytes;
        Ok(bytes)
    }

    /// Passes on what is in it, as far as the reader takes it.
    pub fn drain(&mut self, to: &impl AsFd) -> rustix::io::Result<()> {
        while self.held > 0 {
            let passed = splice(&self.out, None, to, None, self.held, flags())?;
            self.held = self.held.saturating_sub(passed);
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
