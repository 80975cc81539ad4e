//! The files that a container sees: the node's own, with its volumes among them, read-only if it asks for that.
//!
//! A mount point that the node does not have is not made on the node: the directory that lacks it is covered, for
//! this container, by one in memory that has all the same entries and the mount point besides.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::thread::UnshareFlags;

use super::launch::in_words;
use super::protocol::{Confinement, Mount};

/// Entries of a directory that is covered: each is a mount of its own.
const COVERED_ENTRIES_MAX: usize = 512;

/// A volume, taken out of its place to be put into the container.
struct Source<'a> {
    mount: &'a Mount,
    tree: OwnedFd,
    is_directory: bool,
}

/// Gives this process mounts of its own. Nothing is done for a container that asks for nothing.
pub(super) fn build(confinement: &Confinement) -> io::Result<()> {
    if confinement.mounts.is_empty() && !confinement.has_read_only_root {
        return Ok(());
    }
    // SAFETY: no file descriptor table is unshared, which is what the call is unsafe for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )?;
    // Before anything is read-only, or covered.
    let mut sources = Vec::new();
    for mount in &confinement.mounts {
        sources.push(open(mount)?);
    }
    // Outer ones first.
    sources.sort_by_key(|source| source.mount.target.components().count());
    let mut covered = BTreeSet::new();
    let is_outer = |target: &Path| {
        let outer = |other: &&Mount| other.target != *target && target.starts_with(&other.target);
        !confinement.mounts.iter().any(|other| outer(&other))
    };
    for source in sources.iter().filter(|source| is_outer(&source.mount.target)) {
        make_place(source, &confinement.staging, &mut covered)?;
    }
    if confinement.has_read_only_root {
        set_read_only(Path::new("/")).map_err(|error| in_words("making the root read-only", &error))?;
    }
    for source in &sources {
        attach(source)
            .map_err(|error| in_words(&format!("mounting {}", source.mount.target.display()), &error))?;
    }
    Ok(())
}

/// Takes what is to be mounted. A path in a volume cannot lead out of it, whatever links somebody has put there.
fn open(mount: &Mount) -> io::Result<Source<'_>> {
    let failed = |error: io::Error| in_words(&format!("volume at {}", mount.source.display()), &error);
    let what = if mount.sub_path.as_os_str().is_empty() {
        rustix::fs::open(&mount.source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    } else {
        let outer = rustix::fs::open(&mount.source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        outer.and_then(|outer| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            openat2(
                outer,
                &mount.sub_path,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            )
        })
    };
    let what = what.map_err(|errno| failed(errno.into()))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(what.as_fd(), "", flags).map_err(|errno| failed(errno.into()))?;
    let is_directory = fs::File::from(what).metadata()?.is_dir();
    Ok(Source {
        mount,
        tree,
        is_directory,
    })
}

/// Sees to it that there is something to mount on.
fn make_place(source: &Source<'_>, staging: &Path, covered: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let target = &source.mount.target;
    if target.exists() {
        return Ok(());
    }
    let there = target.ancestors().find(|ancestor| ancestor.exists());
    let there = fs::canonicalize(there.unwrap_or(Path::new("/")))?;
    if covered.iter().all(|directory| !there.starts_with(directory)) || !is_own(&there, covered) {
        cover(&there, staging)
            .map_err(|error| in_words(&format!("covering {} for a mount point", there.display()), &error))?;
        covered.insert(there);
    }
    create(source)
}

/// Whether a directory is one in memory, and no mount that was put into one.
fn is_own(directory: &Path, covered: &BTreeSet<PathBuf>) -> bool {
    covered.contains(directory)
}

fn create(source: &Source<'_>) -> io::Result<()> {
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

fn cover(directory: &Path, staging: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    let entries = entries(directory)?;
    let is_root = directory == Path::new("/");
    let place = if is_root { staging } else { directory };
    mount("portolan", place, "tmpfs", MountFlags::empty(), None)?;
    fill(place, &metadata, entries)?;
    if is_root {
        // The old root goes, and what is mounted at the staging directory is the new one.
        std::env::set_current_dir(staging)?;
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
    use std::os::unix::fs::MetadataExt;
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
                put(&tree, &target)?;
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

fn attach(source: &Source<'_>) -> io::Result<()> {
    let target = &source.mount.target;
    if !target.exists() {
        // Within another volume.
        create(source)?;
    }
    put(&source.tree, target)?;
    if source.mount.is_read_only {
        set_read_only(target)?;
    }
    Ok(())
}

fn put(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    Ok(move_mount(
        tree,
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?)
}

/// `mount_setattr(2)` with all that is mounted below.
fn set_read_only(path: &Path) -> io::Result<()> {
    let directory = fs::File::open(path)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path and the structure, with its size, live through the call; the kernel writes to neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
