//! Directories and files of pinned objects in the bpf file system.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink::bpf::{FILE_SYSTEM, is_file_system, mount_file_system};

use super::layout::VERSION;

/// Returns the directory of the pins of this network namespace.
///
/// # Errors
///
/// The error of the file system, if the namespace is unknown.
pub(super) fn directory(base: &Path) -> io::Result<PathBuf> {
    Ok(own_directory(base)?.join(format!("v{VERSION}")))
}

/// Creates the directory of the pins of this network namespace, and mounts the bpf file system if it is missing.
///
/// # Errors
///
/// The error of the file system.
pub(super) fn create_directory(base: &Path) -> io::Result<PathBuf> {
    let parent = base.parent().unwrap_or(base);
    if !is_file_system(parent) {
        if parent != Path::new(FILE_SYSTEM) {
            return Err(io::Error::other(format!(
                "{} is not a bpf file system",
                parent.display()
            )));
        }
        mount_file_system(parent)?;
    }
    let pins = directory(base)?;
    std::fs::create_dir_all(&pins)?;
    Ok(pins)
}

/// Returns the directory of this network namespace. A host may have several, each with a proxy.
fn own_directory(base: &Path) -> io::Result<PathBuf> {
    let inode = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(base.join(format!("net-{inode}")))
}

/// Removes the pins of versions with other layouts, whose programs would serve beside these. A failure leaves some of them.
pub(super) fn remove_other_versions(pins: &Path) {
    let entries = pins.parent().and_then(|parent| std::fs::read_dir(parent).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        let is_version = entry.file_name().as_encoded_bytes().starts_with(b"v");
        if is_version
            && path != pins
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            tracing::warn!(%error, path = %path.display(), "eBPF objects of another version not removed");
        }
    }
}

/// Removes the pins of this network namespace, which ends the attachments. Returns true if there were some.
///
/// # Errors
///
/// The error of the file system. Some pins may be removed then.
pub fn remove_pins(base: &Path) -> io::Result<bool> {
    match std::fs::remove_dir_all(own_directory(base)?) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a pin, if it exists.
///
/// # Errors
///
/// The error of the file system.
pub(super) fn remove_pin(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
