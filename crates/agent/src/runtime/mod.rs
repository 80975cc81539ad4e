//! The process runtime: Pods as sandboxes (see [`crate::sandbox`]), containers as processes in them.

mod connection;

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

use crate::sandbox::protocol::{Action, ContainerState, Exit, Outcome, Program};
use crate::sandbox::{self, OWN_PROGRAM, READY_LINE, SUBCOMMAND};
use crate::state_directory::PodDirectory;

use connection::Connection;
pub use connection::Happening;

/// How long a sandbox may take to come up: two starts of a program on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a sandbox may take to greet and to answer: it does no more than a fork.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the kernel may take to end all processes of a killed sandbox.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of the first line of a sandbox.
const READY_BYTES_MAX: u64 = 64;

/// Why a sandbox or container does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The sandbox did not start. Its log says more; retrying may help.
    #[error("starting a sandbox: {source}{log}")]
    Start {
        /// What failed.
        source: io::Error,
        /// The last words of its log, or "".
        log: String,
    },
    /// The Pod's network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] RouteError),
    /// The sandbox cannot be reached any more: it has ended, or is about to be ended.
    #[error("the sandbox does not answer: {source}")]
    Gone {
        /// What failed.
        source: io::Error,
    },
    /// The sandbox could not do what it was asked for: a program that is not there, most often.
    #[error("{message}")]
    Refused {
        /// Why, in the sandbox's words.
        message: String,
    },
    /// All of its processes did not end in time: one of them hangs in the kernel.
    #[error("the sandbox did not end within {KILL_TIMEOUT:?}")]
    Immortal,
}

/// A running sandbox. The processes in it do not end with this handle.
#[derive(Debug)]
pub struct Sandbox {
    connection: Connection,
    process: AsyncFd<OwnedFd>,
    happenings: mpsc::Receiver<Happening>,
}

/// What a command that was executed in a container came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// How it ended; `None` if it took too long and was killed.
    pub exit: Option<Exit>,
    /// The beginning of what it printed.
    pub output: String,
}

/// Signals containers and runs commands in them; for tasks, which outlive no sandbox.
#[derive(Clone, Debug)]
pub struct Executor {
    connection: Connection,
}

impl Sandbox {
    /// Starts a sandbox in `namespace`, or in this process's own network.
    pub async fn start(
        directory: &PodDirectory,
        settings: &sandbox::Settings,
        namespace: Option<&NetworkNamespace>,
    ) -> Result<Self, RuntimeError> {
        let failed = |source| RuntimeError::Start {
            source,
            log: log_end(&directory.sandbox_log()),
        };
        let mut child = spawn(directory, settings, namespace)?;
        let ready = async {
            let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let mut line = String::new();
            BufReader::new(stdout.take(READY_BYTES_MAX))
                .read_line(&mut line)
                .await?;
            // The first step has ended by now; its status is of no interest but must be taken.
            child.wait().await?;
            if line.trim_end() == READY_LINE {
                Ok(())
            } else {
                Err(io::Error::other("it ended at once"))
            }
        };
        let ready = timeout(START_TIMEOUT, ready).await;
        ready
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        let (sandbox, _) = Self::connect(directory).await?;
        Ok(sandbox)
    }

    /// Connects with a sandbox that runs already, and says what is in it.
    pub async fn connect(
        directory: &PodDirectory,
    ) -> Result<(Self, BTreeMap<String, ContainerState>), RuntimeError> {
        let gone = |source| RuntimeError::Gone { source };
        let stream = UnixStream::connect(directory.socket()).await.map_err(gone)?;
        // The listening socket was made by pid 1 of the sandbox, whose number the kernel translates for us.
        let pid = stream.peer_cred().map_err(gone)?.pid().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| gone(io::ErrorKind::NotFound.into()))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| gone(errno.into()))?;
        let greeted = timeout(ANSWER_TIMEOUT, Connection::open(stream)).await;
        let (connection, containers, happenings) = greeted
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(gone)?;
        // SAFETY: the descriptor is owned, so it stays open and the same for as long as it is registered.
        let process = unsafe { AsyncFd::register(process) };
        let sandbox = Self {
            connection,
            process: process.map_err(|error| gone(error.into_parts().1))?,
            happenings,
        };
        Ok((sandbox, containers))
    }

    /// Starts a container.
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
        self.connection.ask(action, ANSWER_TIMEOUT).await.map(drop)
    }

    /// For tasks beside this value.
    pub fn executor(&self) -> Executor {
        Executor {
            connection: self.connection.clone(),
        }
    }

    /// What happens next. The last is [`Happening::Gone`], again and again.
    pub async fn next(&mut self) -> Happening {
        self.happenings.recv().await.unwrap_or(Happening::Gone)
    }

    /// Ends the sandbox with everything in it, and waits until the kernel has done so.
    pub async fn kill(self) -> Result<(), RuntimeError> {
        let gone = |source| RuntimeError::Gone { source };
        match pidfd_send_signal(self.process.get_ref(), Signal::KILL) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => {}
            Err(errno) => return Err(gone(errno.into())),
        }
        // A descriptor of a process becomes readable when the process has ended.
        match timeout(KILL_TIMEOUT, self.process.readable()).await {
            Ok(ended) => ended.map(drop).map_err(gone),
            Err(_) => Err(RuntimeError::Immortal),
        }
    }
}

impl Executor {
    /// Sends a signal to a container's first process; done, too, if it has ended.
    pub async fn signal(&self, container: &str, signal: Signal) -> Result<(), RuntimeError> {
        let action = Action::Signal {
            name: container.to_owned(),
            signal: signal.as_raw(),
            group: signal == Signal::KILL,
        };
        self.connection.ask(action, ANSWER_TIMEOUT).await.map(drop)
    }

    /// Runs a command in a running container until it ends, or for `limit`.
    pub async fn execute(
        &self,
        container: &str,
        command: Vec<String>,
        limit: Duration,
    ) -> Result<Execution, RuntimeError> {
        let action = Action::Execute {
            container: container.to_owned(),
            command,
            timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
        let patience = limit.saturating_add(ANSWER_TIMEOUT);
        Ok(match self.connection.ask(action, patience).await? {
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

/// Starts the sandbox's first step.
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
    let mut command = std::process::Command::new(OWN_PROGRAM);
    command
        .args([SUBCOMMAND, &argument])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    if let Some(namespace) = namespace {
        namespace.start_inside(&mut command)?;
    }
    tokio::process::Command::from(command).spawn().map_err(failed)
}

/// The last line of a sandbox's log, for the message of an error.
fn log_end(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .last()
        .map(|line| format!(" ({line})"))
        .unwrap_or_default()
}
