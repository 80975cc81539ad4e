//! The files that all of a Pod sees: the node's, but for `/proc`, `/sys`, `/etc/resolv.conf` and what is hidden.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change,
    move_mount, open_tree,
};

use super::Settings;
use super::complaints::complain;
use super::launch::in_words;
use super::mounts::cover;

/// Mount point of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Makes mounts of the Pod's own. A machine that forbids `/proc`, `/sys` or `/etc/resolv.conf` gets a line in the
/// sandbox's log; the Pod works without, less well. No Pod runs where the cluster's credentials cannot be hidden.
///
/// # Errors
/// Errors of `mount(2)`.
pub(super) fn prepare(settings: &Settings) -> io::Result<()> {
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    // Without that, a mount here would be one on the node.
    mount_change("/", propagation).map_err(|errno| in_words("leaving the node's mounts", &errno.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = mount("proc", "/proc", "proc", flags, None) {
        complain(format_args!("mounting /proc: {error}"));
    }
    if let Err(error) = mount_sys(flags) {
        complain(format_args!("mounting /sys: {error}"));
    }
    if let Err(error) = mount_bind(&settings.resolv_conf, "/etc/resolv.conf") {
        complain(format_args!("mounting /etc/resolv.conf: {error}"));
    }
    settings.hidden.iter().try_for_each(|path| {
        hide(path, settings).map_err(|error| in_words(&format!("hiding {}", path.display()), &error))
    })
}

/// A `/sys` that shows the Pod's links, with the node's control groups in it.
fn mount_sys(flags: MountFlags) -> io::Result<()> {
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let cgroups = open_tree(CWD, CGROUPS, clone);
    mount("sysfs", "/sys", "sysfs", flags, None)?;
    if let Ok(cgroups) = cgroups {
        move_mount(
            &cgroups,
            "",
            CWD,
            CGROUPS,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?;
    }
    Ok(())
}

/// Covers a directory by an empty one, and a file by an empty one. What is not there needs no cover.
fn hide(path: &Path, settings: &Settings) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        path => path?,
    };
    if path == Path::new("/") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the root directory cannot be hidden; give the data a directory of its own",
        ));
    }
    if fs::metadata(&path)?.is_dir() {
        return cover(&path);
    }
    let empty = settings.socket.with_file_name("empty");
    if empty.exists() || fs::File::create(&empty).is_ok() {
        return Ok(mount_bind(&empty, &path)?);
    }
    // The Pod's own directory is hidden already.
    Ok(mount_bind("/dev/null", &path)?)
}
