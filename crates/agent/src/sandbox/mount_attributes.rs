//! Attributes of mounts (`mount_setattr(2)`).

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// Makes the mounts at a path and below it read-only.
///
/// # Errors
/// Errors of `open(2)` and `mount_setattr(2)`.
pub(crate) fn set_read_only(path: &Path) -> io::Result<()> {
    set_read_only_below(fs::File::open(path)?.as_fd())
}

/// Makes a mount and all mounts below it read-only.
///
/// # Errors
/// Errors of `mount_setattr(2)`.
pub(crate) fn set_read_only_below(mount: BorrowedFd<'_>) -> io::Result<()> {
    set_attributes(mount, libc::MOUNT_ATTR_RDONLY, 0, libc::AT_RECURSIVE)
}

/// Makes one mount writable.
///
/// # Errors
/// Errors of `mount_setattr(2)`.
pub(crate) fn set_writable(mount: BorrowedFd<'_>) -> io::Result<()> {
    set_attributes(mount, 0, libc::MOUNT_ATTR_RDONLY, 0)
}

/// Changes the attributes of the mount whose root is `mount` (`mount_setattr(2)`).
///
/// # Errors
/// Errors of `mount_setattr(2)`.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, set: u64, clear: u64, flags: i32) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: clear,
        propagation: 0,
        userns_fd: 0,
    };
    change_attributes(mount, &attributes, flags)
}

/// Makes a mount and all mounts below it ID-mapped by a user namespace. The mount must be detached.
///
/// # Errors
/// `EINVAL` or `EPERM` if a file system does not support ID-mapped mounts.
pub(crate) fn set_id_map(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = u64::try_from(namespace.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: descriptor,
    };
    change_attributes(mount, &attributes, libc::AT_RECURSIVE)
}

fn change_attributes(mount: BorrowedFd<'_>, attributes: &libc::mount_attr, flags: i32) -> io::Result<()> {
    // SAFETY: the path and the structure, with its size, live through the call; the kernel writes to neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
