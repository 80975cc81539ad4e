//! `/sys/fs/cgroup` of a container. It shows the groups of the container only, each as the root of its hierarchy. The
//! sandbox keeps the control groups of the node, by which containers join their groups.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};

use super::{attach_at, cover};
use crate::sandbox::context::with_context;
use crate::sandbox::mount_attributes::set_attributes;
use crate::sandbox::protocol::Confinement;

#[cfg(test)]
mod tests;

/// Mount point of the control groups.
const MOUNT_POINT: &str = "/sys/fs/cgroup";
/// File of every group of version 2.
const VERSION_2: &str = "cgroup.controllers";
/// Controllers of version 1, with a file of their groups.
const CONTROLLERS: [(&str, &str); 4] = [
    ("cpu", "cpu.shares"),
    ("cpuacct", "cpuacct.usage"),
    ("memory", "memory.limit_in_bytes"),
    ("pids", "pids.max"),
];

/// Control groups of a container, as detached mounts.
pub(super) struct ControlGroups(Vec<Group>);

/// Hierarchy of control groups, and the tree of its mount.
struct Group {
    hierarchy: Hierarchy,
    tree: OwnedFd,
}

/// Hierarchy of a group.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1, with controllers.
    Controllers(Vec<&'static str>),
}

impl Hierarchy {
    fn of(group: &Path) -> Self {
        if group.join(VERSION_2).exists() {
            return Self::Unified;
        }
        let present = CONTROLLERS.iter().filter(|(_, file)| group.join(file).exists());
        Self::Controllers(present.map(|(controller, _)| *controller).collect())
    }
}

impl ControlGroups {
    /// Detaches the groups of a container. Returns `None` for a container that sees the groups of the node.
    ///
    /// # Errors
    /// Errors of `open_tree(2)` and `mount_setattr(2)`.
    pub(super) fn detach(confinement: &Confinement) -> io::Result<Option<Self>> {
        if !confinement.has_own_control_groups() {
            return Ok(None);
        }
        let mut set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
        if !confinement.is_privileged {
            set |= libc::MOUNT_ATTR_RDONLY;
        }
        let detach = |path: &Path| -> io::Result<Group> {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let tree = open_tree(CWD, path, flags)?;
            set_attributes(tree.as_fd(), set, 0, 0)?;
            let hierarchy = Hierarchy::of(path);
            Ok(Group { hierarchy, tree })
        };
        let groups = confinement.cgroups.iter().map(|path| {
            detach(path)
                .map_err(|error| with_context(&format!("detaching control group {}", path.display()), &error))
        });
        Ok(Some(Self(groups.collect::<io::Result<_>>()?)))
    }

    /// Attaches the groups in place of those of the node. A container without groups sees none.
    ///
    /// # Errors
    /// Errors of `mount(2)` and `umount(2)`.
    pub(super) fn attach(&self) -> io::Result<()> {
        let mount_point = Path::new(MOUNT_POINT);
        if !mount_point.is_dir() {
            return Ok(());
        }
        match unmount(mount_point, UnmountFlags::DETACH) {
            // Nothing is mounted there, or the mount is locked and stays below the next one.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        let unified = self.0.iter().find(|group| group.hierarchy == Hierarchy::Unified);
        match unified {
            Some(group) => attach_at(&group.tree, mount_point),
            None if self.0.is_empty() => cover(mount_point),
            None => self.attach_hierarchies(mount_point),
        }
    }

    /// Attaches the groups of version 1 below directories with the names of their controllers.
    fn attach_hierarchies(&self, mount_point: &Path) -> io::Result<()> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount(
            "portolan",
            mount_point,
            "tmpfs",
            flags,
            Some(c"mode=0755,size=64k"),
        )?;
        for Group { hierarchy, tree } in &self.0 {
            let Hierarchy::Controllers(controllers) = hierarchy else {
                continue;
            };
            if controllers.is_empty() {
                continue;
            }
            let name = controllers.join(",");
            let directory = mount_point.join(&name);
            fs::create_dir(&directory)?;
            attach_at(tree, &directory)?;
            if controllers.len() > 1 {
                for controller in controllers {
                    symlink(&name, mount_point.join(controller))?;
                }
            }
        }
        let root = fs::File::open(mount_point)?;
        set_attributes(root.as_fd(), libc::MOUNT_ATTR_RDONLY, 0, 0)
    }
}
