//! The control group whose processes are clients: by default the root, with all processes of the host.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Magic number of the file system (`CGROUP2_SUPER_MAGIC`).
const MAGIC: i64 = 0x6367_7270;
/// Inode number of the root of the hierarchy. Inside a container, another directory may look like the root.
const ROOT_INODE: u64 = 1;

/// Reasons why no control group is usable.
#[derive(Debug, thiserror::Error)]
pub enum ControlGroupError {
    /// No hierarchy is mounted. A retry helps after a mount.
    #[error("no cgroup2 file system is mounted; mount one, or name its directory with --ebpf-cgroup")]
    NotMounted,
    /// The mounted directory is that of a container. A retry does not help.
    #[error(
        "{path} is the control group of a container, not of the host; mount the host's /sys/fs/cgroup, and name its directory \
         with --ebpf-cgroup"
    )]
    NotRoot {
        /// Mount point.
        path: PathBuf,
    },
    /// The named directory is not a control group.
    #[error("{path} is not in a cgroup2 file system; name a directory in one with --ebpf-cgroup")]
    NotControlGroup {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The named directory cannot be opened.
    #[error("cannot open the control group {path}: {source}; name a directory of cgroup2 with --ebpf-cgroup")]
    Open {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// A file of the kernel cannot be read.
    #[error("cannot read the control groups of this host: {source}")]
    Read {
        /// Error of the system call.
        source: io::Error,
    },
}

/// Opens the control group with this path, or the root of the hierarchy. Returns its directory and path.
pub(super) fn open_control_group(named: Option<&Path>) -> Result<(File, PathBuf), ControlGroupError> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => mount_point()?,
    };
    let directory = File::open(&path).map_err(|source| ControlGroupError::Open {
        path: path.clone(),
        source,
    })?;
    let read_error = |source: io::Error| ControlGroupError::Read { source };
    let file_system = rustix::fs::fstatfs(&directory).map_err(|error| read_error(error.into()))?;
    if file_system.f_type != MAGIC {
        return Err(ControlGroupError::NotControlGroup { path });
    }
    let inode = directory.metadata().map_err(read_error)?.ino();
    if named.is_none() && inode != ROOT_INODE {
        return Err(ControlGroupError::NotRoot { path });
    }
    Ok((directory, path))
}

fn mount_point() -> Result<PathBuf, ControlGroupError> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|source| ControlGroupError::Read { source })?;
    mounts
        .lines()
        .find_map(control_group_mount)
        .ok_or(ControlGroupError::NotMounted)
}

/// Returns the mount point of a line of `mountinfo` with cgroup2 (proc_pid_mountinfo(5)).
fn control_group_mount(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let is_control_group = after.split(' ').next() == Some("cgroup2");
    let point = before.split(' ').nth(4)?;
    is_control_group.then(|| PathBuf::from(point))
}

#[cfg(test)]
mod tests;
