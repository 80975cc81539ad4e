//! Start of a program in a container. Another process of this binary enters the mounts, credentials and limits of the
//! container, then executes the program. It reports an error over a socket, which a successful `execve` closes. The
//! built-in server closes the socket when it serves. A container without a readiness probe is ready as soon as it has
//! started.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

use super::context::with_context;
use super::credentials::Credentials;
use super::descriptors::{self, receive};
use super::image_user::{self, Account};
use super::pid_namespace::PidNamespace;
use super::pod_directory::{InheritedDirectory, OpenPodDirectory};
use super::protocol::Program;
use super::session::Input;
use super::user_namespace::UserNamespace;

use super::{SELF_EXE, cgroup_namespace, keyring, mounts, terminal};

/// Hidden subcommand of that process.
pub const SUBCOMMAND: &str = "internal-container";
/// Limit of open files of one process.
const OPEN_FILES_MAX: u64 = 65_536;
/// Longest time until the program is executed: some mounts on a busy host.
const EXEC_TIMEOUT: Duration = Duration::from_secs(9);

/// Byte that comes with the descriptor of the standard input.
const PASSED: u8 = 0;
/// Byte around the account of a container, which JSON escapes.
const ACCOUNT: u8 = 1;

/// Input of the process on its standard input.
#[derive(Serialize, Deserialize)]
struct Launch {
    program: Program,
    /// Process whose mounts the program shares; `None` for mounts of its own.
    mounts_of: Option<i32>,
    /// Directory of the Pod.
    directory: InheritedDirectory,
    /// Standard input. The process passes the other end of a pipe or terminal back.
    #[serde(default)]
    input: Input,
}

impl Launch {
    /// Returns true if the process finds its account in the image: the first process of a container.
    fn finds_account(&self) -> bool {
        self.program.confinement.root.is_some() && self.mounts_of.is_none()
    }
}

/// Report of the process before it executes the program.
struct Report {
    account: Option<Account>,
    /// Reason why the program is not executed; "" if it is.
    error: String,
}

impl Report {
    fn parse(message: &[u8]) -> io::Result<Self> {
        let (account, rest) = match message.strip_prefix(&[ACCOUNT]) {
            None => (None, message),
            Some(rest) => {
                let mut parts = rest.splitn(2, |byte| *byte == ACCOUNT);
                let json = parts.next().unwrap_or_default();
                let rest = parts.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                (Some(serde_json::from_slice(json)?), rest)
            }
        };
        let error = String::from_utf8_lossy(rest);
        Ok(Self {
            account,
            error: error.trim_matches(char::from(PASSED)).to_owned(),
        })
    }
}

/// Standard streams of a program.
pub(super) struct Streams {
    pub input: Input,
    pub output: Stdio,
    pub error: Stdio,
}

/// Started program.
pub(super) struct LaunchedProgram {
    pub pid: i32,
    /// Other end of the standard input or of the terminal, if any.
    pub input: Option<OwnedFd>,
    /// Account from the image of a started container. Later processes in the container have it, too. The container may
    /// change its `/etc/passwd`, and must not give more rights to a command that is executed in it.
    pub account: Option<Account>,
}

/// Processes whose namespaces a program shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedNamespaces {
    /// Process whose mounts the program shares; `None` for mounts of its own.
    pub mounts_of: Option<i32>,
    /// Process whose PID namespace the program shares, if containers have PID namespaces of their own.
    pub processes_of: Option<i32>,
}

impl SharedNamespaces {
    /// Returns the namespaces of a container, by its first process.
    pub(super) fn of(process: Option<i32>) -> Self {
        Self {
            mounts_of: process,
            processes_of: process,
        }
    }
}

/// Starts a program with its output in `output`.
///
/// # Errors
/// The error of the process before it executes the program, for example a missing program.
pub(super) fn launch(
    program: &Program,
    shared_namespaces: SharedNamespaces,
    directory: &OpenPodDirectory,
    output: io::PipeWriter,
) -> io::Result<LaunchedProgram> {
    let streams = Streams {
        input: Input::Null,
        output: output.try_clone()?.into(),
        error: output.into(),
    };
    launch_with_streams(program, shared_namespaces, directory, streams)
}

