//! An enclosure: this program once more, in namespaces of its own, ending with the process that asked for it.
//!
//! Three processes stand between: the *keeper* outside of the pid namespace, which hands on the exit status;
//! its child, pid 1 of the pid namespace, which reaps orphans; and the program. Keeper and pid 1 ask the
//! kernel for SIGKILL at their parent's death, and a dead pid 1 takes its whole pid namespace along.

mod descent;
mod mounts;

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, ExitStatus};

pub(crate) use descent::INIT_NAME;
pub use mounts::{Inside, RUN_DIRECTORY, cover_file, settle};

/// Tells the program that it is inside, so that it does not go further down.
const INSIDE_VARIABLE: &str = "PORTOLAN_ENCLOSED";
/// Number of the inherited descriptor of the listener on the host's loopback.
const LISTENER_VARIABLE: &str = "PORTOLAN_HOST_LISTENER_FD";

/// Why there is no enclosure.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureError {
    /// The machine's settings forbid what an ordinary user needs. An administrator can mend it.
    #[error("{setting} forbids user namespaces to ordinary users: {remedy}, or run as root")]
    Forbidden {
        /// The setting that forbids it.
        setting: &'static str,
        /// What an administrator can do.
        remedy: &'static str,
    },
    /// The kernel refused the namespaces and no known setting says why: seccomp of a container, most often.
    #[error(
        "the kernel refuses user, network, mount and pid namespaces ({source}); a container needs --privileged or CAP_SYS_ADMIN"
    )]
    Refused {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The program could not be started once more. Retrying helps only if memory or processes were short.
    #[error("starting {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What failed.
        source: io::Error,
    },
    /// A mount inside failed.
    #[error("mounting {target}: {source}")]
    Mount {
        /// Where.
        target: String,
        /// What failed.
        source: io::Error,
    },
    /// The loopback link inside could not be set up.
    #[error("the enclosure's loopback link: {source}")]
    Network {
        /// What failed.
        source: netlink::route::RouteError,
    },
    /// A file inside could not be written.
    #[error("writing {path}: {source}")]
    Write {
        /// Which one.
        path: String,
        /// What failed.
        source: io::Error,
    },
}

/// Whether this process runs inside of an enclosure.
pub fn is_inside() -> bool {
    env::var_os(INSIDE_VARIABLE).is_some()
}

/// Goes into an enclosure. In the process that was started from outside it starts this same program with the
/// same arguments in namespaces of its own, waits for it, and returns its exit status. In that second process
/// it returns `None`: go on, and call [`settle`] first.
///
/// `host_listener` is a listening socket of the host that the inside is to answer ([`host_listener`] gives it
/// there): the only way in. Call this before any thread is started.
pub fn enclose(listener: Option<&TcpListener>) -> Result<Option<ExitStatus>, EnclosureError> {
    if is_inside() {
        return Ok(None);
    }
    let mut command = this_program()?;
    command.args(env::args_os().skip(1));
    if let Some(listener) = listener {
        keep_open_in_child(listener)?;
        command.env(LISTENER_VARIABLE, listener.as_raw_fd().to_string());
    }
    let mut child = spawn(&mut command)?;
    // Ctrl-C goes to the whole process group. The program inside answers it; this process waits for that.
    descent::ignore_interrupt();
    let status = child.wait().map_err(|source| start_error(&command, source))?;
    Ok(Some(status))
}

/// Inside: the listening socket that was handed to [`enclose`], if there was one. To be called once. Programs
/// that are started from here do not get it.
pub fn host_listener() -> Option<TcpListener> {
    let descriptor = env::var(LISTENER_VARIABLE).ok()?.parse().ok()?;
    // SAFETY: the variable is set by `enclose` only, which leaves this descriptor open for this purpose;
    // nothing else in this process knows it.
    let listener = unsafe { TcpListener::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC)
        .inspect_err(|error| tracing::warn!(%error, "the listener on the host"))
        .ok()?;
    Some(listener)
}

/// This program once more, marked as inside.
pub(crate) fn this_program() -> Result<Command, EnclosureError> {
    let program = env::current_exe().map_err(|source| EnclosureError::Start {
        program: "this program".to_owned(),
        source,
    })?;
    let mut command = Command::new(program);
    command.env(INSIDE_VARIABLE, "1");
    Ok(command)
}

/// Starts `command` in an enclosure. It ends when the calling *thread* ends, at the latest.
pub(crate) fn spawn(command: &mut Command) -> Result<std::process::Child, EnclosureError> {
    descent::prepare(command);
    command.spawn().map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSPC | libc::EINVAL | libc::EACCES) => forbidden(source),
        _ => start_error(command, source),
    })
}

fn start_error(command: &Command, source: io::Error) -> EnclosureError {
    EnclosureError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

/// Finds the setting behind a refusal.
fn forbidden(source: io::Error) -> EnclosureError {
    let settings: [(&'static str, &str, &'static str); 3] = [
        (
            "kernel.unprivileged_userns_clone",
            "0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            "user.max_user_namespaces",
            "0",
            "sysctl -w user.max_user_namespaces=10000",
        ),
    ];
    for (setting, forbidding, remedy) in settings {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        if std::fs::read_to_string(path).is_ok_and(|value| value.trim() == forbidding) {
            return EnclosureError::Forbidden { setting, remedy };
        }
    }
    EnclosureError::Refused { source }
}

fn keep_open_in_child(listener: &TcpListener) -> Result<(), EnclosureError> {
    rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::empty()).map_err(|source| EnclosureError::Start {
        program: "this program".to_owned(),
        source: source.into(),
    })
}
