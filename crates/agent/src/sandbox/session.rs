//! Sessions: commands in containers whose standard streams the agent holds. Each has a connection of its own to a second
//! socket of the sandbox. The sandbox passes the ends of pipes, or the controlling side of a terminal, and copies no
//! bytes. The command is killed when the connection ends.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::descriptors;
use super::error_log::log_error;
use super::processes::Processes;

/// Time in which the agent sends its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once. Each has a thread. The agent has a lower limit for the sessions of one Pod.
const CONNECTIONS_MAX: usize = 64;

/// Path of the socket for sessions, beside the socket of the sandbox.
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
        /// Set if the command has a standard input; it reads nothing otherwise.
        has_input: bool,
        /// Set if the standard streams are a terminal.
        has_terminal: bool,
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
    /// The request failed.
    Failed {
        /// Description of the failure.
        message: String,
    },
    /// The command has exited.
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

/// Accepts connections on a thread.
///
/// # Errors
/// Errors of the thread's creation.
pub(super) fn start(listener: UnixListener, processes: Processes) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| start_connection(stream, &processes, &open)) {
                log_error(format_args!("session: {error}"));
            }
        }
    };
    thread::Builder::new()
        .name("sessions".to_owned())
        .spawn(accept)
        .map(drop)
}

fn start_connection(stream: UnixStream, processes: &Processes, open: &Arc<AtomicUsize>) -> io::Result<()> {
    if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
        let message = "too many sessions in this Pod".to_owned();
        return SessionMessage::Failed { message }.send(&stream, &[]);
    }
    open.fetch_add(1, Ordering::Relaxed);
    let (processes, counted) = (processes.clone(), Arc::clone(open));
    let serve = move || {
        if let Err(error) = serve_connection(&stream, &processes) {
            log_error(format_args!("session: {error}"));
        }
        counted.fetch_sub(1, Ordering::Relaxed);
    };
    let started = thread::Builder::new().name("session".to_owned()).spawn(serve);
    if started.is_err() {
        open.fetch_sub(1, Ordering::Relaxed);
    }
    started.map(drop)
}

fn serve_connection(stream: &UnixStream, processes: &Processes) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let (line, _descriptors) = descriptors::receive(stream)?;
    stream.set_read_timeout(None)?;
    match serde_json::from_slice(&line)? {
        SessionRequest::Network => {
            let namespace = std::fs::File::open("/proc/self/ns/net")?;
            SessionMessage::Started.send(stream, &[namespace.as_fd()])
        }
        SessionRequest::Execute {
            container,
            command,
            has_input,
            has_terminal,
        } => {
            let input = match (has_terminal, has_input) {
                (true, _) => Input::Terminal,
                (false, true) => Input::Pipe,
                (false, false) => Input::Null,
            };
            match processes.begin_session(&container, command, input, stream) {
                Ok(session) => {
                    wait_for_hangup(stream)?;
                    processes.kill_session(session);
                    Ok(())
                }
                Err(error) => {
                    let message = error.to_string();
                    SessionMessage::Failed { message }.send(stream, &[])
                }
            }
        }
    }
}

/// Waits until the agent closes the connection. It sends nothing more.
fn wait_for_hangup(mut stream: &UnixStream) -> io::Result<()> {
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The connection was reset, which ends it as well.
            Err(_) => return Ok(()),
        }
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
pub(super) fn borrowed(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}
