//! Sandbox of a Pod: the process that holds the Pod's namespaces, starts its containers and reaps them.
//!
//! The sandbox is process 1 of the Pod's PID namespace. The kernel therefore kills all processes of the Pod when the
//! sandbox exits. In a Pod with `hostPID`, the sandbox is a process of the node. There the agent kills the processes
//! of the Pod by their control groups.
//!
//! The sandbox outlives the agent: a restarted agent connects to its socket and receives the state of the containers.
//! The agent starts the sandbox as a hidden subcommand of the same binary. The start has two steps, because only child
//! processes enter a new PID namespace.

mod attachments;
mod cgroup_namespace;
mod container_log;
mod container_output;
mod container_start;
mod context;
mod credentials;
pub(crate) mod descriptors;
mod error_log;
mod exec_output;
mod executable;
mod image_user;
mod keyring;
mod launch;
pub(crate) mod mount_attributes;
mod mounts;
mod pid_namespace;
mod pod_directory;
mod pod_mounts;
mod processes;
pub mod protocol;
mod server;
pub mod session;
mod session_server;
mod terminal;
mod user_namespace;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{getpid, set_child_subreaper};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use serde::{Deserialize, Serialize};

use pod_directory::OpenPodDirectory;

pub(crate) use container_log::OutputStream;
pub use container_log::{LOG_FILES_MAX, older_log};
pub use launch::{SUBCOMMAND as CONTAINER_SUBCOMMAND, run as run_container};

#[cfg(test)]
mod tests;

/// Executable of this process, even if the file was replaced since.
pub const SELF_EXE: &str = "/proc/self/exe";
/// Hidden subcommand of the first process.
pub const SUBCOMMAND: &str = "internal-sandbox";
/// Hidden subcommand of the second process, which is process 1 of the Pod's PID namespace, if it has one.
pub const INIT_SUBCOMMAND: &str = "internal-sandbox-init";
/// Line that the second process prints once its socket exists.
pub const READY_LINE: &str = "ready";
/// Name of the sandbox processes in `ps`.
const PROCESS_NAME: &str = "portolan-sandbox";

/// Settings of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Path of its socket.
    pub socket: PathBuf,
    /// Host name; `None` for that of the node, as in the host network.
    pub hostname: Option<String>,
    /// File that is mounted over `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Paths of the node that the Pod does not see.
    #[serde(default)]
    pub hidden: Vec<PathBuf>,
    /// Process that holds the namespaces of a Pod with a user namespace; `None` for a Pod that shares the users of the
    /// host.
    #[serde(default)]
    pub namespaces_of: Option<u32>,
    /// Directory of the image store; `None` for a node without one.
    #[serde(default)]
    pub images: Option<PathBuf>,
    /// True if the Pod shares the IPC namespace of the node.
    #[serde(default)]
    pub shares_ipc: bool,
    /// True if the Pod shares the PID namespace of the node.
    #[serde(default)]
    pub shares_processes: bool,
    /// Sysctls of the Pod by name, with dots.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

/// Runs the first process: leaves the agent's namespaces, starts the second process, and exits.
pub fn run(settings: &str) -> ExitCode {
    report(enter_and_start(settings))
}

/// Runs the second process until it is killed.
pub fn run_init(settings: &str) -> ExitCode {
    report(init(settings))
}

fn report(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}

fn enter_and_start(settings: &str) -> io::Result<()> {
    // A separate session: Ctrl-C in the agent's terminal must not reach Pods.
    rustix::process::setsid()?;
    // This must precede the change of the mount namespace in which the executable is.
    let executable = executable::mount_read_only();
    let parsed: Settings = serde_json::from_str(settings)?;
    let mut flags = UnshareFlags::NEWNS;
    if !parsed.shares_processes {
        flags |= UnshareFlags::NEWPID;
    }
    match parsed.namespaces_of {
        Some(holder) => enter_namespaces(holder)?,
        None if parsed.shares_ipc => flags |= UnshareFlags::NEWUTS,
        None => flags |= UnshareFlags::NEWUTS | UnshareFlags::NEWIPC,
    }
    // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Command::new(executable.path())
        .arg0(PROCESS_NAME)
        .args([INIT_SUBCOMMAND, settings])
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}

/// Enters the UTS and IPC namespaces of the holder. The process is in its network namespace already.
fn enter_namespaces(holder: u32) -> io::Result<()> {
    let entered = [
        ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
        ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ];
    for (name, kind) in entered {
        let namespace = File::open(format!("/proc/{holder}/ns/{name}"))?;
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
    }
    Ok(())
}

fn init(settings: &str) -> io::Result<()> {
    let settings: Settings = serde_json::from_str(settings)?;
    if settings.shares_processes {
        adopt_orphans()?;
    }
    // Each container joins a keyring of its own, and reports an error that concerns it.
    if let Err(error) = keyring::join_new() {
        error_log::log_error(format_args!("joining a new session keyring: {error}"));
    }
    processes::block_child_signal()?;
    let directory = settings.socket.parent().unwrap_or(Path::new("/"));
    let pod_directory = OpenPodDirectory::open(directory, settings.images.as_deref())?;
    remove_stale_socket(&settings.socket)?;
    let listener = UnixListener::bind(&settings.socket)?;
    let session_socket = session::socket_path(&settings.socket);
    remove_stale_socket(&session_socket)?;
    let session_listener = UnixListener::bind(&session_socket)?;
    pod_mounts::prepare(&settings)?;
    for (name, value) in &settings.sysctls {
        write_sysctl(name, value)?;
    }
    if let Some(hostname) = &settings.hostname {
        rustix::system::sethostname(hostname.as_bytes())?;
    }
    let processes = processes::Processes::new(pod_directory);
    server::start(listener, processes.clone())?;
    session_server::start(session_listener, processes.clone())?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY_LINE}")?;
    stdout.flush()?;
    detach_stdout()?;
    processes.reap_forever()
}

/// Makes orphaned processes of the containers children of this process, as those of process 1 in a PID namespace.
fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Writes a sysctl of the namespaces of this process. The agent permits safe names only.
fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    std::fs::write(path, value)
        .map_err(|error| context::with_context(&format!("sysctl {name}={value}"), &error))
}

fn remove_stale_socket(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Redirects the standard output, because the agent reads the first line only.
fn detach_stdout() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    // SAFETY: dup2 takes numbers; both descriptors are open.
    let result = unsafe { libc::dup2(null.as_raw_fd(), libc::STDOUT_FILENO) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