/// Starts a program with standard streams.
///
/// # Errors
/// Errors as of [`launch`].
pub(super) fn launch_with_streams(
    program: &Program,
    shared_namespaces: SharedNamespaces,
    directory: &OpenPodDirectory,
    streams: Streams,
) -> io::Result<LaunchedProgram> {
    if program.command.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no command specified",
        ));
    }
    let launch = Launch {
        program: program.clone(),
        mounts_of: shared_namespaces.mounts_of,
        directory: directory.for_child(),
        input: streams.input,
    };
    let (mut socket, child_socket) = UnixStream::pair()?;
    socket.set_read_timeout(Some(EXEC_TIMEOUT))?;
    socket.set_write_timeout(Some(EXEC_TIMEOUT))?;
    let mut command = Command::new(SELF_EXE);
    command
        .arg0("portolan-container")
        .arg(SUBCOMMAND)
        .stdin(OwnedFd::from(child_socket))
        .stdout(streams.output)
        .stderr(streams.error);
    let namespace = match shared_namespaces.processes_of {
        _ if !program.confinement.has_own_processes => PidNamespace::OfPod,
        Some(process) => PidNamespace::Of(process),
        None => PidNamespace::New,
    };
    let pid = namespace.spawn(&mut command)?.id().cast_signed();
    // Closes the other ends of pipe and socket, which the command holds.
    drop(command);
    let outcome = serde_json::to_vec(&launch)
        .map_err(io::Error::from)
        .and_then(|json| socket.write_all(&json))
        .and_then(|()| socket.shutdown(Shutdown::Write))
        .and_then(|()| receive(&socket))
        .and_then(|(message, descriptors)| Ok((Report::parse(&message)?, descriptors)));
    match outcome {
        Ok((Report { error, .. }, _)) if !error.is_empty() => Err(io::Error::other(error)),
        Ok((Report { account: None, .. }, _)) if launch.finds_account() => {
            Err(io::Error::other("the process ended before its program started"))
        }
        Ok((Report { account, .. }, mut descriptors)) => Ok(LaunchedProgram {
            pid,
            input: descriptors.pop(),
            account,
        }),
        Err(error) => {
            // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock that we hold.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            Err(error)
        }
    }
}

