//! Mounts that all containers of a Pod share: the node's files, with the Pod's own `/proc`, `/sys` and
//! `/etc/resolv.conf`, and without hidden paths.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change,
    move_mount, open_tree,
};

use super::Settings;
use super::context::with_context;
use super::error_log::log_error;
use super::mounts::cover;
use crate::confinement::user_namespaces::id_map::IdMap;

#[cfg(test)]
mod tests;

/// Mount point of the control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Creates the mounts of the Pod. If a host forbids to mount `/sys` or `/etc/resolv.conf`, the error is logged and the
/// Pod runs with those of the node. The `/proc` of the node would show the processes of the node and of other Pods,
/// with their environment and files. A hidden path must be covered, because it may contain credentials of the cluster.
///
/// # Errors
/// Errors of `mount(2)`, except those of the paths above.
pub(super) fn prepare(settings: &Settings) -> io::Result<()> {
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    // Otherwise the mounts below would propagate to the node.
    mount_change("/", propagation)
        .map_err(|errno| with_context("making the mounts private", &errno.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(errno) = mount("proc", "/proc", "proc", flags, None) {
        handle_missing_proc(&errno.into(), settings.shares_processes)?;
    }
    if let Err(error) = mount_sys(flags) {
        log_error(format_args!("mounting /sys: {error}"));
    }
    if let Err(error) = mount_bind(&settings.resolv_conf, "/etc/resolv.conf") {
        log_error(format_args!("mounting /etc/resolv.conf: {error}"));
    }
    settings.hidden.iter().try_for_each(|path| {
        hide(path, settings).map_err(|error| with_context(&format!("hiding {}", path.display()), &error))
    })
}

/// Handles a `/proc` that cannot be mounted. Only a Pod with `hostPID` runs with the `/proc` of the node, which it sees
/// in any case.
///
/// # Errors
/// The error of the mount with the usual remedy, for all other Pods.
fn handle_missing_proc(error: &io::Error, shares_processes: bool) -> io::Result<()> {
    if shares_processes {
        log_error(format_args!("mounting /proc: {error}"));
        return Ok(());
    }
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the kernel refuses it in a container whose /proc has masked paths: run the agent on the host, or in a \
             container with an unmasked /proc"
        }
        _ => "",
    };
    let message = format!("mounting /proc of the Pod: {error}{remedy}");
    Err(io::Error::new(error.kind(), message))
}

/// Mounts a `/sys` that shows the links of the Pod, with the control groups of the node.
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

/// Returns true if the path is missing, or if the only user of the Pod has no access to it. An agent without privileges
/// can have another user's `HOME`.
fn is_unreachable(error: &io::Error, users: &IdMap) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => users.has_one_id(),
        _ => false,
    }
}

/// Masks a directory with an empty one, and a file with an empty one. A path that no process of the Pod can reach needs no
/// mask.
fn hide(path: &Path, settings: &Settings) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Err(error) if is_unreachable(&error, &IdMap::own_users()) => return Ok(()),
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
    // The Pod's directory is already hidden at this point.
    Ok(mount_bind("/dev/null", &path)?)
}
