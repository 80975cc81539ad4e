//! Open directories of the Pod and of the image store, for processes that see empty directories at their paths.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Open directory with its path on the node.
#[derive(Debug)]
struct OpenDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

/// [`OpenDirectory`] for a child process, which inherits the descriptor.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct InheritedDescriptor {
    path: PathBuf,
    descriptor: i32,
}

impl OpenDirectory {
    /// Opens the directory at `path`. Child processes inherit the descriptor.
    fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    fn for_child(&self) -> InheritedDescriptor {
        InheritedDescriptor {
            path: self.path.clone(),
            descriptor: self.directory.as_raw_fd(),
        }
    }

    fn inherit(inherited: &InheritedDescriptor) -> io::Result<Self> {
        // SAFETY: for a number that is not a descriptor, reading its flags fails, and the value is not used any
        // further.
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

/// Open directory of the Pod, and of the image store if the node has one.
#[derive(Debug)]
pub(super) struct OpenPodDirectory {
    pod: OpenDirectory,
    images: Option<OpenDirectory>,
}

/// [`OpenPodDirectory`] for a child process, which inherits the descriptors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InheritedDirectory {
    pod: InheritedDescriptor,
    images: Option<InheritedDescriptor>,
}

impl OpenPodDirectory {
    /// Opens the directory of the Pod at `path`, and the image store. Child processes inherit the descriptors.
    ///
    /// # Errors
    /// Errors of `open(2)`.
    pub(super) fn open(path: &Path, images: Option<&Path>) -> io::Result<Self> {
        Ok(Self {
            pod: OpenDirectory::open(path)?,
            images: images.map(OpenDirectory::open).transpose()?,
        })
    }

    /// Returns the path at which a path of the node is reachable: through the descriptor if it is in the Pod's
    /// directory.
    pub(super) fn reachable_path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.pod.path) {
            Ok(below) => {
                PathBuf::from(format!("/proc/self/fd/{}", self.pod.directory.as_raw_fd())).join(below)
            }
            Err(_) => path.to_owned(),
        }
    }

    /// Opens the source of a volume: through the descriptor if it is in the Pod's directory. A `hostPath` volume must not
    /// lead to a descriptor of this process or of the sandbox, which have directories that the Pod does not see.
    ///
    /// # Errors
    /// `ELOOP` for a path through a link of `/proc` to the files of a process, and those of `openat2(2)`.
    pub(super) fn open_source(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        match path.strip_prefix(&self.pod.path) {
            Ok(below) => openat2(&self.pod.directory, below, flags, Mode::empty(), resolve),
            Err(_) => openat2(CWD, path, flags, Mode::empty(), resolve),
        }
    }

    /// Returns the image store with its path on the node.
    pub(super) fn images(&self) -> Option<(&Path, BorrowedFd<'_>)> {
        let images = self.images.as_ref()?;
        Some((&images.path, images.directory.as_fd()))
    }

    /// Returns the value for a child process.
    pub(super) fn for_child(&self) -> InheritedDirectory {
        InheritedDirectory {
            pod: self.pod.for_child(),
            images: self.images.as_ref().map(OpenDirectory::for_child),
        }
    }

    /// Takes the descriptors over in the child process. Programs that the child executes do not inherit them.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub(super) fn inherit(inherited: &InheritedDirectory) -> io::Result<Self> {
        Ok(Self {
            pod: OpenDirectory::inherit(&inherited.pod)?,
            images: inherited
                .images
                .as_ref()
                .map(OpenDirectory::inherit)
                .transpose()?,
        })
    }
}
