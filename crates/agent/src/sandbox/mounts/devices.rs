//! A `/dev` of the container's own, with the devices that every program may use (those of the OCI runtime
//! specification). All other mounts forbid devices, so that a node which the container makes itself opens none.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

use super::put;

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
const TERMINALS: [&std::ffi::CStr; 2] = [
    c"newinstance,ptmxmode=0666,mode=0620,gid=5",
    c"newinstance,ptmxmode=0666",
];

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

    /// Mounts a `/dev` of them.
    pub fn mount(self) -> io::Result<()> {
        let own = Path::new("/dev");
        let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("portolan", own, "tmpfs", flags, Some(c"mode=0755,size=64k"))?;
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
        let queues = own.join("mqueue");
        fs::create_dir(&queues)?;
        // A kernel without them, or a machine that forbids it: programs find no queues.
        let _has_queues = mount("mqueue", &queues, "mqueue", quiet | MountFlags::NODEV, None).is_ok();
        let terminals = own.join("pts");
        fs::create_dir(&terminals)?;
        // Likewise, programs find no terminals.
        let mounted =
            |options: &&std::ffi::CStr| mount("devpts", &terminals, "devpts", quiet, Some(*options)).is_ok();
        let _has_terminals = TERMINALS.iter().any(mounted);
        Ok(())
    }
}
