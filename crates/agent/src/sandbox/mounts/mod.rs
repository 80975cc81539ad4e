//! The files that a container sees: the node's own, read-only and without its devices, memory where programs keep
//! what is for a while, and the container's volumes. A privileged container has the node's files as they are.

mod devices;
mod masks;
mod places;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};
use rustix::thread::UnshareFlags;

use super::launch::in_words;
use super::pod_files::PodFiles;
use super::protocol::{Confinement, Mount};
use super::users::UserNamespace;
use crate::mount_attributes::{set_attributes, set_id_map, set_read_only, set_read_only_below, set_writable};
use crate::volumes::directory::Directory;
use devices::Devices;
pub(super) use masks::cover;

/// Permissions of directories that are made as mount points.
const PLACE_MODE: u32 = 0o755;

/// A volume, taken out of its place to be put into the container.
struct Source<'a> {
    mount: &'a Mount,
    /// Volume on the host, without ID mapping: root of the host creates mount points there.
    place: OwnedFd,
    tree: OwnedFd,
    is_directory: bool,
}

/// Gives this process mounts of its own.
pub(super) fn build(
    confinement: &Confinement,
    files: &PodFiles,
    users: Option<&UserNamespace>,
) -> io::Result<()> {
    let owner = users.map(UserNamespace::range);
    // Before this process leaves the mounts in which the Pod's directory is reached.
    let mut sources = Vec::new();
    for mount in &confinement.mounts {
        sources.push(open(mount, files, users)?);
    }
    let devices = match confinement.is_privileged {
        true => None,
        false => Some(Devices::take()?),
    };
    // SAFETY: no file descriptor table is unshared, which is what the call is unsafe for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation)?;
    let scratch = match confinement.is_privileged {
        true => Vec::new(),
        false => scratch::mount_all(owner)?,
    };
    // Outer ones first.
    sources.sort_by_key(|source| source.mount.target.components().count());
    let mut covered: BTreeSet<PathBuf> = scratch.iter().cloned().collect();
    for source in &sources {
        // A container that is not privileged gets another /dev.
        let is_device = devices.is_some() && source.mount.target.starts_with("/dev");
        if outer_mount(&sources, source).is_none() && !is_device {
            places::make_place(source, &mut covered)?;
        }
    }
    if let Some(devices) = devices {
        protect_node(confinement, &scratch)
            .map_err(|error| in_words("protecting the node's files", &error))?;
        devices
            .mount(owner)
            .map_err(|error| in_words("making /dev", &error))?;
        if !confinement.has_unmasked_proc {
            masks::put_on().map_err(|error| in_words("masking /proc", &error))?;
        }
    } else if confinement.has_read_only_root {
        set_read_only(Path::new("/")).map_err(|error| in_words("making the root read-only", &error))?;
    }
    attach_all(confinement, &sources)
}

/// Nothing of the node can be written to, and no device of it be opened, by whatever name. What is in memory can be
/// written to, unless the container asks for less.
fn protect_node(confinement: &Confinement, scratch: &[PathBuf]) -> io::Result<()> {
    let root = fs::File::open("/")?;
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV;
    set_attributes(root.as_fd(), set, 0, libc::AT_RECURSIVE)?;
    set_writable(fs::File::open("/proc")?.as_fd())?;
    if !confinement.has_read_only_root {
        for place in scratch {
            set_writable(fs::File::open(place)?.as_fd())?;
        }
    }
    Ok(())
}

fn attach_all(confinement: &Confinement, sources: &[Source<'_>]) -> io::Result<()> {
    for source in sources {
        if !confinement.is_privileged {
            set_attributes(source.tree.as_fd(), libc::MOUNT_ATTR_NODEV, 0, libc::AT_RECURSIVE)?;
        }
        attach(source, outer_mount(sources, source))
            .map_err(|error| in_words(&format!("mounting {}", source.mount.target.display()), &error))?;
    }
    // Only now, as volumes within others needed places in them.
    for source in sources {
        let is_within = outer_mount(sources, source).is_some();
        let change = match source.mount.is_read_only {
            true => set_read_only_below(source.tree.as_fd()),
            false if is_within => set_writable(source.tree.as_fd()),
            false => Ok(()),
        };
        change.map_err(|error| in_words(&format!("rights of {}", source.mount.target.display()), &error))?;
    }
    Ok(())
}

/// The innermost other volume that the place of a volume lies in.
fn outer_mount<'a>(sources: &'a [Source<'a>], source: &Source<'_>) -> Option<&'a Source<'a>> {
    let target = &source.mount.target;
    let outer = sources.iter().filter(|other| {
        let place = &other.mount.target;
        place != target && target.starts_with(place)
    });
    outer.max_by_key(|other| other.mount.target.components().count())
}

/// Takes what is to be mounted. A path in a volume cannot lead out of it, whatever links somebody has put there.
fn open<'a>(mount: &'a Mount, files: &PodFiles, users: Option<&UserNamespace>) -> io::Result<Source<'a>> {
    let place = files.reach(&mount.source);
    let failed = |error: io::Error| in_words(&format!("volume at {}", mount.source.display()), &error);
    let what = if mount.sub_path.as_os_str().is_empty() {
        rustix::fs::open(&place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    } else {
        let outer = rustix::fs::open(&place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
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
    if mount.is_id_mapped {
        let users = users.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        set_id_map(tree.as_fd(), users.as_fd()).map_err(|error| failed(not_mapped(&error)))?;
    }
    let is_directory = FileType::from_raw_mode(fstat(&what)?.st_mode).is_dir();
    Ok(Source {
        mount,
        place: what,
        tree,
        is_directory,
    })
}

/// Describes missing support of ID-mapped mounts. Without them, owners of files would be wrong.
fn not_mapped(error: &io::Error) -> io::Error {
    let message = format!(
        "hostUsers: false needs ID-mapped mounts, which this file system or one mounted below it does not support: {error}"
    );
    io::Error::new(error.kind(), message)
}

/// Puts a volume at its place. In another volume that place is reached by plain names only: the container may have put
/// links there, and the directories are made by root of the node.
fn attach(source: &Source<'_>, outer: Option<&Source<'_>>) -> io::Result<()> {
    let target = &source.mount.target;
    let Some(outer) = outer else {
        if !target.exists() {
            places::create(source)?;
        }
        return put(&source.tree, target);
    };
    let below = target
        .strip_prefix(&outer.mount.target)
        .map_err(io::Error::other)?;
    let place = place_within(outer, below, source.is_directory)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&source.tree, "", &place, "", flags)?)
}

/// A directory or file in a volume, made if it is not there.
fn place_within(outer: &Source<'_>, below: &Path, is_directory: bool) -> io::Result<OwnedFd> {
    let open = || {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&outer.tree, below, flags, Mode::empty(), resolve)
    };
    match open() {
        Err(Errno::NOENT) => {}
        there => return there.map_err(io::Error::from),
    }
    let root = Directory::reopen(&outer.place)?;
    if is_directory {
        root.ensure_directory(below, PLACE_MODE)?;
    } else {
        let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = below.parent().unwrap_or(Path::new(""));
        root.ensure_directory(parent, PLACE_MODE)?
            .ensure_file(Path::new(name))?;
    }
    Ok(open()?)
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
