//! Standard streams of a running container, and the sessions that are attached to them. A thread reads the output for
//! the log; it copies each read to the sessions, before a line is complete.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::container_log::OutputStream;
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
        /// True if sessions may write input.
        has_input: bool,
    },
}

/// Standard streams of one run of a container. Clones share them.
#[derive(Clone)]
pub(super) struct ContainerStreams {
    shared: Arc<Mutex<StreamsState>>,
}

/// Standard streams of a container, and the sessions that are attached to them.
struct StreamsState {
    input: ContainerInput,
    attached: BTreeMap<u64, AttachedSession>,
    /// Sessions so far.
    begun: u64,
    /// Streams that have not ended.
    open: Vec<OutputStream>,
}

/// A session that receives the output.
struct AttachedSession {
    /// Ends of pipes by stream, up to the end of the stream. Without a pipe for the standard error, two streams share one.
    outputs: BTreeMap<OutputStream, Arc<PipeWriter>>,
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
                open: vec![OutputStream::Output, OutputStream::Error],
            })),
        }
    }

    /// Sends the ends of the streams to `agent`, which receives the exit of the container later. With `splits_error`, the
    /// standard error has a pipe of its own, unless the streams are a terminal. Returns the number of the session.
    ///
    /// # Errors
    /// Errors of the pipes and of the socket.
    pub(super) fn attach(&self, agent: &UnixStream, has_input: bool, splits_error: bool) -> io::Result<u64> {
        let mut shared = self.lock();
        let has_error = splits_error && !matches!(shared.input, ContainerInput::Terminal { .. });
        let (output, output_writer) = output_pipe()?;
        let error = has_error.then(output_pipe).transpose()?;
        let (message, input) = shared.input.first_message(has_input, has_error)?;
        let mut ends: Vec<BorrowedFd<'_>> = input.iter().map(AsFd::as_fd).collect();
        ends.push(output.as_fd());
        ends.extend(error.iter().map(|(error, _)| error.as_fd()));
        message.send(agent, &ends)?;
        shared.begun += 1;
        let id = shared.begun;
        let error_writer = error.map_or_else(|| Arc::clone(&output_writer), |(_, error_writer)| error_writer);
        let mut outputs = BTreeMap::from([
            (OutputStream::Output, output_writer),
            (OutputStream::Error, error_writer),
        ]);
        outputs.retain(|stream, _| shared.open.contains(stream));
        let agent = agent.try_clone()?;
        shared.attached.insert(id, AttachedSession { outputs, agent });
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

    /// Copies bytes of a stream to the sessions. One that takes none for too long receives no more.
    pub(super) fn deliver(&self, stream: OutputStream, bytes: &[u8]) {
        let outputs: Vec<(u64, Arc<PipeWriter>)> = {
            let shared = self.lock();
            let attached = shared.attached.iter();
            let open =
                attached.filter_map(|(id, session)| Some((*id, Arc::clone(session.outputs.get(&stream)?))));
            open.collect()
        };
        // Without the lock: a session that stalls must not delay others that begin or end.
        for (id, output) in outputs {
            if write_all(output.as_fd(), bytes).is_err()
                && let Some(session) = self.lock().attached.get_mut(&id)
            {
                session.outputs.retain(|_, other| !Arc::ptr_eq(other, &output));
            }
        }
    }

    /// Ends a stream of all sessions.
    pub(super) fn end_output(&self, stream: OutputStream) {
        let mut shared = self.lock();
        shared.open.retain(|open| *open != stream);
        for session in shared.attached.values_mut() {
            session.outputs.remove(&stream);
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamsState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContainerInput {
    /// Returns the first message of a session with the descriptor of its input or terminal, if any.
    fn first_message(
        &mut self,
        is_requested: bool,
        has_error: bool,
    ) -> io::Result<(SessionMessage, Option<OwnedFd>)> {
        let attached = |has_input, has_terminal| SessionMessage::Attached {
            has_input,
            has_terminal,
            has_error,
        };
        match self {
            Self::Pipe { end, is_for_one } if is_requested => {
                let taken = if *is_for_one {
                    end.take()
                } else {
                    end.as_ref().map(OwnedFd::try_clone).transpose()?
                };
                Ok((attached(taken.is_some(), false), taken))
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

/// Returns the reading end of a pipe for a session, and its non-blocking writing end.
fn output_pipe() -> io::Result<(PipeReader, Arc<PipeWriter>)> {
    let (reading, writing) = io::pipe()?;
    rustix::io::ioctl_fionbio(&writing, true)?;
    Ok((reading, Arc::new(writing)))
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
