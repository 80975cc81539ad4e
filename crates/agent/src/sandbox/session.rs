//! Sessions: commands in containers whose standard streams the agent holds, and clients of the streams of containers.
//! Each has a connection of its own to a second socket of the sandbox. The sandbox passes the ends of pipes, or the
//! controlling side of a terminal. When the connection ends, the sandbox kills the command; a container continues.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::descriptors;

/// Returns the path of the socket for sessions, beside the socket of the sandbox.
pub fn socket_path(sandbox_socket: &Path) -> PathBuf {
    sandbox_socket.with_file_name("sessions.sock")
}

/// Request of the agent, one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionRequest {
    /// Execute a command in a running container.
    Execute {
        /// Container whose environment, directory and user the command has.
        container: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// True if the command has a standard input; it reads nothing otherwise.
        has_input: bool,
        /// True if the standard streams are a terminal.
        has_terminal: bool,
    },
    /// Attach to the standard streams of a running container.
    Attach {
        /// Container name.
        container: String,
        /// True if the client sends standard input.
        has_input: bool,
        /// True if the standard error has a pipe of its own. Agents before 0.2 read one pipe for both.
        #[serde(default)]
        splits_error: bool,
    },
    /// Pass the network namespace of the Pod.
    Network,
}

/// Message of the sandbox, one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionMessage {
    /// The request is done; descriptors come with the message: the terminal, or standard input (if any), output and
    /// error, or the namespace.
    Started,
    /// The client is attached. The first descriptor is the controlling side of the terminal or the end of the standard
    /// input, if any. The end of a pipe with the output follows, and with `has_error` that of a pipe with the standard
    /// error.
    Attached {
        /// True if the first descriptor takes standard input.
        has_input: bool,
        /// True if the first descriptor is a terminal.
        has_terminal: bool,
        /// True if the standard error is not part of the output.
        #[serde(default)]
        has_error: bool,
    },
    /// The request failed.
    Failed {
        /// Description of the failure.
        message: String,
    },
    /// The command or the container has exited.
    Exited {
        /// Exit status, or 128 plus the number of the signal.
        code: i32,
    },
}

impl SessionMessage {
    /// Sends the message with descriptors.
    ///
    /// # Errors
    /// Errors of the socket.
    pub(super) fn send(&self, socket: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        descriptors::send(socket, &line, descriptors)
    }
}

/// Standard input of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Input {
    /// Empty.
    #[default]
    Null,
    /// Pipe.
    Pipe,
    /// Terminal, which is the output as well.
    Terminal,
}

/// Ends of the streams of a command, in the order of [`SessionMessage::Started`].
pub(super) fn borrow_all(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}
