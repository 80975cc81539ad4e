//! Mounts of a container. A container from an image has the image as its root, with the volumes.
//!
//! A container of the image table has the node's files, read-only and without devices, memory for temporary files, and
//! the volumes. A privileged one has the files of the node as they are.

mod control_groups;
mod devices;
mod image_root;
mod masked_paths;
mod mount_points;
mod overlay;
mod root_paths;
mod tmpfs;

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

use super::context::with_context;
use super::pod_directory::OpenPodDirectory;
use super::protocol::{Confinement, ImageRoot, Mount};
use super::user_namespace::UserNamespace;
use crate::sandbox::mount_attributes::{
    set_attributes, set_id_map, set_read_only, set_read_only_below, set_writable,
};
use crate::volumes::directory::Directory;
use control_groups::ControlGroups;
use devices::Devices;
pub(super) use masked_paths::cover;
use root_paths::{Kind, Root};

/// Mode of directories that are created as mount points.
const MOUNT_POINT_MODE: u32 = 0o755;

/// Volume as a detached mount.
struct Volume<'a> {
    mount: &'a Mount,
    /// The volume on the host, without ID mapping: root of the host creates mount points in it.
    original: OwnedFd,
    tree: OwnedFd,
    is_directory: bool,
}

/// Gives this process a mount namespace with the mounts of the container.
///
/// # Errors
/// Errors of the kernel, with the path.
pub(super) fn build(
    confinement: &Confinement,
    directory: &OpenPodDirectory,
    users: Option<&UserNamespace>,
) -> io::Result<()> {
    // Opened first: the new mounts hide the Pod's directory.
    let mut volumes = Vec::new();
    for mount in &confinement.mounts {
        volumes.push(open(mount, directory, users)?);
    }
    let devices = if confinement.is_privileged {
        None
    } else {
        Some(Devices::detach(confinement.has_node_memory)?)
    };
    let control_groups = ControlGroups::detach(confinement)?;
    // Outer volumes first.
    volumes.sort_by_key(|volume| volume.mount.target.components().count());
    match &confinement.root {
        Some(image) => {
            let root = image_root::enter(image, confinement, directory, users, devices)?;
            attach_control_groups(control_groups.as_ref())?;
            let owner = users.map(UserNamespace::range);
            attach_to_image(
                image,
                confinement,
                &volumes,
                &Root {
                    directory: &root,
                    owner,
                },
            )
        }
        None => build_on_node(confinement, &volumes, users, devices, control_groups.as_ref()),
    }
}

/// Attaches the control groups of the container, unless it sees those of the node.
fn attach_control_groups(control_groups: Option<&ControlGroups>) -> io::Result<()> {
    control_groups
        .map_or(Ok(()), ControlGroups::attach)
        .map_err(|error| with_context("mounting /sys/fs/cgroup", &error))
}

