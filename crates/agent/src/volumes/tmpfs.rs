//! Volumes in memory: a `tmpfs` on the node for the lifetime of the Pod. Its content counts as memory of the container
//! that writes it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use crate::object::quantity::Quantity;

/// Mounts a `tmpfs` at a directory, unless one is mounted there. Returns true if it did. Without a size limit, the
/// kernel's default of half of the memory applies.
///
/// # Errors
/// Errors of `mount(2)`.
pub fn mount(path: &Path, size_limit: Option<Quantity>) -> io::Result<bool> {
    if is_mount_point(path)? {
        return Ok(false);
    }
    let size = size_limit.map(|limit| CString::new(format!("size={}", limit.units())));
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("portolan", path, "tmpfs", flags, size.transpose()?.as_deref())?;
    Ok(true)
}

/// Unmounts everything directly below a directory. Failures are logged: they keep the directory from being removed.
pub fn unmount_all(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if !is_mount_point(&path).unwrap_or(false) {
            continue;
        }
        if let Err(error) = rustix::mount::unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            tracing::warn!(path = %path.display(), %error, "volume in memory not unmounted");
        }
    }
}

/// Returns true if another file system is mounted at a directory.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(path)?;
    let parent = fs::symlink_metadata(path.parent().unwrap_or(Path::new("/")))?;
    Ok(metadata.is_dir() && metadata.dev() != parent.dev())
}
