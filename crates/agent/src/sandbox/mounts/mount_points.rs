//! Mount points that the node does not have.
//!
//! The files of the node do not change. If a directory lacks a mount point, a directory in memory covers it in this
//! container. The directory in memory has the same entries, and the mount point.
//!
//! The Pod chooses mount paths, and root of the node creates the mount points. Links of `/proc` to the files of a
//! process are therefore not followed: `/proc/1` is the sandbox, which has the files of the node.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};

use super::{Volume, create_below};
use crate::sandbox::context::with_context;
use crate::volumes::directory::Directory;

#[cfg(test)]
mod tests;

/// Maximum number of entries of a covered directory. Each is a mount of its own.
const COVERED_ENTRIES_MAX: usize = 512;
/// Mount point of a new root during its creation: a directory that every host has.
const STAGING: &str = "/proc";

/// Ensures that the mount path of a volume exists.
///
/// # Errors
/// Errors of the kernel, and for a directory with too many entries.
pub(super) fn ensure(volume: &Volume<'_>, covered: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let target = &volume.mount.target;
    if open(target)?.is_some() {
        return Ok(());
    }
    let (existing, _) = existing_part(target)?;
    let existing = fs::canonicalize(existing)?;
    if covered.iter().all(|directory| !existing.starts_with(directory)) || !is_cover(&existing, covered) {
        cover(&existing).map_err(|error| {
            with_context(
                &format!("covering {} for a mount point", existing.display()),
                &error,
            )
        })?;
        covered.insert(existing);
    }
    create(volume).map(drop)
}

/// Returns true if a directory is itself a masking mount, and not a mount in one.
fn is_cover(directory: &Path, covered: &BTreeSet<PathBuf>) -> bool {
    covered.contains(directory)
}

/// Opens a mount point; `None` if it is missing.
///
/// # Errors
/// `ELOOP` for a path through a link of `/proc` to the files of a process, and those of `openat2(2)`.
pub(super) fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(with_context(
            &format!("mount path {}", path.display()),
            &errno.into(),
        )),
    }
}

/// Creates a mount point in a covered directory, and opens it.
///
/// # Errors
/// Errors of [`open`], `mkdirat(2)` and `openat2(2)`.
pub(super) fn create(volume: &Volume<'_>) -> io::Result<OwnedFd> {
    let target = &volume.mount.target;
    let (existing, directory) = existing_part(target)?;
    let missing = target.strip_prefix(existing).map_err(io::Error::other)?;
    create_below(&Directory::reopen(&directory)?, missing, volume.is_directory)?;
    open(target)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens the longest part of a path that exists.
fn existing_part(path: &Path) -> io::Result<(&Path, OwnedFd)> {
    for part in path.ancestors() {
        if let Some(opened) = open(part)? {
            return Ok((part, opened));
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Entry of a covered directory.
enum CoveredEntry {
    Link(PathBuf),
    Tree { tree: OwnedFd, is_directory: bool },
}

fn cover(directory: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    let entries = entries(directory)?;
    let is_root = directory == Path::new("/");
    let mount_point = if is_root { Path::new(STAGING) } else { directory };
    mount("portolan", mount_point, "tmpfs", MountFlags::empty(), None)?;
    restore_entries(mount_point, &metadata, entries)?;
    if is_root {
        // The old root is detached; the staging directory becomes the new one.
        std::env::set_current_dir(STAGING)?;
        rustix::process::pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        std::env::set_current_dir("/")?;
    }
    Ok(())
}

fn entries(directory: &Path) -> io::Result<Vec<(std::ffi::OsString, CoveredEntry)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entries.len() >= COVERED_ENTRIES_MAX {
            return Err(io::Error::other(format!(
                "it has more than {COVERED_ENTRIES_MAX} entries; create the mount point on the node"
            )));
        }
        let kind = entry.file_type()?;
        let copy = if kind.is_symlink() {
            CoveredEntry::Link(fs::read_link(entry.path())?)
        } else {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            CoveredEntry::Tree {
                tree: open_tree(CWD, entry.path(), flags)?,
                is_directory: kind.is_dir(),
            }
        };
        entries.push((entry.file_name(), copy));
    }
    Ok(entries)
}

fn restore_entries(
    directory: &Path,
    metadata: &Metadata,
    entries: Vec<(std::ffi::OsString, CoveredEntry)>,
) -> io::Result<()> {
    for (name, entry) in entries {
        let target = directory.join(name);
        match entry {
            CoveredEntry::Link(to) => symlink(to, &target)?,
            CoveredEntry::Tree { tree, is_directory } => {
                if is_directory {
                    fs::create_dir(&target)?;
                } else {
                    fs::File::create(&target)?;
                }
                super::attach_at(&tree, &target)?;
            }
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    // The user namespace of an unprivileged agent does not map all owners.
    match chown(directory, Some(metadata.uid()), Some(metadata.gid())) {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}
