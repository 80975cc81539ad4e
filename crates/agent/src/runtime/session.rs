//! Sessions in a sandbox (see [`crate::sandbox::session`]), from the agent's side.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netlink::route::NetworkNamespace;
use streams::protocol::TerminalSize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;

use super::RuntimeError;
use crate::sandbox::descriptors;
use crate::sandbox::session::{SessionMessage, SessionRequest};

/// Longest wait for the start of a command.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest message about an exit.
const EXIT_BYTES_MAX: u64 = 1 << 10;

/// Command in a container, which is killed when the value is dropped, or a client of a container's streams.
#[derive(Debug)]
pub(crate) struct Session {
    connection: BufReader<tokio::net::UnixStream>,
}

/// Ends of the standard streams of a command.
#[derive(Debug)]
pub(crate) enum SessionStreams {
    /// Pipes.
    Pipes {
        /// Standard input, if the command has one.
        input: Option<pipe::Sender>,
        /// Standard output.
        output: pipe::Receiver,
        /// Standard error.
        error: pipe::Receiver,
    },
    /// Controlling side of a terminal.
    Terminal(Terminal),
    /// Streams of a container.
    Attached {
        /// Standard input.
        input: AttachedInput,
        /// Output.
        output: pipe::Receiver,
        /// Standard error, unless it is part of the output.
        error: Option<pipe::Receiver>,
    },
}

/// Standard input of a container to which a client is attached.
#[derive(Debug)]
pub(crate) enum AttachedInput {
    /// None.
    Null,
    /// Pipe.
    Pipe(pipe::Sender),
    /// Terminal.
    Terminal {
        /// Controlling side.
        terminal: Terminal,
        /// True if the container takes input.
        has_input: bool,
    },
}

/// Controlling side of a terminal.
#[derive(Debug)]
pub(crate) struct Terminal(AsyncFd<OwnedFd>);

