//! Process runtime: Pods as sandboxes (see [`crate::sandbox`]), containers as processes in them.
//!
//! A sandbox is no part of the agent's process: it outlives the agent, and [`Sandbox::connect`] continues with the same
//! processes after a restart. Requests and events go over the Unix socket of the sandbox. The kernel reports the PID of
//! its first process with the connection. A pidfd keeps signals from another process that gets the same PID later. Each
//! wait for a response or an end has a time limit, so that one sandbox does not block its worker forever.

mod connection;
pub(crate) mod session;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use netlink::route::{NetworkNamespace, RouteError};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::pods::state_directory::PodDirectory;
use crate::sandbox::protocol::{Action, ContainerState, Exit, Outcome, Program};
use crate::sandbox::{self, READY_LINE, SELF_EXE, SUBCOMMAND};

use connection::Connection;
pub use connection::SandboxEvent;

/// Longest start of a sandbox: two program starts on a busy host.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a response of a sandbox, which does at most a fork.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait until the kernel has ended all processes of a killed sandbox.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are read of the first line of a sandbox.
const READY_BYTES_MAX: u64 = 64;

/// Failure of a sandbox or a request to it.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The sandbox did not start. A retry may succeed.
    #[error("cannot start a sandbox: {source}{log}")]
    Start {
        /// I/O error.
        source: io::Error,
        /// Last line of the sandbox's log in parentheses, or "".
        log: String,
    },
    /// The Pod's network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] RouteError),
    /// The sandbox does not respond: it has ended, or is about to be killed.
    #[error("the sandbox does not respond: {source}")]
    Disconnected {
        /// I/O error.
        source: io::Error,
    },
    /// The sandbox reports a failure, usually a missing program.
    #[error("{message}")]
    Failed {
        /// Message of the sandbox.
        message: String,
    },
    /// The sandbox did not end after SIGKILL: a process hangs in the kernel.
    #[error("the sandbox did not exit within {KILL_TIMEOUT:?}")]
    KillTimeout,
}

/// Handle of a running sandbox, whose processes outlive the handle.
#[derive(Debug)]
pub struct Sandbox {
    connection: Connection,
    process: AsyncFd<OwnedFd>,
    events: mpsc::Receiver<SandboxEvent>,
}

/// Result of a command that was executed in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Exit of the command; `None` if it timed out and was killed.
    pub exit: Option<Exit>,
    /// Beginning of the output.
    pub output: String,
}

/// Sender of signals and commands to containers. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Executor {
    connection: Connection,
}

impl Sandbox {
    /// Starts a sandbox in `namespace`, or in the network namespace of this process.
    ///
    /// # Errors
    /// [`RuntimeError::Start`] with the log of the sandbox, and errors of [`Sandbox::connect`].
    pub async fn start(
        directory: &PodDirectory,
        settings: &sandbox::Settings,
        namespace: Option<&NetworkNamespace>,
    ) -> Result<Self, RuntimeError> {
        let failed = |source| RuntimeError::Start {
            source,
            log: last_log_line(&directory.sandbox_log()),
        };
        let mut child = spawn(directory, settings, namespace)?;
        let ready = async {
            let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let mut line = String::new();
            BufReader::new(stdout.take(READY_BYTES_MAX))
                .read_line(&mut line)
                .await?;
            // The first process has exited by now and must be reaped.
            child.wait().await?;
            if line.trim_end() == READY_LINE {
                Ok(())
            } else {
                Err(io::Error::other("the process exited at once"))
            }
        };
        let ready = timeout(START_TIMEOUT, ready).await;
        ready
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        let (sandbox, _) = Self::connect(directory).await?;
        Ok(sandbox)
    }

