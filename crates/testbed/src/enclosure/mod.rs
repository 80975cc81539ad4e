//! Enclosures: an enclosure runs this program again in new namespaces, and ends with the process that started it.
//!
//! An enclosure has three processes:
//!
//! - The supervisor is outside of the new PID namespace. It returns the exit status of the program.
//! - Its child is PID 1 of the new PID namespace. It reaps orphans.
//! - The child of PID 1 is the program.
//!
//! The kernel sends SIGKILL to the supervisor and to PID 1 when their parent exits. The exit of PID 1 ends all
//! processes of its PID namespace.

mod entry;
mod mounts;

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, ExitStatus};

pub(crate) use entry::INIT_NAME;
pub use mounts::{EnclosureSetup, RUN_DIRECTORY, cover_file, set_up_enclosure};

/// Environment variable that marks the inner program.
const INSIDE_VARIABLE: &str = "PORTOLAN_ENCLOSED";
/// Number of the inherited descriptor of the listener on the host's loopback.
const LISTENER_VARIABLE: &str = "PORTOLAN_HOST_LISTENER_FD";

/// Failure to create an enclosure.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureError {
    /// Settings of the host forbid user namespaces. An administrator can change them.
    #[error("{setting} forbids user namespaces to ordinary users: {remedy}, or run as root")]
    Forbidden {
        /// Setting that forbids user namespaces.
        setting: &'static str,
        /// Remedy for an administrator.
        remedy: &'static str,
    },
    /// The kernel rejects the namespaces without a known setting as the reason; the usual cause is a container's
    /// seccomp profile.
    #[error(
        "the kernel refuses user, network, mount and PID namespaces ({source}); a container needs --privileged or CAP_SYS_ADMIN"
    )]
    Refused {
        /// Error of the kernel.
        source: io::Error,
    },
    /// The program cannot be started again. A retry helps only after a lack of memory or processes.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A mount inside failed.
    #[error("cannot mount {target}: {source}")]
    Mount {
        /// Mount point.
        target: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The loopback link inside cannot be set up.
    #[error("cannot set up the loopback link: {source}")]
    Network {
        /// Error of the kernel.
        source: netlink::route::RouteError,
    },
    /// A file inside cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Returns true if this process runs in an enclosure.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE_VARIABLE).is_some()
}

/// Enters an enclosure. The outer process starts this program again with the same arguments in new namespaces,
/// waits for it, and returns its exit status. The inner process gets `None`; it calls [`set_up_enclosure`] first.
///
/// `listener` is a listening socket of the host for the inner process, which gets it by [`host_listener`]. It is the
/// only way into the enclosure. Call this before any thread is started.
///
/// # Errors
///
/// Returns [`EnclosureError`] if the kernel rejects the namespaces or the program cannot be started.
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
    // Ctrl-C reaches the whole process group. The inner program handles it; this process waits for that.
    entry::ignore_interrupt();
    let status = child.wait().map_err(|source| start_error(&command, source))?;
    Ok(Some(status))
}

/// Returns the listening socket that was passed to [`enclose`], if there was one, in the inner process. To be
/// called once. Child processes do not inherit it.
pub fn host_listener() -> Option<TcpListener> {
    let descriptor = env::var(LISTENER_VARIABLE).ok()?.parse().ok()?;
    // SAFETY: the variable is set by `enclose` only, which leaves this descriptor open for this purpose;
    // no other code of this process uses it.
    let listener = unsafe { TcpListener::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC)
        .inspect_err(|error| tracing::warn!(%error, "host listener not usable"))
        .ok()?;
    Some(listener)
}

/// Returns a command that starts this program again as the inner one.
pub(crate) fn this_program() -> Result<Command, EnclosureError> {
    let program = env::current_exe().map_err(|source| EnclosureError::Start {
        program: "this program".to_owned(),
        source,
    })?;
    let mut command = Command::new(program);
    command.env(INSIDE_VARIABLE, "1");
    Ok(command)
}

/// Starts `command` in an enclosure, which ends with the calling *thread* at the latest.
pub(crate) fn spawn(command: &mut Command) -> Result<std::process::Child, EnclosureError> {
    entry::prepare(command);
    command.spawn().map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSPC | libc::EINVAL | libc::EACCES) => forbidding_setting(source),
        _ => start_error(command, source),
    })
}

fn start_error(command: &Command, source: io::Error) -> EnclosureError {
    EnclosureError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

/// Finds the setting that causes a rejection.
fn forbidding_setting(source: io::Error) -> EnclosureError {
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
