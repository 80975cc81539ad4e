//! Terminal of a command that is executed in a container, from the container's `/dev/pts`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Uid, fchown, fstatfs, openat2};

use super::context::with_context;

#[cfg(test)]
mod tests;

/// Multiplexer of the container's own file system for terminals.
const MULTIPLEXER: &str = "/dev/pts/ptmx";
/// `DEVPTS_SUPER_MAGIC` of `magic.h`.
const DEVPTS_MAGIC: i64 = 0x1cd1;

/// Opens a terminal for `user`, and makes it the controlling terminal and the standard streams of this process. The
/// process must lead a session without a terminal. Returns the other side.
///
/// # Errors
/// Errors of the kernel. The container may have mounted another file system over `/dev/pts`.
pub(super) fn adopt(user: Option<u32>) -> io::Result<OwnedFd> {
    let opened = open_pair(user);
    let (controller, terminal) =
        opened.map_err(|error| with_context("opening a terminal of the container", &error))?;
    // SAFETY: the descriptor is open; the argument is a number.
    if unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) } < 0 {
        return Err(with_context("taking the terminal", &io::Error::last_os_error()));
    }
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        replace(&terminal, stream)?;
    }
    Ok(controller)
}

/// Makes a descriptor a standard stream of this process.
///
/// # Errors
/// Errors of `dup2(2)`.
pub(super) fn replace(descriptor: &impl AsRawFd, stream: i32) -> io::Result<()> {
    // SAFETY: dup2 takes numbers; the descriptor is open.
    match unsafe { libc::dup2(descriptor.as_raw_fd(), stream) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn open_pair(user: Option<u32>) -> io::Result<(OwnedFd, OwnedFd)> {
    let controller = open_multiplexer(MULTIPLEXER)?;
    if fstatfs(&controller)?.f_type != DEVPTS_MAGIC {
        return Err(io::Error::other(format!(
            "{MULTIPLEXER} is not in a file system for terminals"
        )));
    }
    let unlocked: libc::c_int = 0;
    // SAFETY: the argument points to a number that lives through the call.
    if unsafe { libc::ioctl(controller.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // By descriptor: the path of the terminal may lead elsewhere in the container.
    // SAFETY: the argument is a number.
    let terminal = unsafe {
        libc::ioctl(
            controller.as_raw_fd(),
            libc::TIOCGPTPEER,
            libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC,
        )
    };
    if terminal < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call created this descriptor, and nothing else owns it.
    let terminal = unsafe { OwnedFd::from_raw_fd(terminal) };
    if let Some(user) = user {
        fchown(terminal.as_fd(), Some(Uid::from_raw(user)), None)?;
    }
    Ok((controller, terminal))
}

/// Opens a multiplexer. This process still has all privileges. A link of the container through `/proc` could otherwise
/// lead to the terminals of the node.
fn open_multiplexer(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}
