//! Processes of a sandbox: table, signals, reaping.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::attachments::ContainerStreams;
use super::container_log::{LOG_BYTES_MAX, LogWriter};
use super::container_output::ContainerOutput;
use super::container_start::{StartedContainer, set_terminal_type, start};
use super::error_log::log_error;
use super::exec_output;
use super::launch::{SharedNamespaces, Streams, launch, launch_with_streams};
use super::pod_directory::OpenPodDirectory;
use super::protocol::{ContainerState, Exit, Message, Outcome, Program};
use super::session::{Input, SessionMessage, borrow_all};

/// Added to the number of the signal that killed a process, as in shells.
const SIGNAL_BASE: i32 = 128;
/// Maximum number of concurrent executions of commands: one probe for each container, with a margin.
const EXECUTIONS_MAX: usize = 64;

/// Processes of the sandbox. Clones share them.
#[derive(Clone)]
pub(super) struct Processes {
    shared: Arc<Mutex<ProcessTable>>,
    directory: Arc<OpenPodDirectory>,
}

/// Processes of the Pod, and the programs of its containers.
#[derive(Default)]
struct ProcessTable {
    /// Containers by name.
    containers: BTreeMap<String, ContainerState>,
    /// Programs of the containers with their accounts. Commands that are executed in them have the same environment
    /// and confinement.
    programs: BTreeMap<String, Program>,
    /// Standard streams of the containers.
    streams: BTreeMap<String, ContainerStreams>,
    /// Processes that will be reaped, by PID.
    processes: HashMap<i32, Process>,
    /// Sessions that were begun.
    sessions: u64,
    /// Connection to the agent, if any.
    agent: Option<UnixStream>,
}

/// A process that the sandbox has started.
struct Process {
    role: Role,
    started_at: Timestamp,
}

/// Purpose of a process, with the receiver of its exit.
enum Role {
    /// First process of the container with this name.
    Container(String),
    /// Command whose output is collected, such as a probe.
    Execution(SyncSender<Exit>),
    /// Command with streams to a client.
    Session { id: u64, agent: UnixStream },
}

