//! Mount points that the node does not have.
//!
//! They are not made on the node: the directory that lacks one is covered, for this container, by one in memory that has
//! all the same entries and the mount point besides.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};

use super::Source;
use crate::sandbox::launch::in_words;

/// Entries of a directory that is covered: each is a mount of its own.
const COVERED_ENTRIES_MAX: usize = 512;
/// Where a new root is put together: any directory that every machine has.
const STAGING: &str = "/proc";

/// Sees to it that there is something to mount on.
pub(super) fn make_place(source: &Source<'_>, covered: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let target = &source.mount.target;
    if target.exists() {
        return Ok(());
    }
    let there = target.ancestors().find(|ancestor| ancestor.exists());
    let there = fs::canonicalize(there.unwrap_or(Path::new("/")))?;
    if covered.iter().all(|directory| !there.starts_with(directory)) || !is_own(&there, covered) {
        cover(&there)
            .map_err(|error| in_words(&format!("covering {} for a mount point", there.display()), &error))?;
        covered.insert(there);
    }
    create(source)
}

/// Whether a directory is one in memory, and no mount that was put into one.
fn is_own(directory: &Path, covered: &BTreeSet<PathBuf>) -> bool {
    covered.contains(directory)
}

pub(super) fn create(source: &Source<'_>) -> io::Result<()> {
    let target = &source.mount.target;
    if source.is_directory {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::File::create(target).map(drop)
}

/// An entry of a directory that is covered.
enum Entry {
    Link(PathBuf),
    Tree { tree: OwnedFd, is_directory: bool },
}

fn cover(directory: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    let entries = entries(directory)?;
    let is_root = directory == Path::new("/");
    let place = if is_root { Path::new(STAGING) } else { directory };
    mount("portolan", place, "tmpfs", MountFlags::empty(), None)?;
    fill(place, &metadata, entries)?;
    if is_root {
        // The old root goes, and what is mounted at the staging directory is the new one.
        std::env::set_current_dir(STAGING)?;
        rustix::process::pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        std::env::set_current_dir("/")?;
    }
    Ok(())
}

fn entries(directory: &Path) -> io::Result<Vec<(std::ffi::OsString, Entry)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entries.len() >= COVERED_ENTRIES_MAX {
            return Err(io::Error::other(format!(
                "it has more than {COVERED_ENTRIES_MAX} entries; make the mount point on the node"
            )));
        }
        let kind = entry.file_type()?;
        let what = if kind.is_symlink() {
            Entry::Link(fs::read_link(entry.path())?)
        } else {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            Entry::Tree {
                tree: open_tree(CWD, entry.path(), flags)?,
                is_directory: kind.is_dir(),
            }
        };
        entries.push((entry.file_name(), what));
    }
    Ok(entries)
}

fn fill(place: &Path, like: &Metadata, entries: Vec<(std::ffi::OsString, Entry)>) -> io::Result<()> {
    for (name, entry) in entries {
        let target = place.join(name);
        match entry {
            Entry::Link(to) => symlink(to, &target)?,
            Entry::Tree { tree, is_directory } => {
                if is_directory {
                    fs::create_dir(&target)?;
                } else {
                    fs::File::create(&target)?;
                }
                super::put(&tree, &target)?;
            }
        }
    }
    fs::set_permissions(place, fs::Permissions::from_mode(like.mode() & 0o7777))?;
    // Not everybody is mapped in the user namespace of an ordinary user.
    match chown(place, Some(like.uid()), Some(like.gid())) {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}