/// Attaches the volumes in the root of an image, and makes the root read-only if the container requires it.
fn attach_to_image(
    image: &ImageRoot,
    confinement: &Confinement,
    volumes: &[Volume<'_>],
    root: &Root<'_>,
) -> io::Result<()> {
    attach_all(confinement, volumes, Some(root))?;
    for path in &image.directories {
        root.ensure(path, Kind::Directory)
            .map_err(|error| with_context(&format!("directory {}", path.display()), &error))?;
    }
    if confinement.has_read_only_root {
        set_attributes(root.directory.as_fd(), libc::MOUNT_ATTR_RDONLY, 0, 0)
            .map_err(|error| with_context("remounting the root read-only", &error))?;
    }
    Ok(())
}

/// Keeps later mounts of this process from the node.
fn detach_from_node() -> io::Result<()> {
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(mount_change("/", propagation)?)
}

/// Gives this process a mount namespace with the files of the node and the volumes.
fn build_on_node(
    confinement: &Confinement,
    volumes: &[Volume<'_>],
    users: Option<&UserNamespace>,
    devices: Option<Devices>,
    control_groups: Option<&ControlGroups>,
) -> io::Result<()> {
    let owner = users.map(UserNamespace::range);
    // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    detach_from_node()?;
    let temporary = if confinement.is_privileged {
        Vec::new()
    } else {
        tmpfs::mount_all(owner)?
    };
    let mut covered: BTreeSet<PathBuf> = temporary.iter().cloned().collect();
    for volume in volumes {
        // An unprivileged container gets its own /dev.
        let is_device = devices.is_some() && volume.mount.target.starts_with("/dev");
        if outer_mount(volumes, volume).is_none() && !is_device {
            mount_points::ensure(volume, &mut covered)?;
        }
    }
    if let Some(devices) = devices {
        protect_node(confinement, &temporary)
            .map_err(|error| with_context("protecting the node's files", &error))?;
        devices
            .mount(owner)
            .map_err(|error| with_context("mounting /dev", &error))?;
        if !confinement.has_unmasked_proc {
            masked_paths::apply().map_err(|error| with_context("masking /proc", &error))?;
        }
    } else if confinement.has_read_only_root {
        set_read_only(Path::new("/"))
            .map_err(|error| with_context("remounting the root read-only", &error))?;
    }
    attach_control_groups(control_groups)?;
    attach_all(confinement, volumes, None)
}

/// Makes all mounts of the node read-only and without devices. Memory stays writable, unless the container has a
/// read-only root.
fn protect_node(confinement: &Confinement, temporary: &[PathBuf]) -> io::Result<()> {
    let root = fs::File::open("/")?;
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV;
    set_attributes(root.as_fd(), set, 0, libc::AT_RECURSIVE)?;
    set_writable(fs::File::open("/proc")?.as_fd())?;
    if !confinement.has_read_only_root {
        for path in temporary {
            set_writable(fs::File::open(path)?.as_fd())?;
        }
    }
    Ok(())
}

/// Attaches the volumes, in the root of an image if there is one.
fn attach_all(confinement: &Confinement, volumes: &[Volume<'_>], root: Option<&Root<'_>>) -> io::Result<()> {
    for volume in volumes {
        if !confinement.is_privileged {
            set_attributes(volume.tree.as_fd(), libc::MOUNT_ATTR_NODEV, 0, libc::AT_RECURSIVE)?;
        }
        attach(volume, outer_mount(volumes, volume), root)
            .map_err(|error| with_context(&format!("mounting {}", volume.mount.target.display()), &error))?;
    }
    // Read-only only now, because nested volumes needed mount points in them.
    for volume in volumes {
        let is_within = outer_mount(volumes, volume).is_some();
        let change = match volume.mount.is_read_only {
            true => set_read_only_below(volume.tree.as_fd()),
            false if is_within => set_writable(volume.tree.as_fd()),
            false => Ok(()),
        };
        change.map_err(|error| {
            with_context(
                &format!("attributes of {}", volume.mount.target.display()),
                &error,
            )
        })?;
    }
    Ok(())
}

/// Returns the innermost other volume that contains the mount path of a volume.
fn outer_mount<'a>(volumes: &'a [Volume<'a>], volume: &Volume<'_>) -> Option<&'a Volume<'a>> {
    let target = &volume.mount.target;
    let outer = volumes.iter().filter(|other| {
        let path = &other.mount.target;
        path != target && target.starts_with(path)
    });
    outer.max_by_key(|other| other.mount.target.components().count())
}

/// Opens a volume as a detached mount. A sub-path cannot lead out of the volume, regardless of symbolic links in it.
///
/// # Errors
/// Errors of `openat2(2)`, `open_tree(2)` and `mount_setattr(2)`.
fn open<'a>(
    mount: &'a Mount,
    directory: &OpenPodDirectory,
    users: Option<&UserNamespace>,
) -> io::Result<Volume<'a>> {
    let failed = |error: io::Error| with_context(&format!("volume at {}", mount.source.display()), &error);
    let mut original = directory.open_source(&mount.source);
    if !mount.sub_path.as_os_str().is_empty() {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        original = original.and_then(|outer| {
            openat2(
                outer,
                &mount.sub_path,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT,
            )
        });
    }
    let original = original.map_err(|errno| failed(errno.into()))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(original.as_fd(), "", flags).map_err(|errno| failed(errno.into()))?;
    if mount.is_id_mapped {
        let users = users.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        set_id_map(tree.as_fd(), users.as_fd()).map_err(|error| failed(unsupported_id_map(&error)))?;
    }
    let is_directory = FileType::from_raw_mode(fstat(&original)?.st_mode).is_dir();
    Ok(Volume {
        mount,
        original,
        tree,
        is_directory,
    })
}

/// Returns the error for missing support of ID-mapped mounts. Without them, the owners of files would be wrong.
fn unsupported_id_map(error: &io::Error) -> io::Error {
    let message = format!(
        "hostUsers: false needs ID-mapped mounts, which this file system or one mounted below it does not support: {error}"
    );
    io::Error::new(error.kind(), message)
}

/// Attaches a volume at its mount path. Within another volume, symbolic links are not followed: the container may have
/// created them, and root of the node creates the mount point.
fn attach(volume: &Volume<'_>, outer: Option<&Volume<'_>>, root: Option<&Root<'_>>) -> io::Result<()> {
    let target = &volume.mount.target;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    let Some(outer) = outer else {
        if let Some(root) = root {
            let kind = if volume.is_directory {
                Kind::Directory
            } else {
                Kind::File
            };
            let mount_point = root.ensure(target, kind)?;
            return Ok(move_mount(&volume.tree, "", &mount_point, "", flags)?);
        }
        let mount_point = match mount_points::open(target)? {
            Some(mount_point) => mount_point,
            None => mount_points::create(volume)?,
        };
        return Ok(move_mount(&volume.tree, "", &mount_point, "", flags)?);
    };
    let below = target
        .strip_prefix(&outer.mount.target)
        .map_err(io::Error::other)?;
    let mount_point = mount_point_within(outer, below, volume.is_directory)?;
    Ok(move_mount(&volume.tree, "", &mount_point, "", flags)?)
}

/// Opens the mount point within a volume, and creates it if it is missing.
fn mount_point_within(outer: &Volume<'_>, below: &Path, is_directory: bool) -> io::Result<OwnedFd> {
    let open = || {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&outer.tree, below, flags, Mode::empty(), resolve)
    };
    match open() {
        Err(Errno::NOENT) => {}
        opened => return opened.map_err(io::Error::from),
    }
    create_below(&Directory::reopen(&outer.original)?, below, is_directory)?;
    Ok(open()?)
}

/// Creates a mount point below a directory, without following symbolic links.
fn create_below(root: &Directory, below: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return root.ensure_directory(below, MOUNT_POINT_MODE).map(drop);
    }
    let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = below.parent().unwrap_or(Path::new(""));
    root.ensure_directory(parent, MOUNT_POINT_MODE)?
        .ensure_file(Path::new(name))
}

/// Attaches a detached mount.
fn attach_at(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    Ok(move_mount(
        tree,
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?)
}
