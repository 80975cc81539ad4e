//! Starting a program as a container: a further step of this same binary puts itself into the container's mounts,
//! rights and limits, and then becomes the program. Why it did not is said over a socket, which is closed by success.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

use super::credentials::Rights;
use super::pod_files::{Inherited, PodFiles};
use super::protocol::Program;
use super::users::UserNamespace;
use super::{OWN_PROGRAM, mounts};

/// Hidden subcommand of the further step.
pub const SUBCOMMAND: &str = "internal-container";
/// Files and connections that one process of a container may have open.
const OPEN_FILES_MAX: u64 = 65_536;
/// How long it may take until the program runs: some mounts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(9);

/// What the further step reads from its standard input.
#[derive(Serialize, Deserialize)]
struct Launch {
    program: Program,
    /// The process whose mounts the program shares; a container has its own.
    joins: Option<i32>,
    /// The Pod's directory.
    files: Inherited,
}

/// Starts a program with its output in `output`; its process number.
pub(super) fn launch(
    program: &Program,
    joins: Option<i32>,
    files: &PodFiles,
    output: io::PipeWriter,
) -> io::Result<i32> {
    if program.command.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no command specified",
        ));
    }
    let launch = Launch {
        program: program.clone(),
        joins,
        files: files.to_child(),
    };
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    ours.set_write_timeout(Some(PATIENCE))?;
    let mut command = Command::new(OWN_PROGRAM);
    command
        .arg0("portolan-container")
        .arg(SUBCOMMAND)
        .stdin(OwnedFd::from(theirs))
        .stdout(output.try_clone()?)
        .stderr(output);
    let pid = command.spawn()?.id().cast_signed();
    // The command holds the other ends of pipe and socket.
    drop(command);
    let mut complaint = String::new();
    let told = serde_json::to_vec(&launch)
        .map_err(io::Error::from)
        .and_then(|json| ours.write_all(&json))
        .and_then(|()| ours.shutdown(Shutdown::Write))
        .and_then(|()| ours.read_to_string(&mut complaint));
    match told {
        Ok(_) if complaint.is_empty() => Ok(pid),
        Ok(_) => Err(io::Error::other(complaint)),
        Err(error) => {
            // SAFETY: kill takes numbers; the process was not reaped, because that takes the lock that we hold.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            Err(error)
        }
    }
}

/// The further step: becomes the program, or says why it cannot.
pub fn run() -> ExitCode {
    match begin() {
        // A failed step has been reported.
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("container: {error}");
            ExitCode::FAILURE
        }
    }
}

fn begin() -> io::Result<()> {
    // A copy that the program does not get.
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
    let error = become_program(&launch).map_or_else(|error| error.to_string(), |never| match never {});
    socket.write_all(error.as_bytes())
}

fn become_program(launch: &Launch) -> io::Result<std::convert::Infallible> {
    let files = PodFiles::inherit(&launch.files)?;
    let program = &launch.program;
    let confinement = &program.confinement;
    let rights = Rights::of(confinement)?;
    let users = confinement.users.map(UserNamespace::of_pod).transpose()?;
    rustix::process::setsid()?;
    for cgroup in &confinement.cgroups {
        let path = cgroup.join("cgroup.procs");
        std::fs::write(&path, "0")
            .map_err(|error| in_words(&format!("joining {}", path.display()), &error))?;
    }
    match launch.joins {
        Some(pid) => join(pid)?,
        None => mounts::build(confinement, &files, users.as_ref())?,
    }
    // A working directory `/proc/self/fd/N` must not lead to the Pod's directory on the node.
    drop(files);
    hold_to_open_files()?;
    if let Some(users) = users {
        users.enter(launch.joins.is_none())?;
    }
    rights.reduce(confinement)?;
    let directory = if program.directory.is_empty() {
        "/"
    } else {
        &program.directory
    };
    std::env::set_current_dir(Path::new(directory))
        .map_err(|error| in_words(&format!("working directory {directory:?}"), &error))?;
    let (first, arguments) = program.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    if first == OWN_PROGRAM {
        command.arg0("portolan");
    }
    command
        .args(arguments)
        .env_clear()
        .envs(&program.environment)
        .stdin(Stdio::inherit());
    let error = command.exec();
    Err(in_words(&format!("exec: {first:?}"), &error))
}

/// A program that opens more and more takes what it may have, not what the node has.
fn hold_to_open_files() -> io::Result<()> {
    let present = getrlimit(Resource::Nofile).maximum.unwrap_or(OPEN_FILES_MAX);
    let limit = Some(present.min(OPEN_FILES_MAX));
    let held = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Nofile, held).map_err(|errno| in_words("limiting open files", &errno.into()))
}

/// Enters the mounts of a process.
fn join(pid: i32) -> io::Result<()> {
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

/// An error with what was being done.
pub(super) fn in_words(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
