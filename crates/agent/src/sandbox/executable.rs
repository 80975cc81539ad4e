//! Executable of this process, for processes of Pods.
//!
//! A container with root can open the executable of another process of its Pod through `/proc/PID/exe`. Once no
//! process executes it, the container can write it. Processes of Pods are therefore executed from a read-only mount
//! of the file.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::SELF_EXE;
use crate::sandbox::mount_attributes::set_read_only_below;

/// Executable, on a read-only mount if the kernel allows one.
pub(super) enum Executable {
    ReadOnly(OwnedFd),
    Unprotected,
}

impl Executable {
    /// Returns the path at which the executable is executed.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::ReadOnly(tree) => PathBuf::from(format!("/proc/self/fd/{}", tree.as_raw_fd())),
            Self::Unprotected => PathBuf::from(SELF_EXE),
        }
    }
}

/// Mounts the executable of this process read-only. A failure is reported in the sandbox's log.
pub(super) fn mount_read_only() -> Executable {
    let link = Path::new(SELF_EXE);
    let mounted = detach_read_only(link).or_else(|_| {
        // The link leads to the mounts in which this process was started. The process may have left these mounts.
        let path = fs::read_link(link)?;
        let (named, running) = (fs::metadata(&path)?, fs::metadata(link)?);
        if (named.dev(), named.ino()) != (running.dev(), running.ino()) {
            return Err(io::Error::other("the file was replaced"));
        }
        detach_read_only(&path)
    });
    match mounted {
        Ok(tree) => Executable::ReadOnly(tree),
        Err(error) => {
            eprintln!("sandbox: read-only mount of the executable: {error}");
            Executable::Unprotected
        }
    }
}

fn detach_read_only(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, flags)?;
    set_read_only_below(tree.as_fd())?;
    Ok(tree)
}
