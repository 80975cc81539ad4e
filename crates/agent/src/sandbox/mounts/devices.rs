//! A `/dev` of the container's own, with the devices that every program may use (those of the OCI runtime
//! specification). All other mounts forbid devices, so that a node which the container makes itself opens none.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

use super::put;
use crate::user_namespaces::ranges::IdRange;

/// The devices.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The links.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Terminals belong to the group `tty`, which has this number everywhere; not in every user namespace.
const TERMINAL_GROUP: u32 = 5;
/// Options of the file system of terminals.
const TERMINALS: &str = "newinstance,ptmxmode=0666";

/// The node's devices, taken out of their place.
pub(super) struct Devices {
    taken: Vec<(&'static str, OwnedFd)>,
}

impl Devices {
    /// Takes those that the node has.
    pub fn take() -> io::Result<Self> {
        let mut taken = Vec::new();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        for name in DEVICES {
            match open_tree(CWD, Path::new("/dev").join(name), flags) {
                Ok(tree) => taken.push((name, tree)),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Self { taken })
    }

    /// Mounts a `/dev` with these devices. Root of the Pod owns it.
    pub fn mount(self, owner: Option<IdRange>) -> io::Result<()> {
        let own = Path::new("/dev");
        let set_owner = |place: &Path| match owner {
            Some(range) => chown(place, Some(range.first()), Some(range.first())),
            None => Ok(()),
        };
        let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("portolan", own, "tmpfs", flags, Some(c"mode=0755,size=64k"))?;
        set_owner(own)?;
        for (name, tree) in &self.taken {
            let place = own.join(name);
            fs::File::create(&place)?;
            put(tree, &place)?;
        }
        for (name, target) in LINKS {
            symlink(target, own.join(name))?;
        }
        let shared = own.join("shm");
        fs::create_dir(&shared)?;
        let options = Some(c"mode=1777,size=64m");
        mount("shm", &shared, "tmpfs", quiet | MountFlags::NODEV, options)?;
        set_owner(&shared)?;
        let queues = own.join("mqueue");
        fs::create_dir(&queues)?;
        // A kernel without them, or a machine that forbids it: programs find no queues.
        let has_queues = mount("mqueue", &queues, "mqueue", quiet | MountFlags::NODEV, None).is_ok();
        if has_queues {
            set_owner(&queues)?;
        }
        let terminals = own.join("pts");
        fs::create_dir(&terminals)?;
        // Likewise, programs find no terminals.
        let group = match owner {
            Some(range) => range.host_id(TERMINAL_GROUP),
            None => Some(TERMINAL_GROUP),
        };
        let with_group = group.map(|group| format!("{TERMINALS},mode=0620,gid={group}"));
        let mut all = with_group.into_iter().chain([TERMINALS.to_owned()]);
        let _has_terminals = all.any(|options| mount_terminals(&terminals, options).is_ok());
        Ok(())
    }
}

fn mount_terminals(place: &Path, options: String) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("devpts", place, "devpts", flags, Some(options.as_c_str()))?)
}
