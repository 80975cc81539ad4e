//! A stream with much to say: it goes through a pipe, so that the kernel passes its pages on without copying them
//! into this process and back. For a stream that says little a pipe costs more than it saves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Pipes at the same time: each holds two descriptors and up to [`PIPE_BYTES`] of the kernel's memory. Further streams
/// are copied.
const PIPES_MAX: usize = 128;
/// What a pipe is made to hold. The kernel may allow less.
const PIPE_BYTES: usize = 256 << 10;
/// What one step passes on at least as long as the stream has much to say.
const THIN_BYTES: usize = 8 << 10;
/// So many steps with less in a row tell that it has no more.
const THIN_STEPS: usize = 16;

static PIPES: AtomicUsize = AtomicUsize::new(0);

/// How a bulk stream went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It says little by now.
    Thin,
    /// It has ended.
    End,
}

/// A pipe of one direction of a connection.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
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
                Some(Self { out, into })
            }
            Err(error) => {
                PIPES.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!(%error, "no pipe for a stream");
                None
            }
        }
    }

    /// Passes on one direction until it ends or says little. The pipe is empty then, unless there was an error.
    pub async fn pass_on(&self, from: &TcpStream, to: &TcpStream) -> io::Result<Passed> {
        let mut thin_steps = 0;
        while thin_steps < THIN_STEPS {
            from.readable().await?;
            let bytes = match from.try_io(Interest::READABLE, || self.fill(from)) {
                Ok(0) => return Ok(Passed::End),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            self.empty(bytes, to).await?;
            thin_steps = if bytes < THIN_BYTES { thin_steps + 1 } else { 0 };
        }
        Ok(Passed::Thin)
    }

    async fn empty(&self, mut bytes: usize, to: &TcpStream) -> io::Result<()> {
        while bytes > 0 {
            match to.try_io(Interest::WRITABLE, || self.drain(to, bytes)) {
                Ok(passed) => bytes -= passed.min(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fill(&self, from: &TcpStream) -> io::Result<usize> {
        Ok(splice(from, None, &self.into, None, PIPE_BYTES, flags())?)
    }

    fn drain(&self, to: &TcpStream, bytes: usize) -> io::Result<usize> {
        Ok(splice(&self.out, None, to, None, bytes, flags())?)
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