impl Session {
    /// Executes a command in a container, or attaches to one.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the command does not start, [`RuntimeError::Disconnected`].
    pub(crate) async fn begin(
        socket: PathBuf,
        request: SessionRequest,
    ) -> Result<(Self, SessionStreams), RuntimeError> {
        let has_terminal = matches!(
            request,
            SessionRequest::Execute {
                has_terminal: true,
                ..
            }
        );
        let (stream, message, descriptors) = exchange_in_background(socket, request).await?;
        let disconnected = |source| RuntimeError::Disconnected { source };
        let streams = match message {
            SessionMessage::Attached {
                has_input,
                has_terminal,
                has_error,
            } => attached_streams(descriptors, has_input, has_terminal, has_error),
            _ if has_terminal => terminal(descriptors).map(SessionStreams::Terminal),
            _ => pipes(descriptors),
        };
        let connection = stream
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(stream));
        let session = Self {
            connection: BufReader::new(connection.map_err(disconnected)?),
        };
        Ok((session, streams.map_err(disconnected)?))
    }

    /// Waits for the exit of the command or container and returns its code.
    ///
    /// # Errors
    /// Errors of the socket: the sandbox has ended.
    pub(crate) async fn exit(&mut self) -> io::Result<i32> {
        let mut line = Vec::new();
        let mut limited = (&mut self.connection).take(EXIT_BYTES_MAX);
        limited.read_until(b'\n', &mut line).await?;
        match serde_json::from_slice(&line) {
            Ok(SessionMessage::Exited { code }) => Ok(code),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Returns the network namespace of the Pod whose sandbox has this socket.
///
/// # Errors
/// [`RuntimeError::Disconnected`], [`RuntimeError::Failed`].
pub(crate) async fn network_namespace(socket: PathBuf) -> Result<NetworkNamespace, RuntimeError> {
    let (_, _, descriptors) = exchange_in_background(socket, SessionRequest::Network).await?;
    let namespace = descriptors.into_iter().next().map(File::from);
    let missing = || RuntimeError::Disconnected {
        source: io::ErrorKind::InvalidData.into(),
    };
    namespace.map(NetworkNamespace::from).ok_or_else(missing)
}

/// Connection with the first message and its descriptors.
type FirstMessage = (UnixStream, SessionMessage, Vec<OwnedFd>);

/// Runs the exchange on a thread, because tokio receives no descriptors.
async fn exchange_in_background(
    socket: PathBuf,
    request: SessionRequest,
) -> Result<FirstMessage, RuntimeError> {
    let exchanged = tokio::task::spawn_blocking(move || exchange(&socket, &request)).await;
    exchanged.unwrap_or_else(|error| {
        let source = io::Error::other(error);
        Err(RuntimeError::Disconnected { source })
    })
}

fn exchange(socket: &Path, request: &SessionRequest) -> Result<FirstMessage, RuntimeError> {
    let send_and_receive = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let (message, descriptors) = descriptors::receive(&stream)?;
        // An exit may follow in the same read.
        let first = message.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let message: SessionMessage = serde_json::from_slice(first)?;
        Ok((stream, message, descriptors))
    };
    match send_and_receive() {
        Ok((_, SessionMessage::Failed { message }, _)) => Err(RuntimeError::Failed { message }),
        Ok((_, SessionMessage::Exited { .. }, _)) => Err(RuntimeError::Disconnected {
            source: io::ErrorKind::InvalidData.into(),
        }),
        Ok(exchanged) => Ok(exchanged),
        Err(source) => Err(RuntimeError::Disconnected { source }),
    }
}

fn pipes(descriptors: Vec<OwnedFd>) -> io::Result<SessionStreams> {
    let mut ends = descriptors.into_iter().rev();
    let (Some(error), Some(output)) = (ends.next(), ends.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(SessionStreams::Pipes {
        input: ends.next().map(pipe::Sender::from_owned_fd).transpose()?,
        output: pipe::Receiver::from_owned_fd(output)?,
        error: pipe::Receiver::from_owned_fd(error)?,
    })
}

fn attached_streams(
    mut descriptors: Vec<OwnedFd>,
    has_input: bool,
    has_terminal: bool,
    has_error: bool,
) -> io::Result<SessionStreams> {
    let mut next = || descriptors.pop().ok_or(io::ErrorKind::InvalidData);
    let error = has_error.then(&mut next).transpose()?;
    let output = next()?;
    let input = if has_terminal {
        AttachedInput::Terminal {
            terminal: terminal(descriptors)?,
            has_input,
        }
    } else if has_input {
        let end = descriptors.pop().ok_or(io::ErrorKind::InvalidData)?;
        AttachedInput::Pipe(pipe::Sender::from_owned_fd(end)?)
    } else {
        AttachedInput::Null
    };
    Ok(SessionStreams::Attached {
        input,
        output: pipe::Receiver::from_owned_fd(output)?,
        error: error.map(pipe::Receiver::from_owned_fd).transpose()?,
    })
}

fn terminal(descriptors: Vec<OwnedFd>) -> io::Result<Terminal> {
    let controller = descriptors.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
    rustix::io::ioctl_fionbio(&controller, true)?;
    // SAFETY: the descriptor is owned, so it stays open and the same for as long as it is registered.
    let registered = unsafe { AsyncFd::register(controller) };
    let registered = registered.map_err(|error| error.into_parts().1)?;
    Ok(Terminal(registered))
}

impl Terminal {
    /// Reads output. Returns 0 when all processes have closed the terminal.
    ///
    /// # Errors
    /// Errors of `read(2)`.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut guard = self.0.readable().await?;
            let read = guard
                .try_io(|inner| rustix::io::read(inner.get_ref(), &mut *buffer).map_err(io::Error::from));
            match read {
                // The terminal is closed.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Ok(0),
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes input.
    ///
    /// # Errors
    /// Errors of `write(2)`.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut guard = self.0.writable().await?;
            let written =
                guard.try_io(|inner| rustix::io::write(inner.get_ref(), bytes).map_err(io::Error::from));
            if let Ok(written) = written {
                bytes = bytes.get(written?..).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Sets the size.
    ///
    /// # Errors
    /// Errors of `ioctl(2)`.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: size.height,
            ws_col: size.width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the argument points to a structure that lives through the call.
        match unsafe { libc::ioctl(self.0.get_ref().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
