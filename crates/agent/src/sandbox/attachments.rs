//! Standard streams of a running container, and the sessions that are attached to them. A thread reads the output for
//! the log; it copies each read to the sessions, before a line is complete.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::error_log::log_error;
use super::session::SessionMessage;

#[cfg(test)]
mod tests;

/// Longest time in which a session takes no output. The container waits meanwhile; then the session receives no more.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the end of that time is checked.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Standard input of a container.
#[derive(Debug)]
pub(super) enum ContainerInput {
    /// Empty.
    Null,
    /// Other end of a pipe. With `is_for_one`, the first session with an input takes it; the input ends with that
    /// session.
    Pipe {
        /// The end; `None` once a session has taken it.
        end: Option<OwnedFd>,
        is_for_one: bool,
    },
    /// Controlling side of a terminal.
    Terminal {
        /// Controlling side.
        controller: OwnedFd,
        /// Set if sessions may write input.
        has_input: bool,
    },
}

/// Standard streams of one run of a container. Clones share them.
#[derive(Clone)]
pub(super) struct ContainerStreams {
    shared: Arc<Mutex<StreamsState>>,
}

struct StreamsState {
    input: ContainerInput,
    attached: BTreeMap<u64, AttachedSession>,
    /// Sessions so far.
    begun: u64,
    has_output: bool,
}

struct AttachedSession {
    /// Output; `None` at its end.
    output: Option<Arc<PipeWriter>>,
    agent: UnixStream,
}

impl ContainerStreams {
    /// Returns the streams of a container without sessions.
    pub(super) fn new(input: ContainerInput) -> Self {
        Self {
            shared: Arc::new(Mutex::new(StreamsState {
                input,
                attached: BTreeMap::new(),
                begun: 0,
                has_output: true,
            })),
        }
    }

    /// Sends the ends of the streams to `agent`, which receives the exit of the container later. Returns the number of
    /// the session.
    ///
    /// # Errors
    /// Errors of the pipe and of the socket.
    pub(super) fn attach(&self, agent: &UnixStream, has_input: bool) -> io::Result<u64> {
        let mut shared = self.lock();
        let (reading, writing) = io::pipe()?;
        rustix::io::ioctl_fionbio(&writing, true)?;
        let (message, input) = shared.input.first_message(has_input)?;
        let mut ends: Vec<BorrowedFd<'_>> = input.iter().map(AsFd::as_fd).collect();
        ends.push(reading.as_fd());
        message.send(agent, &ends)?;
        shared.begun += 1;
        let id = shared.begun;
        let output = shared.has_output.then(|| Arc::new(writing));
        let agent = agent.try_clone()?;
        shared.attached.insert(id, AttachedSession { output, agent });
        Ok(id)
    }

    /// Ends a session.
    pub(super) fn detach(&self, session: u64) {
        self.lock().attached.remove(&session);
    }

    /// Sends the exit of the container to all sessions.
    pub(super) fn finish(&self, code: i32) {
        for attached in self.lock().attached.values() {
            // The buffer of the socket holds the two messages of a session.
            if let Err(error) = (SessionMessage::Exited { code }).send(&attached.agent, &[]) {
                log_error(format_args!("exit of an attached container: {error}"));
            }
        }
    }

    /// Copies output to the sessions. One that takes none for too long receives no more.
    fn deliver(&self, bytes: &[u8]) {
        let outputs: Vec<(u64, Arc<PipeWriter>)> = {
            let shared = self.lock();
            let attached = shared.attached.iter();
            let open = attached.filter_map(|(id, session)| Some((*id, Arc::clone(session.output.as_ref()?))));
            open.collect()
        };
        // Without the lock: a session that stalls must not delay others that begin or end.
        for (id, output) in outputs {
            if write_all(output.as_fd(), bytes).is_err()
                && let Some(session) = self.lock().attached.get_mut(&id)
            {
                session.output = None;
            }
        }
    }

    /// Ends the output of all sessions.
    fn end_output(&self) {
        let mut shared = self.lock();
        shared.has_output = false;
        for session in shared.attached.values_mut() {
            session.output = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamsState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContainerInput {
    /// Returns the first message of a session with the descriptor of its input or terminal, if any.
    fn first_message(&mut self, is_requested: bool) -> io::Result<(SessionMessage, Option<OwnedFd>)> {
        let attached = |has_input, has_terminal| SessionMessage::Attached {
            has_input,
            has_terminal,
        };
        match self {
            Self::Pipe { end, is_for_one } if is_requested => {
                let lent = if *is_for_one {
                    end.take()
                } else {
                    end.as_ref().map(OwnedFd::try_clone).transpose()?
                };
                Ok((attached(lent.is_some(), false), lent))
            }
            Self::Terminal {
                controller,
                has_input,
            } => {
                let message = attached(*has_input && is_requested, true);
                Ok((message, Some(controller.try_clone()?)))
            }
            Self::Null | Self::Pipe { .. } => Ok((attached(false, false), None)),
        }
    }
}

/// Output of a container.
pub(super) enum Output {
    /// Reading end of a pipe.
    Pipe(PipeReader),
    /// Controlling side of a terminal.
    Terminal(OwnedFd),
}

impl Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let controller = match self {
            Self::Pipe(pipe) => return pipe.read(buffer),
            Self::Terminal(controller) => controller,
        };
        loop {
            match rustix::io::read(&*controller, &mut *buffer) {
                // The agent shares the open file, and makes it non-blocking.
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&*controller, PollFlags::IN)], None)?;
                }
                // All processes have closed the terminal.
                Err(Errno::IO) => return Ok(0),
                read => return Ok(read?),
            }
        }
    }
}

/// Output of a container that is copied to its sessions as it is read.
pub(super) struct CopiedOutput {
    output: Output,
    streams: ContainerStreams,
}

impl CopiedOutput {
    /// Returns a reader of the output.
    pub(super) fn new(output: Output, streams: ContainerStreams) -> Self {
        Self { output, streams }
    }
}

impl Read for CopiedOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.output.read(buffer)?;
        self.streams.deliver(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

impl Drop for CopiedOutput {
    fn drop(&mut self) {
        self.streams.end_output();
    }
}

/// Writes all bytes to a non-blocking pipe, or fails after [`STALL_TIMEOUT`].
fn write_all(pipe: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + STALL_TIMEOUT;
    while !bytes.is_empty() {
        match rustix::io::write(pipe, bytes) {
            Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                match poll(&mut [PollFd::new(&pipe, PollFlags::OUT)], Some(&POLL_INTERVAL)) {
                    Err(Errno::INTR) | Ok(_) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
