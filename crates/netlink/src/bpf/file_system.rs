//! The bpf file system, in which pinned objects outlive their process.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::error::BpfError;

/// Usual mount point.
pub const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// Magic number of the file system (`BPF_FS_MAGIC`).
const MAGIC: i64 = 0xcafe_4a11;

/// Returns true if a path is in a bpf file system.
pub fn is_file_system(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == MAGIC)
}

/// Mounts a bpf file system on a directory, for root only.
///
/// # Errors
///
/// The error of mount(2).
pub fn mount_file_system(path: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("bpf", path, "bpf", flags, Some(c"mode=0700"))?;
    Ok(())
}

/// Returns a path for system calls.
pub(super) fn path_text(path: &Path) -> Result<CString, BpfError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| BpfError::System {
        operation: "reading a path of eBPF objects",
        source: error.into(),
    })
}
