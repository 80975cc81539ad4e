//! The Pod's own directory, for processes that see an empty one in its place.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};

/// An open directory, and its path from before something was mounted over it.
#[derive(Debug)]
pub(super) struct PodFiles {
    path: PathBuf,
    directory: OwnedFd,
}

/// [`PodFiles`] for a child process, which inherits the descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Inherited {
    path: PathBuf,
    descriptor: i32,
}

impl PodFiles {
    /// Opens the directory at `path`. Child processes inherit the descriptor.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    /// Where a path of the node is reached: through the descriptor if it lies in the Pod's directory.
    pub fn reach(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.path) {
            Ok(below) => PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).join(below),
            Err(_) => path.to_owned(),
        }
    }

    /// For a child process.
    pub fn to_child(&self) -> Inherited {
        Inherited {
            path: self.path.clone(),
            descriptor: self.directory.as_raw_fd(),
        }
    }

    /// In the child process; what that executes does not inherit the descriptor any more.
    pub fn inherit(inherited: &Inherited) -> io::Result<Self> {
        // SAFETY: the flags of a number that is no descriptor cannot be read, and then nothing is made of it.
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
