//! `/dev` of a container with the default devices of the OCI runtime specification. All other mounts have `nodev`, so
//! that device nodes which a container creates cannot be opened.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

use super::attach_at;
use crate::confinement::user_namespaces::ranges::IdRange;
use crate::sandbox::mount_attributes::set_attributes;

/// Default devices.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Default links.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Shared memory.
const MEMORY: &str = "/dev/shm";
/// Group `tty`, which owns terminals. A user namespace may not map it.
const TERMINAL_GROUP: u32 = 5;
/// Options of the file system for terminals.
const TERMINALS: &str = "newinstance,ptmxmode=0666";

/// Attributes of the mounts of devices. Programs can write to a device on a read-only mount. They cannot change its
/// mode, owner or times, which belong to the device file of the node.
const DEVICE_ATTRIBUTES: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Devices of the node as detached mounts.
pub(super) struct Devices {
    detached: Vec<(&'static str, OwnedFd)>,
    /// Shared memory of the node; `None` for memory of the container.
    memory: Option<OwnedFd>,
}

impl Devices {
    /// Detaches the devices that the node has, and its shared memory if the container has that.
    ///
    /// # Errors
    /// Errors of `open_tree(2)` and `mount_setattr(2)`.
    pub(super) fn detach(has_node_memory: bool) -> io::Result<Self> {
        let mut detached = Vec::new();
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        for name in DEVICES {
            match open_tree(CWD, Path::new("/dev").join(name), flags) {
                Ok(tree) => {
                    set_attributes(tree.as_fd(), DEVICE_ATTRIBUTES, 0, 0)?;
                    detached.push((name, tree));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let memory = has_node_memory
            .then(|| open_tree(CWD, MEMORY, flags))
            .transpose()?;
        if let Some(memory) = &memory {
            set_attributes(memory.as_fd(), libc::MOUNT_ATTR_NODEV, 0, 0)?;
        }
        Ok(Self { detached, memory })
    }

    /// Mounts a `/dev` with these devices, owned by the root user of the Pod.
    ///
    /// # Errors
    /// Errors of `mount(2)` and `chown(2)`.
    pub(super) fn mount(self, owner: Option<IdRange>) -> io::Result<()> {
        let dev = Path::new("/dev");
        let set_owner = |path: &Path| match owner {
            Some(range) => chown(path, Some(range.first()), Some(range.first())),
            None => Ok(()),
        };
        let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("portolan", dev, "tmpfs", flags, Some(c"mode=0755,size=64k"))?;
        set_owner(dev)?;
        for (name, tree) in &self.detached {
            let path = dev.join(name);
            fs::File::create(&path)?;
            attach_at(tree, &path)?;
        }
        for (name, target) in LINKS {
            symlink(target, dev.join(name))?;
        }
        let shared = Path::new(MEMORY);
        fs::create_dir(shared)?;
        match &self.memory {
            Some(memory) => attach_at(memory, shared)?,
            None => {
                let options = Some(c"mode=1777,size=64m");
                mount("shm", shared, "tmpfs", quiet | MountFlags::NODEV, options)?;
                set_owner(shared)?;
            }
        }
        let queues = dev.join("mqueue");
        fs::create_dir(&queues)?;
        // A kernel without message queues, or a host that forbids the mount: programs then have none.
        let has_queues = mount("mqueue", &queues, "mqueue", quiet | MountFlags::NODEV, None).is_ok();
        if has_queues {
            set_owner(&queues)?;
        }
        let terminals = dev.join("pts");
        fs::create_dir(&terminals)?;
        // Likewise, programs then have no terminals.
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

fn mount_terminals(path: &Path, options: String) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("devpts", path, "devpts", flags, Some(options.as_c_str()))?)
}
