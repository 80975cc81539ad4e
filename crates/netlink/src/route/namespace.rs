//! Network namespaces, referenced by file descriptors. They have no names, so none can be left behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use super::error::RouteError;

/// Namespace of the reading thread; `/proc/self` is that of the first thread of the process.
const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

/// A network namespace. It exists as long as a descriptor, a process or a socket refers to it. Its links and their
/// veth peers are deleted with it.
#[derive(Debug)]
pub struct NetworkNamespace {
    descriptor: OwnedFd,
}

impl NetworkNamespace {
    /// Creates a namespace with only a loopback link, which is down. This needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    ///
    /// [`RouteError::Namespace`] if the kernel refuses.
    pub fn create() -> Result<Self, RouteError> {
        on_own_thread(|| {
            // SAFETY: unshare takes no pointer. The call changes this thread only, and the thread ends with this
            // closure.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open(OF_THIS_THREAD)
        })
        .map(Self::from)
        .map_err(|source| RouteError::Namespace { source })
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`RouteError::Namespace`] if it cannot be opened.
    pub fn current() -> Result<Self, RouteError> {
        File::open(OF_THIS_THREAD)
            .map(Self::from)
            .map_err(|source| RouteError::Namespace { source })
    }

    /// Runs `work` in the namespace on a separate thread, and waits for it. Sockets that it opens stay in the
    /// namespace and may be used from any thread. A panic of `work` propagates to the caller.
    ///
    /// # Errors
    ///
    /// [`RouteError::Namespace`] if the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RouteError> {
        on_own_thread(|| {
            set_namespace(self.as_fd())?;
            Ok(work())
        })
        .map_err(|source| RouteError::Namespace { source })
    }

    /// Makes `command` start its program in the namespace.
    ///
    /// # Errors
    ///
    /// [`RouteError::Namespace`] if the descriptor cannot be duplicated.
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

/// Runs `work` on a fresh thread, because a thread that changed its namespace must not do other work.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .spawn_scoped(scope, work)?
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    })
}
