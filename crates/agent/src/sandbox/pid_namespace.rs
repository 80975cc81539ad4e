//! PID namespaces of containers. A container from an image has one of its own, unless the Pod has
//! `shareProcessNamespace` or `hostPID`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// PID namespace of a new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PidNamespace {
    /// PID namespace of the sandbox, which is that of the node in a Pod with `hostPID`.
    OfPod,
    /// A new one, in which the process has the PID 1. Its end ends all processes of the namespace.
    New,
    /// PID namespace of a process.
    Of(i32),
}

impl PidNamespace {
    /// Starts a command in the namespace. The new process is a child of this process. The returned PID is that of the
    /// namespace of this process.
    ///
    /// # Errors
    /// Errors of `unshare(2)`, `setns(2)` and `fork(2)`.
    pub(super) fn spawn(self, command: &mut Command) -> io::Result<Child> {
        if self == Self::OfPod {
            return command.spawn();
        }
        // The namespace of new processes is an attribute of the thread. A separate thread leaves that of others alone.
        let start = || {
            self.enter_for_children()?;
            command.spawn()
        };
        thread::scope(|scope| scope.spawn(start).join())
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts a process ended")))
    }

    fn enter_for_children(self) -> io::Result<()> {
        match self {
            Self::OfPod => Ok(()),
            // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
            Self::New => Ok(unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?),
            Self::Of(process) => {
                let namespace = File::open(format!("/proc/{process}/ns/pid"))?;
                let kind = LinkNameSpaceType::ProcessID;
                Ok(move_into_link_name_space(namespace.as_fd(), Some(kind))?)
            }
        }
    }
}
