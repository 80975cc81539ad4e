//! Memory in place of the node's directories for what lasts a while. The node's own have other programs' files and
//! sockets: whoever is root in a container could speak to container runtimes and service managers there.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::user_namespaces::ranges::IdRange;

/// The directories, and how each is mounted. Their sizes bound what a container without a limit takes of the node's
/// memory; with one, that counts.
const PLACES: [(&str, &std::ffi::CStr); 3] = [
    ("/run", c"mode=0755,size=64m"),
    ("/tmp", c"mode=1777,size=256m"),
    ("/var/tmp", c"mode=1777,size=256m"),
];
/// The resolver's file, which may be a link into one of them.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Mounts those directories that the host has and returns their canonical paths. Root of the Pod owns them.
pub(super) fn mount_all(owner: Option<IdRange>) -> io::Result<Vec<PathBuf>> {
    let resolver = Resolver::take();
    let links = links(Path::new("/run"));
    let mut places = Vec::new();
    for (place, data) in PLACES {
        let place = match fs::canonicalize(place) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if places.contains(&place) {
            continue;
        }
        mount(
            "portolan",
            &place,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(data),
        )?;
        if let Some(range) = owner {
            chown(&place, Some(range.first()), Some(range.first()))?;
        }
        places.push(place);
    }
    // On some systems all programs are reached by such links.
    for (name, target) in links {
        std::os::unix::fs::symlink(target, Path::new("/run").join(name))?;
    }
    if let Some(resolver) = resolver {
        resolver.put_back(&places)?;
    }
    Ok(places)
}

fn links(directory: &Path) -> Vec<(std::ffi::OsString, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let link = |entry: fs::DirEntry| Some((entry.file_name(), fs::read_link(entry.path()).ok()?));
    entries.filter_map(link).collect()
}

/// Target of the link at the resolver's file.
struct Resolver {
    path: PathBuf,
    tree: std::os::fd::OwnedFd,
}

impl Resolver {
    fn take() -> Option<Self> {
        let path = fs::canonicalize(RESOLV_CONF).ok()?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(rustix::fs::CWD, &path, flags).ok()?;
        Some(Self { path, tree })
    }

    /// Puts it back if it was covered.
    fn put_back(&self, places: &[PathBuf]) -> io::Result<()> {
        if !places.iter().any(|place| self.path.starts_with(place)) {
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
