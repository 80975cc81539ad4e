//! Masked and read-only paths in `/proc` and `/sys` (`maskedPaths` and `readonlyPaths` of the OCI runtime
//! specification, with containerd's defaults in `oci/spec.go`).

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, mount_bind, open_tree};

use super::attach_at;
use crate::sandbox::mount_attributes::set_read_only_below;

const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Applies the masked and read-only paths.
///
/// # Errors
/// Errors of `mount(2)` and `mount_setattr(2)`.
pub(super) fn apply() -> io::Result<()> {
    for path in READ_ONLY {
        if !Path::new(path).exists() {
            continue;
        }
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, path, flags)?;
        set_read_only_below(std::os::fd::AsFd::as_fd(&tree))?;
        attach_at(&tree, Path::new(path))?;
    }
    for path in MASKED {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => cover(Path::new(path))?,
            Ok(_) => mount_bind("/dev/null", path)?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// Covers a directory with an empty read-only one.
///
/// # Errors
/// Errors of `mount(2)`.
pub(in crate::sandbox) fn cover(directory: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let options = Some(c"mode=0555,size=4k,nr_inodes=2");
    Ok(mount("portolan", directory, "tmpfs", flags, options)?)
}