/// Runs the hidden subcommand: executes the program, or reports an error.
pub fn run() -> ExitCode {
    match execute_request() {
        // The error has been reported over the socket.
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("container: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute_request() -> io::Result<()> {
    // This copy is closed on `execve`.
    let stdin = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let mut socket = UnixStream::from(stdin);
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: dup2 takes numbers; both descriptors are open.
    if unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut json = Vec::new();
    socket.read_to_end(&mut json)?;
    let launch: Launch = serde_json::from_slice(&json)?;
    let error =
        execute_program(&launch, &socket).map_or_else(|error| error.to_string(), |never| match never {});
    socket.write_all(error.as_bytes())
}

/// Confines this process and executes the program.
fn execute_program(launch: &Launch, socket: &UnixStream) -> io::Result<std::convert::Infallible> {
    // This process gets the privileges of the processes of the container. In the user namespace of the Pod, it can have
    // the user ID of the host's root. Those processes must not read or trace it. `execve` ends the protection.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let pod_directory = OpenPodDirectory::inherit(&launch.directory)?;
    let program = &launch.program;
    let confinement = &program.confinement;
    let credentials = Credentials::prepare(confinement)?;
    let users = confinement.users.map(UserNamespace::of_pod).transpose()?;
    rustix::process::setsid()?;
    keyring::join_for(confinement)?;
    for cgroup in &confinement.cgroups {
        let path = cgroup.join("cgroup.procs");
        std::fs::write(&path, "0")
            .map_err(|error| with_context(&format!("joining {}", path.display()), &error))?;
    }
    match launch.mounts_of {
        Some(pid) => {
            cgroup_namespace::enter(pid)?;
            enter_mounts(pid)?;
        }
        None => {
            if confinement.has_own_control_groups() {
                cgroup_namespace::create()?;
            }
            mounts::build(confinement, &pod_directory, users.as_ref())?;
        }
    }
    // Closed before the working directory is set: `/proc/self/fd/N` must not lead to the Pod's directory on the node.
    drop(pod_directory);
    limit_open_files()?;
    if let Some(users) = users {
        users.enter(launch.mounts_of.is_none())?;
    }
    let mut program = program.clone();
    if let Some(root) = confinement.root.as_ref().filter(|_| launch.finds_account()) {
        let account = image_user::of_container(root, confinement)?;
        report_account(&account, socket)?;
        account.apply_to(&mut program);
    }
    open_input(launch.input, program.confinement.user, socket)?;
    credentials.apply(&program.confinement)?;
    let directory = if program.directory.is_empty() {
        "/"
    } else {
        &program.directory
    };
    enter_directory(Path::new(directory))
        .map_err(|error| with_context(&format!("working directory {directory:?}"), &error))?;
    execute(&program, socket)
}

/// Executes the program in this process, which has its environment afterwards.
fn execute(program: &Program, socket: &UnixStream) -> io::Result<std::convert::Infallible> {
    let (first, arguments) = program.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    if first == SELF_EXE {
        command.arg0("portolan");
    }
    let stdin = if program.closes_stdin_when_serving {
        Stdio::from(OwnedFd::from(socket.try_clone()?))
    } else {
        Stdio::inherit()
    };
    command
        .args(arguments)
        .env_clear()
        .envs(&program.environment)
        .stdin(stdin);
    let error = command.exec();
    Err(with_context(&format!("exec: {first:?}"), &error))
}

/// Reports the account to the sandbox.
fn report_account(account: &Account, mut socket: &UnixStream) -> io::Result<()> {
    let mut message = vec![ACCOUNT];
    serde_json::to_writer(&mut message, account)?;
    message.push(ACCOUNT);
    socket.write_all(&message)
}

/// Opens the standard input, and passes the other end to the sandbox.
fn open_input(input: Input, user: Option<u32>, socket: &UnixStream) -> io::Result<()> {
    let other_end: OwnedFd = match input {
        Input::Null => return Ok(()),
        Input::Pipe => {
            let (reading, writing) = io::pipe()?;
            terminal::replace(&reading, libc::STDIN_FILENO)?;
            writing.into()
        }
        Input::Terminal => terminal::adopt(user)?,
    };
    descriptors::send(socket, &[PASSED], &[other_end.as_fd()])
}

/// Sets the working directory. It may be any path in the container, but no link of `/proc` to the files of a process.
fn enter_directory(directory: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, directory, flags, Mode::empty(), resolve) {
        // A seccomp profile of the administrator may reject openat2(2). The process has the container's capabilities.
        Err(Errno::NOSYS | Errno::PERM) => std::env::set_current_dir(directory),
        opened => Ok(rustix::process::fchdir(opened?)?),
    }
}

/// Limits open files, so that a program cannot exhaust those of the node.
fn limit_open_files() -> io::Result<()> {
    let present = getrlimit(Resource::Nofile).maximum.unwrap_or(OPEN_FILES_MAX);
    let limit = Some(present.min(OPEN_FILES_MAX));
    let limits = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Nofile, limits).map_err(|errno| with_context("limiting open files", &errno.into()))
}

/// Enters the mount namespace of a process.
fn enter_mounts(pid: i32) -> io::Result<()> {
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/mnt"))?;
    let own = std::fs::metadata("/proc/self/ns/mnt")?;
    let is_own = {
        use std::os::unix::fs::MetadataExt;
        namespace.metadata()?.ino() == own.ino()
    };
    if !is_own {
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&namespace),
            Some(LinkNameSpaceType::Mount),
        )?;
    }
    Ok(())
}
