//! `tmpfs` mounts over the node's directories for temporary files. The directories of the node contain sockets of
//! container runtimes and service managers, to which root of a container could connect.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::confinement::user_namespaces::ranges::IdRange;

/// Directories with their mount options. The size bounds the memory that a container without a memory limit uses.
const DIRECTORIES: [(&str, &std::ffi::CStr); 3] = [
    ("/run", c"mode=0755,size=64m"),
    ("/tmp", c"mode=1777,size=256m"),
    ("/var/tmp", c"mode=1777,size=256m"),
];
/// Configuration of the resolver, which may be a symbolic link into one of the directories.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Mounts memory over those directories that the host has, owned by the root user of the Pod. Returns their canonical
/// paths.
///
/// # Errors
/// Errors of `mount(2)` and `chown(2)`.
pub(super) fn mount_all(owner: Option<IdRange>) -> io::Result<Vec<PathBuf>> {
    let resolv_conf = ResolvConf::detach();
    let links = links(Path::new("/run"));
    let mut paths = Vec::new();
    for (directory, options) in DIRECTORIES {
        let path = match fs::canonicalize(directory) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if paths.contains(&path) {
            continue;
        }
        mount(
            "portolan",
            &path,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(options),
        )?;
        if let Some(range) = owner {
            chown(&path, Some(range.first()), Some(range.first()))?;
        }
        paths.push(path);
    }
    // Some systems have all programs behind such links.
    for (name, target) in links {
        std::os::unix::fs::symlink(target, Path::new("/run").join(name))?;
    }
    if let Some(resolv_conf) = resolv_conf {
        resolv_conf.attach_if_covered(&paths)?;
    }
    Ok(paths)
}

fn links(directory: &Path) -> Vec<(std::ffi::OsString, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let link = |entry: fs::DirEntry| Some((entry.file_name(), fs::read_link(entry.path()).ok()?));
    entries.filter_map(link).collect()
}

/// Target of the link at [`RESOLV_CONF`] as a detached mount.
struct ResolvConf {
    path: PathBuf,
    tree: std::os::fd::OwnedFd,
}

impl ResolvConf {
    fn detach() -> Option<Self> {
        let path = fs::canonicalize(RESOLV_CONF).ok()?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(rustix::fs::CWD, &path, flags).ok()?;
        Some(Self { path, tree })
    }

    /// Attaches the file again if its directory was covered.
    fn attach_if_covered(&self, paths: &[PathBuf]) -> io::Result<()> {
        if !paths.iter().any(|covered| self.path.starts_with(covered)) {
            return Ok(());
        }
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::File::create(&self.path)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&self.tree, "", rustix::fs::CWD, &self.path, flags)?)
    }
}
