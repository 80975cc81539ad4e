//! Overlay file system of an image: its layers, and a writable layer in the Pod's directory.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

use super::attach_at;
use crate::sandbox::context::with_context;
use crate::sandbox::mount_attributes::set_id_map;
use crate::sandbox::pod_directory::OpenPodDirectory;
use crate::sandbox::protocol::ImageRoot;
use crate::sandbox::user_namespace::UserNamespace;

/// Maximum number of layers of one image. With 18 bytes for each, the options fit the page that `mount(2)` takes.
const LAYERS_MAX: usize = 127;
/// Mode of the root directory.
const ROOT_MODE: u32 = 0o755;

/// Layers of an image and the directory of the writable layer, as detached mounts.
pub(super) struct Layers<'a> {
    root: &'a ImageRoot,
    store: OwnedFd,
    /// Paths of the layers in the store.
    names: Vec<PathBuf>,
    writable: OwnedFd,
    owner: Option<u32>,
}

impl<'a> Layers<'a> {
    /// Detaches the layers. Files of the layers appear with the IDs of the Pod's user namespace.
    ///
    /// # Errors
    /// `InvalidInput` for layers outside of the store, and those of `open_tree(2)` and `mount_setattr(2)`.
    pub(super) fn detach(
        root: &'a ImageRoot,
        directory: &OpenPodDirectory,
        users: Option<&UserNamespace>,
    ) -> io::Result<Self> {
        let (path, store) = directory.images().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the sandbox of the Pod was started without an image store",
            )
        })?;
        if root.layers.is_empty() || root.layers.len() > LAYERS_MAX {
            let message = format!(
                "the image has {} layers; expected 1 to {LAYERS_MAX}",
                root.layers.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let names = root
            .layers
            .iter()
            .map(|layer| layer.strip_prefix(path).map(Path::to_owned));
        let names = names.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let store = open_tree(store, "", clone | OpenTreeFlags::AT_EMPTY_PATH)?;
        if let Some(users) = users {
            set_id_map(store.as_fd(), users.as_fd()).map_err(|error| unsupported_id_map(&error))?;
        }
        let writable = directory.reachable_path(&root.writable);
        Ok(Self {
            root,
            store,
            names,
            writable: open_tree(CWD, writable, clone)?,
            owner: users.map(|users| users.range().first()),
        })
    }

    /// Mounts the overlay. `staging` is an empty directory in memory. Returns the mount point.
    ///
    /// # Errors
    /// Errors of `mount(2)`. An overlay needs layers in the mount namespace of this process.
    pub(super) fn mount(self, staging: &Path, flags: MountFlags) -> io::Result<PathBuf> {
        let paths = ["layers", "writable", "root"].map(|name| staging.join(name));
        for path in &paths {
            fs::create_dir(path)?;
        }
        let [store, writable, root] = paths;
        attach_at(&self.store, &store)?;
        attach_at(&self.writable, &writable)?;
        let (upper, work) = (writable.join("upper"), writable.join("work"));
        for directory in [&upper, &work] {
            fs::create_dir(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(ROOT_MODE))?;
            if let Some(owner) = self.owner {
                chown(directory, Some(owner), Some(owner))?;
            }
        }
        let layers = self.open_layers(&store)?;
        let lower: Vec<String> = layers.iter().rev().map(descriptor_path).collect();
        let mut options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.join(":"),
            upper.display(),
            work.display()
        );
        if self.root.has_user_attributes {
            options.push_str(",userxattr");
        }
        mount_overlay(&root, flags, &options)?;
        Ok(root)
    }

    fn open_layers(&self, store: &Path) -> io::Result<Vec<OwnedFd>> {
        let store = rustix::fs::open(store, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = |name: &PathBuf| {
            let opened = openat2(&store, name, flags, Mode::empty(), resolve);
            opened.map_err(|errno| with_context(&format!("layer {}", name.display()), &errno.into()))
        };
        self.names.iter().map(open).collect()
    }
}

fn descriptor_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Mounts the overlay without synchronization, because no later mount uses the writable layer. Kernels before 5.10 do
/// not have that option.
fn mount_overlay(root: &Path, flags: MountFlags, options: &str) -> io::Result<()> {
    let attempt = |options: String| {
        let options = CString::new(options)?;
        Ok(mount(
            "overlay",
            root,
            "overlay",
            flags,
            Some(options.as_c_str()),
        )?)
    };
    let mounted = attempt(format!("{options},volatile"));
    let mounted = match mounted {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => attempt(options.to_owned()),
        mounted => mounted,
    };
    mounted.map_err(|error| unsupported_overlay(&error))
}

/// Returns the error of an overlay that the kernel refuses, with the usual causes.
fn unsupported_overlay(error: &io::Error) -> io::Error {
    let cause = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "; an agent that is not root needs Linux 5.11 or newer for images"
        }
        Some(Errno::NODEV) => "; load the kernel module overlay",
        Some(Errno::INVAL) => {
            "; the data directory must be on a file system that can be an upper layer, such as ext4 or xfs"
        }
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!("mounting the overlay of the image: {error}{cause}"),
    )
}

fn unsupported_id_map(error: &io::Error) -> io::Error {
    let message = format!(
        "hostUsers: false needs ID-mapped mounts for images, which the file system of the image store does not support: {error}"
    );
    io::Error::new(error.kind(), message)
}
