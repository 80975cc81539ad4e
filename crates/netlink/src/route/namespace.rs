//! Network namespaces, held by a descriptor: nothing has a name, so nothing can be left behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use super::error::RouteError;

/// The namespace of the thread that reads it; `/proc/self` would be that of the process's first thread.
const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

/// A network namespace. It lives as long as a descriptor of it, a process or a socket in it;
/// with it go its links and the other ends of its veth pairs.
#[derive(Debug)]
pub struct NetworkNamespace {
    descriptor: OwnedFd,
}

impl NetworkNamespace {
    /// Makes an empty namespace: nothing in it but a loopback link that is down. Needs CAP_SYS_ADMIN.
    pub fn create() -> Result<Self, RouteError> {
        on_own_thread(|| {
            // SAFETY: unshare takes no pointer. It changes this thread only, which ends right after.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open(OF_THIS_THREAD)
        })
        .map(Self::from)
        .map_err(|source| RouteError::Namespace { source })
    }

    /// The namespace that the calling thread is in.
    pub fn current() -> Result<Self, RouteError> {
        File::open(OF_THIS_THREAD)
            .map(Self::from)
            .map_err(|source| RouteError::Namespace { source })
    }

    /// Runs `work` in the namespace, on a thread of its own, and waits for it. Sockets opened there stay there
    /// and may be used from anywhere. A panic of `work` goes on in the caller.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RouteError> {
        on_own_thread(|| {
            set_namespace(self.as_fd())?;
            Ok(work())
        })
        .map_err(|source| RouteError::Namespace { source })
    }

    /// Makes `command` start its program in the namespace.
    pub fn start_inside(&self, command: &mut Command) -> Result<(), RouteError> {
        let descriptor = self
            .descriptor
            .try_clone()
            .map_err(|source| RouteError::Namespace { source })?;
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(move || set_namespace(descriptor.as_fd()));
        }
        Ok(())
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<File> for NetworkNamespace {
    fn from(file: File) -> Self {
        Self {
            descriptor: file.into(),
        }
    }
}

fn set_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes no pointer; the descriptor is open as long as it is borrowed.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A thread that has changed its namespace must not go on with other work, so each piece gets a fresh one.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .spawn_scoped(scope, work)?
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}
