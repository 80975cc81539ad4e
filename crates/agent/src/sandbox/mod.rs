//! Inside of a Pod: the process that holds the Pod's namespaces, starts its containers and reaps them.
//!
//! It is pid 1 of the Pod's pid namespace, so that its death ends the Pod with nothing left, and it outlives the
//! agent: a restarted agent connects to its socket again and hears what happened meanwhile. The agent starts it
//! as a hidden subcommand of the same binary, in two steps, because a process enters a new pid namespace only
//! by its children.

mod complaints;
mod credentials;
mod files;
mod launch;
mod log;
mod mounts;
mod output;
mod own_program;
mod pod_files;
mod programs;
pub mod protocol;
mod serve;
mod users;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use serde::{Deserialize, Serialize};

use pod_files::PodFiles;

pub use launch::{SUBCOMMAND as CONTAINER_SUBCOMMAND, run as run_container};
pub use log::{LOG_FILES_MAX, older};

#[cfg(test)]
mod tests;

/// This program, even if its file was replaced meanwhile.
pub const OWN_PROGRAM: &str = "/proc/self/exe";
/// Hidden subcommand of the first step.
pub const SUBCOMMAND: &str = "internal-sandbox";
/// Hidden subcommand of the second step: pid 1.
pub const INIT_SUBCOMMAND: &str = "internal-sandbox-init";
/// What pid 1 prints once its socket is there.
pub const READY_LINE: &str = "ready";
/// What the processes of a sandbox are called in `ps`.
const PROCESS_NAME: &str = "portolan-sandbox";

/// What a sandbox needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the agent finds it.
    pub socket: PathBuf,
    /// Host name inside; `None` leaves the node's, as for Pods in its network.
    pub hostname: Option<String>,
    /// File to be mounted over `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Files and directories of the node that nothing in the Pod sees.
    #[serde(default)]
    pub hidden: Vec<PathBuf>,
    /// Process that holds the namespaces of a Pod with a user namespace; `None` for a Pod that shares the users of the host.
    #[serde(default)]
    pub namespaces_of: Option<u32>,
}

/// First step: leaves the agent's namespaces, starts pid 1, and ends.
pub fn run(settings: &str) -> ExitCode {
    report(enter_and_start(settings))
}

/// Second step: pid 1, until it is killed.
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
    // A session of its own: Ctrl-C at the agent's terminal is not for Pods.
    rustix::process::setsid()?;
    // Before this process leaves the mounts in which its program is.
    let program = own_program::read_only();
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID;
    match serde_json::from_str::<Settings>(settings)?.namespaces_of {
        Some(holder) => enter_namespaces(holder)?,
        None => flags |= UnshareFlags::NEWUTS | UnshareFlags::NEWIPC,
    }
    // SAFETY: no file descriptor table is unshared, which is what the call is unsafe for.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Command::new(program.path())
        .arg0(PROCESS_NAME)
        .args([INIT_SUBCOMMAND, settings])
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}

/// Enters the UTS and IPC namespaces of the holder. The network namespace was entered before.
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
    programs::block_child_signal()?;
    let directory = settings.socket.parent().unwrap_or(Path::new("/"));
    let pod_files = PodFiles::open(directory)?;
    remove_stale(&settings.socket)?;
    let listener = UnixListener::bind(&settings.socket)?;
    files::prepare(&settings)?;
    if let Some(hostname) = &settings.hostname {
        rustix::system::sethostname(hostname.as_bytes())?;
    }
    let programs = programs::Programs::new(pod_files);
    serve::start(listener, programs.clone())?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY_LINE}")?;
    stdout.flush()?;
    detach_stdout()?;
    programs.reap_for_ever()
}

fn remove_stale(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The agent stops reading after the first line, so nothing must go there any more.
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
