//! Open directory of the Pod, for processes that see an empty directory at its path.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};

/// Open directory with its path on the node.
#[derive(Debug)]
pub(super) struct OpenPodDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

/// [`OpenPodDirectory`] for a child process, which inherits the descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InheritedDirectory {
    path: PathBuf,
    descriptor: i32,
}

impl OpenPodDirectory {
    /// Opens the directory at `path`. Child processes inherit the descriptor.
    ///
    /// # Errors
    /// Errors of `open(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    /// Path at which a path of the node is reachable: through the descriptor if it is in the Pod's directory.
    pub fn reachable_path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.path) {
            Ok(below) => PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// Returns the value for a child process.
    pub fn for_child(&self) -> InheritedDirectory {
        InheritedDirectory {
            path: self.path.clone(),
            descriptor: self.directory.as_raw_fd(),
        }
    }

    /// Takes the descriptor over in the child process. Programs that the child executes do not inherit it.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub fn inherit(inherited: &InheritedDirectory) -> io::Result<Self> {
        // SAFETY: for a number that is no descriptor, reading its flags fails, and the value is not used any further.
        let borrowed = unsafe { BorrowedFd::borrow_raw(inherited.descriptor) };
        let flags = fcntl_getfd(borrowed)?;
        fcntl_setfd(borrowed, flags | FdFlags::CLOEXEC)?;
        // SAFETY: it is open, and in this process, which has just begun, nothing else owns it.
        let directory = unsafe { OwnedFd::from_raw_fd(inherited.descriptor) };
        Ok(Self {
            path: inherited.path.clone(),
            directory,
        })
    }
}
