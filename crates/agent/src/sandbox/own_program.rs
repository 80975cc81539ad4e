//! This program, for processes of Pods.
//!
//! A container of root can open the program of another process of its Pod, by `/proc/PID/exe`, also for writing, once
//! nobody executes it. Therefore what runs in Pods is executed from a read-only mount of the program's file.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::OWN_PROGRAM;
use crate::mount_attributes::set_read_only_below;

/// The program, on a mount of its own where the kernel allows that.
pub(super) enum OwnProgram {
    ReadOnly(OwnedFd),
    AsItIs,
}

impl OwnProgram {
    /// Path at which the program is executed.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::ReadOnly(tree) => PathBuf::from(format!("/proc/self/fd/{}", tree.as_raw_fd())),
            Self::AsItIs => PathBuf::from(OWN_PROGRAM),
        }
    }
}

/// Makes a read-only mount of this program. Where that fails, the sandbox's log says so.
pub(super) fn read_only() -> OwnProgram {
    let link = Path::new(OWN_PROGRAM);
    let made = take(link).or_else(|_| {
        // The link leads to the mounts that this process was started in, which it may have left since.
        let path = fs::read_link(link)?;
        let (named, running) = (fs::metadata(&path)?, fs::metadata(link)?);
        if (named.dev(), named.ino()) != (running.dev(), running.ino()) {
            return Err(io::Error::other("its file was replaced"));
        }
        take(&path)
    });
    match made {
        Ok(tree) => OwnProgram::ReadOnly(tree),
        Err(error) => {
            eprintln!("sandbox: a read-only mount of this program: {error}");
            OwnProgram::AsItIs
        }
    }
}

fn take(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, flags)?;
    set_read_only_below(tree.as_fd())?;
    Ok(tree)
}