    /// Connects to a running sandbox. Returns its containers, too.
    ///
    /// # Errors
    /// [`RuntimeError::Disconnected`].
    pub async fn connect(
        directory: &PodDirectory,
    ) -> Result<(Self, BTreeMap<String, ContainerState>), RuntimeError> {
        let disconnected = |source| RuntimeError::Disconnected { source };
        let stream = UnixStream::connect(directory.socket())
            .await
            .map_err(disconnected)?;
        // Process 1 of the sandbox created the listening socket. The kernel translates its PID into this namespace.
        let pid = stream
            .peer_cred()
            .map_err(disconnected)?
            .pid()
            .and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| disconnected(io::ErrorKind::NotFound.into()))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| disconnected(errno.into()))?;
        let opened = timeout(RESPONSE_TIMEOUT, Connection::open(stream)).await;
        let (connection, containers, events) = opened
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(disconnected)?;
        // SAFETY: the descriptor is owned, so it stays open and the same for as long as it is registered.
        let process = unsafe { AsyncFd::register(process) };
        let sandbox = Self {
            connection,
            process: process.map_err(|error| disconnected(error.into_parts().1))?,
            events,
        };
        Ok((sandbox, containers))
    }

    /// Starts a container.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the program cannot be executed, [`RuntimeError::Disconnected`].
    pub async fn start_container(
        &self,
        name: &str,
        program: Program,
        log: &Path,
    ) -> Result<(), RuntimeError> {
        let action = Action::Start {
            name: name.to_owned(),
            program: Box::new(program),
            log: log.to_owned(),
        };
        self.connection.request(action, RESPONSE_TIMEOUT).await.map(drop)
    }

    /// Returns an executor for tasks of the Pod worker.
    pub fn executor(&self) -> Executor {
        Executor {
            connection: self.connection.clone(),
        }
    }

    /// Waits for the next event. After [`SandboxEvent::SandboxExited`] it returns the same event again.
    pub async fn next_event(&mut self) -> SandboxEvent {
        self.events.recv().await.unwrap_or(SandboxEvent::SandboxExited)
    }

    /// Kills the sandbox with all its processes and waits until the kernel has ended them.
    ///
    /// # Errors
    /// [`RuntimeError::KillTimeout`], and [`RuntimeError::Disconnected`] if the signal cannot be sent.
    pub async fn kill(self) -> Result<(), RuntimeError> {
        let disconnected = |source| RuntimeError::Disconnected { source };
        match pidfd_send_signal(self.process.get_ref(), Signal::KILL) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => {}
            Err(errno) => return Err(disconnected(errno.into())),
        }
        // The pidfd becomes readable when the process has exited.
        match timeout(KILL_TIMEOUT, self.process.readable()).await {
            Ok(ended) => ended.map(drop).map_err(disconnected),
            Err(_) => Err(RuntimeError::KillTimeout),
        }
    }
}

impl Executor {
    /// Sends a signal to the first process of a container. SIGKILL goes to the process group. Succeeds if the container
    /// has exited.
    ///
    /// # Errors
    /// Errors of the request.
    pub async fn signal(&self, container: &str, signal: Signal) -> Result<(), RuntimeError> {
        let action = Action::Signal {
            name: container.to_owned(),
            signal: signal.as_raw(),
            group: signal == Signal::KILL,
        };
        self.connection.request(action, RESPONSE_TIMEOUT).await.map(drop)
    }

    /// Runs a command in a running container until it exits, for `timeout` at most.
    ///
    /// # Errors
    /// Errors of the request. [`RuntimeError::Failed`] if the container does not run.
    pub async fn execute(
        &self,
        container: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<Execution, RuntimeError> {
        let action = Action::Execute {
            container: container.to_owned(),
            command,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let response_timeout = timeout.saturating_add(RESPONSE_TIMEOUT);
        Ok(match self.connection.request(action, response_timeout).await? {
            Outcome::Exited { exit, output } => Execution {
                exit: Some(exit),
                output,
            },
            Outcome::TimedOut { output } => Execution { exit: None, output },
            _ => Execution {
                exit: None,
                output: String::new(),
            },
        })
    }
}

/// Starts the first process of a sandbox.
fn spawn(
    directory: &PodDirectory,
    settings: &sandbox::Settings,
    namespace: Option<&NetworkNamespace>,
) -> Result<tokio::process::Child, RuntimeError> {
    let failed = |source| RuntimeError::Start {
        source,
        log: String::new(),
    };
    let log = std::fs::File::create(directory.sandbox_log()).map_err(failed)?;
    let argument = serde_json::to_string(settings).map_err(|error| failed(error.into()))?;
    let mut command = std::process::Command::new(SELF_EXE);
    // The environment of the agent can have credentials, which processes of a Pod do not need.
    command
        .args([SUBCOMMAND, &argument])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    if let Some(namespace) = namespace {
        namespace.start_inside(&mut command)?;
    }
    tokio::process::Command::from(command).spawn().map_err(failed)
}

/// Returns the last line of a sandbox's log, for error messages.
fn last_log_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .last()
        .map(|line| format!(" ({line})"))
        .unwrap_or_default()
}
