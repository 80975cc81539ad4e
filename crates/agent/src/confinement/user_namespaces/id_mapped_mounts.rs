//! Support of ID-mapped mounts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen, open_tree,
};

use crate::sandbox::mount_attributes::set_id_map;
use crate::volumes::file_owners::VolumeOwners;

/// Errors of a kernel or file system without ID-mapped mounts.
const UNSUPPORTED: [Errno; 3] = [Errno::INVAL, Errno::PERM, Errno::NOSYS];

/// Returns the owners that volumes in a directory and in memory can have.
///
/// # Errors
/// Errors of `open_tree(2)`, `fsopen(2)` and `mount_setattr(2)`, except for missing support.
pub(super) fn volume_owners(directory: &Path, namespace: BorrowedFd<'_>) -> io::Result<VolumeOwners> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let on_disk = open_tree(CWD, directory, flags)?;
    if !is_supported(on_disk.as_fd(), namespace)? {
        return Ok(VolumeOwners::Range);
    }
    let memory = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(memory.as_fd())?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let memory = fsmount(memory.as_fd(), flags, MountAttrFlags::empty())?;
    if is_supported(memory.as_fd(), namespace)? {
        Ok(VolumeOwners::IdMapped)
    } else {
        Ok(VolumeOwners::Range)
    }
}

fn is_supported(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<bool> {
    match set_id_map(mount, namespace) {
        Ok(()) => Ok(true),
        Err(error) => match Errno::from_io_error(&error) {
            Some(errno) if UNSUPPORTED.contains(&errno) => Ok(false),
            _ => Err(error),
        },
    }
}
