//! Volumes in memory: a `tmpfs` of the Pod's own on the node, for as long as the Pod is there. What is in it counts as
//! memory of the container that wrote it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use crate::quantity::Quantity;

/// Mounts a file system in memory at a directory, unless one is there; whether it did. Without a limit the kernel's
/// holds, half of the machine's memory.
pub fn mount(place: &Path, size_limit: Option<Quantity>) -> io::Result<bool> {
    if is_mount_point(place)? {
        return Ok(false);
    }
    let size = size_limit.map(|limit| CString::new(format!("size={}", limit.units())));
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("portolan", place, "tmpfs", flags, size.transpose()?.as_deref())?;
    Ok(true)
}

/// Takes all that is mounted right below a directory away. What cannot be is logged: it is what keeps the directory
/// from being removed.
pub fn unmount_all(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if !is_mount_point(&path).unwrap_or(false) {
            continue;
        }
        if let Err(error) = rustix::mount::unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            tracing::warn!(path = %path.display(), %error, "a volume in memory stays mounted");
        }
    }
}

/// Whether another file system begins at a directory.
fn is_mount_point(place: &Path) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(place)?;
    let parent = fs::symlink_metadata(place.parent().unwrap_or(Path::new("/")))?;
    Ok(metadata.is_dir() && metadata.dev() != parent.dev())
}