/// Blocks SIGCHLD, which `reap_forever` waits for. Call this before any thread starts. Children start with an empty
/// mask, which the standard library sets.
///
/// # Errors
/// Errors of `pthread_sigmask(3)`.
pub(super) fn block_child_signal() -> io::Result<()> {
    let set = child_signal_set();
    // SAFETY: `set` is initialized; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn child_signal_set() -> libc::sigset_t {
    // SAFETY: a signal set is plain bits, and sigemptyset initializes them.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

impl Processes {
    /// Returns a sandbox without containers, of a Pod with this directory.
    pub(super) fn new(directory: OpenPodDirectory) -> Self {
        Self {
            shared: Arc::default(),
            directory: Arc::new(directory),
        }
    }

    /// Sends the state of the containers to a new agent, which receives all later messages.
    pub(super) fn attach(&self, agent: UnixStream) {
        let mut shared = self.lock();
        let hello = Message::Hello {
            containers: shared.containers.clone(),
        };
        shared.agent = Some(agent);
        shared.send(&hello);
    }

    /// Sends a message to the agent, if any.
    pub(super) fn send(&self, message: &Message) {
        self.lock().send(message);
    }

    /// Starts a container.
    ///
    /// # Errors
    /// Errors of the program's start. The container must not run.
    pub(super) fn start(&self, name: &str, program: &Program, log_file: &Path) -> io::Result<()> {
        let mut shared = self.lock();
        if matches!(shared.containers.get(name), Some(ContainerState::Running { .. })) {
            return Err(io::Error::other(format!("container {name} is running")));
        }
        let mut program = program.clone();
        let target = program.processes_of.as_deref().map(|target| {
            let pid = shared.pid_of(target);
            pid.ok_or_else(|| io::Error::other(format!("unable to find target container {target:?}")))
        });
        let target = target.transpose()?;
        let StartedContainer { pid, streams, ends } = start(&mut program, target, &self.directory)?;
        let started_at = Timestamp::now();
        let role = Role::Container(name.to_owned());
        shared.processes.insert(pid, Process { role, started_at });
        shared
            .containers
            .insert(name.to_owned(), ContainerState::Running { started_at });
        shared.programs.insert(name.to_owned(), program);
        shared.streams.insert(name.to_owned(), streams.clone());
        let output = ContainerOutput::new(ends, streams);
        let path = self.directory.reachable_path(log_file);
        let copy = move || {
            let mut log = LogWriter::open(path, LOG_BYTES_MAX);
            if let Err(error) = output.copy(&mut log) {
                log_error(format_args!("reading a container's output: {error}"));
            }
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(copy)
            .map(drop)
    }

    /// Sends a signal to a container. Succeeds if it has exited.
    ///
    /// # Errors
    /// Errors of `kill(2)`.
    pub(super) fn signal(&self, name: &str, signal: i32, group: bool) -> io::Result<()> {
        let shared = self.lock();
        let Some(pid) = shared.pid_of(name) else {
            return Ok(());
        };
        // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock.
        let sent = unsafe { libc::kill(if group { -pid } else { pid }, signal) };
        if sent == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Executes a command in a running container until it exits, or until the timeout.
    ///
    /// # Errors
    /// Errors of the command's start. The container must run.
    pub(super) fn execute(
        &self,
        container: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> io::Result<Outcome> {
        let deadline = Instant::now() + timeout;
        let (exit_sender, exit_receiver) = sync_channel(1);
        let mut shared = self.lock();
        let program = shared.program_of(container, command)?;
        let executions = shared
            .processes
            .values()
            .filter(|process| matches!(process.role, Role::Execution(_)));
        if executions.count() >= EXECUTIONS_MAX {
            return Err(io::Error::other("too many programs are being executed"));
        }
        let (reading, writing) = io::pipe()?;
        let pid = launch(
            &program,
            SharedNamespaces::of(shared.pid_of(container)),
            &self.directory,
            writing,
        )?
        .pid;
        let role = Role::Execution(exit_sender);
        let started_at = Timestamp::now();
        shared.processes.insert(pid, Process { role, started_at });
        drop(shared);
        let (exit, output) = exec_output::collect(reading, &exit_receiver, deadline)?;
        if let Some(exit) = exit {
            return Ok(Outcome::Exited { exit, output });
        }
        let shared = self.lock();
        if shared.processes.contains_key(&pid) {
            // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        Ok(Outcome::TimedOut { output })
    }

    /// Executes a command in a running container. Sends the ends of its streams to `agent`, and its exit later. Returns the
    /// number of the session.
    ///
    /// # Errors
    /// Errors of the command's start. The container must run.
    pub(super) fn begin_session(
        &self,
        container: &str,
        command: Vec<String>,
        input: Input,
        agent: &UnixStream,
    ) -> io::Result<u64> {
        let mut shared = self.lock();
        let mut program = shared.program_of(container, command)?;
        let (mut ends, streams) = if input == Input::Terminal {
            set_terminal_type(&mut program);
            let (output, error) = (Stdio::null(), Stdio::null());
            (Vec::new(), Streams { input, output, error })
        } else {
            let (output, output_of_child) = io::pipe()?;
            let (error, error_of_child) = io::pipe()?;
            let (output_of_child, error_of_child) = (output_of_child.into(), error_of_child.into());
            let streams = Streams {
                input,
                output: output_of_child,
                error: error_of_child,
            };
            (vec![OwnedFd::from(output), OwnedFd::from(error)], streams)
        };
        let agent_of_role = agent.try_clone()?;
        let launched = launch_with_streams(
            &program,
            SharedNamespaces::of(shared.pid_of(container)),
            &self.directory,
            streams,
        )?;
        if let Some(input) = launched.input {
            ends.insert(0, input);
        }
        shared.sessions += 1;
        let id = shared.sessions;
        let process = Process {
            role: Role::Session {
                id,
                agent: agent_of_role,
            },
            started_at: Timestamp::now(),
        };
        shared.processes.insert(launched.pid, process);
        // With the lock: the exit must not be sent first.
        let sent = SessionMessage::Started.send(agent, &borrow_all(&ends));
        if let Err(error) = sent {
            log_error(format_args!("session: {error}"));
        }
        Ok(id)
    }

    /// Attaches to the standard streams of a running container. Sends their ends to `agent`, and the exit of the container
    /// later. Returns the streams with the number of the session.
    ///
    /// # Errors
    /// Errors of the pipes and of the socket. The container must run.
    pub(super) fn attach_session(
        &self,
        container: &str,
        has_input: bool,
        splits_error: bool,
        agent: &UnixStream,
    ) -> io::Result<(ContainerStreams, u64)> {
        // With the lock: the exit must not be sent first.
        let shared = self.lock();
        shared.ensure_running(container)?;
        let streams = shared.streams.get(container).cloned();
        let streams = streams.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let session = streams.attach(agent, has_input, splits_error)?;
        Ok((streams, session))
    }

    /// Kills the process group of a session's command, unless it has exited.
    pub(super) fn kill_session(&self, session: u64) {
        let shared = self.lock();
        let is_of_session =
            |process: &Process| matches!(process.role, Role::Session { id, .. } if id == session);
        let found = shared
            .processes
            .iter()
            .find(|(_, process)| is_of_session(process));
        if let Some((pid, _)) = found {
            // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
    }

    /// Reaps children and orphans as long as the sandbox runs.
    ///
    /// # Errors
    /// Errors of `sigwait(3)`.
    pub(super) fn reap_forever(&self) -> io::Result<()> {
        let set = child_signal_set();
        loop {
            let mut signal = 0;
            // SAFETY: both live through the call, and the signal is blocked.
            let errno = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
            if errno != 0 && errno != libc::EINTR {
                return Err(io::Error::from_raw_os_error(errno));
            }
            self.reap();
        }
    }

    /// Reaps all processes that have exited.
    fn reap(&self) {
        let mut shared = self.lock();
        loop {
            let mut status = 0;
            // SAFETY: `status` lives through the call.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if let Some(process) = shared.processes.remove(&pid) {
                let exit = exit(status, process.started_at);
                shared.record_exit(process.role, exit);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProcessTable> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessTable {
    /// Returns the PID of the first process of a running container.
    fn pid_of(&self, container: &str) -> Option<i32> {
        let is_first =
            |process: &Process| matches!(&process.role, Role::Container(name) if name == container);
        let mut all = self.processes.iter();
        all.find(|(_, process)| is_first(process)).map(|(pid, _)| *pid)
    }

    fn ensure_running(&self, container: &str) -> io::Result<()> {
        match self.containers.get(container) {
            Some(ContainerState::Running { .. }) => Ok(()),
            _ => Err(io::Error::other(format!("container {container} is not running"))),
        }
    }

    /// Returns the program that runs `command` in the environment of a running container.
    fn program_of(&self, container: &str, command: Vec<String>) -> io::Result<Program> {
        self.ensure_running(container)?;
        let program = self.programs.get(container).ok_or(io::ErrorKind::NotFound)?;
        Ok(Program {
            command,
            closes_stdin_when_serving: false,
            ..program.clone()
        })
    }

    /// Records the exit of a process, and reports it.
    fn record_exit(&mut self, role: Role, exit: Exit) {
        match role {
            Role::Container(name) => {
                self.containers
                    .insert(name.clone(), ContainerState::Ended(exit.clone()));
                if let Some(streams) = self.streams.remove(&name) {
                    streams.finish(exit.code);
                }
                self.send(&Message::Ended { name, exit });
            }
            // The client may have timed out.
            Role::Execution(receiver) => drop(receiver.try_send(exit)),
            Role::Session { agent, .. } => {
                // The buffer of the socket holds the two messages of a session.
                if let Err(error) = (SessionMessage::Exited { code: exit.code }).send(&agent, &[]) {
                    log_error(format_args!("exit of a session: {error}"));
                }
            }
        }
    }

    /// Sends a message. After a write error the agent counts as disconnected; the next one receives the state first.
    fn send(&mut self, message: &Message) {
        let Some(agent) = &mut self.agent else { return };
        let sent = message.encode().and_then(|line| agent.write_all(&line));
        if let Err(error) = sent {
            log_error(format_args!("message to the agent: {error}"));
            self.agent = None;
        }
    }
}

/// Returns the exit of a process by its wait status.
fn exit(status: i32, started_at: Timestamp) -> Exit {
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Exit {
        code: signal.map_or(libc::WEXITSTATUS(status), |signal| SIGNAL_BASE + signal),
        signal,
        started_at,
        finished_at: Timestamp::now(),
    }
}
