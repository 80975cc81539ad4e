//! Root of a container from an image. The overlay of its layers, with file systems of the kernel, replaces the files of
//! the node.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};
use rustix::thread::UnshareFlags;

use super::devices::Devices;
use super::overlay::Layers;
use super::root_paths::Root;
use super::{attach_at, detach_from_node, masked_paths};
use crate::sandbox::context::with_context;
use crate::sandbox::mount_attributes::set_read_only_below;
use crate::sandbox::pod_directory::OpenPodDirectory;
use crate::sandbox::protocol::{Confinement, ImageRoot};
use crate::sandbox::user_namespace::UserNamespace;

/// Mount point of memory for the parts of the root: every host has this directory, and its devices are detached before.
const STAGING: &str = "/dev";

/// File systems of the kernel as detached mounts.
struct KernelFileSystems {
    /// `/proc` of the sandbox; `None` for a container with its own PID namespace.
    processes: Option<OwnedFd>,
    system: OwnedFd,
    /// `/dev` of the node, for a privileged container.
    node_devices: Option<OwnedFd>,
}

impl KernelFileSystems {
    fn detach(confinement: &Confinement) -> io::Result<Self> {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let detach = |path: &str| {
            open_tree(CWD, path, flags)
                .map_err(|errno| with_context(&format!("detaching {path}"), &errno.into()))
        };
        let system = detach("/sys")?;
        if !confinement.is_privileged {
            set_read_only_below(system.as_fd())?;
        }
        Ok(Self {
            processes: (!confinement.has_own_processes)
                .then(|| detach("/proc"))
                .transpose()?,
            system,
            node_devices: confinement.is_privileged.then(|| detach("/dev")).transpose()?,
        })
    }

    /// Attaches `/proc` and `/sys` in a new root at a path. A kernel allows a new `/proc` only while another one is
    /// visible.
    fn attach(&self, root: &Path) -> io::Result<()> {
        let processes = root.join("proc");
        match &self.processes {
            Some(tree) => attach_at(tree, &processes)?,
            None => {
                let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                mount("proc", &processes, "proc", flags, None)
                    .map_err(|errno| with_context("mounting /proc", &errno.into()))?;
            }
        }
        attach_at(&self.system, &root.join("sys"))
    }
}

/// Gives this process a mount namespace whose root is the image. Returns the root directory.
///
/// # Errors
/// Errors of the kernel, and for an image whose `/proc`, `/sys` or `/dev` is not a directory.
pub(super) fn enter(
    image: &ImageRoot,
    confinement: &Confinement,
    directory: &OpenPodDirectory,
    users: Option<&UserNamespace>,
    devices: Option<Devices>,
) -> io::Result<OwnedFd> {
    let owner = users.map(UserNamespace::range);
    let layers = Layers::detach(image, directory, users)?;
    let kernel = KernelFileSystems::detach(confinement)?;
    // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    detach_from_node()?;
    let staging = Path::new(STAGING);
    mount(
        "portolan",
        staging,
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=0700,size=64k"),
    )?;
    // Without devices, a container cannot open device nodes that it creates.
    let flags = if confinement.is_privileged {
        MountFlags::empty()
    } else {
        MountFlags::NODEV
    };
    let path = layers.mount(staging, flags)?;
    let opened = rustix::fs::open(
        &path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let opened = opened?;
    let root = Root {
        directory: &opened,
        owner,
    };
    for name in ["proc", "sys", "dev"] {
        root.ensure_plain_directory(name)?;
    }
    kernel.attach(&path)?;
    change_root(&opened).map_err(|error| with_context("changing the root", &error))?;
    match (devices, &kernel.node_devices) {
        (Some(devices), _) => devices.mount(owner),
        (None, Some(tree)) => attach_at(tree, Path::new("/dev")),
        (None, None) => Ok(()),
    }
    .map_err(|error| with_context("mounting /dev", &error))?;
    if !confinement.has_unmasked_proc {
        masked_paths::apply().map_err(|error| with_context("masking /proc", &error))?;
    }
    Ok(opened)
}

/// Makes a mount the root of this process and of its mount namespace. The old root is detached.
fn change_root(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}
