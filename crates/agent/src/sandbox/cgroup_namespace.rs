//! Cgroup namespaces of containers. The control groups that a container has joined are the roots of its namespace, so
//! that `/proc/self/cgroup` names no group of the node.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::context::with_context;

/// Gives this process a cgroup namespace. Call this after the process has joined its groups.
///
/// # Errors
/// Errors of `unshare(2)`.
pub(super) fn create() -> io::Result<()> {
    // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) };
    unshared.map_err(|errno| with_context("creating a cgroup namespace", &errno.into()))
}

/// Enters the cgroup namespace of a process. A kernel without control groups has none.
///
/// # Errors
/// Errors of `open(2)` and `setns(2)`.
pub(super) fn enter(process: i32) -> io::Result<()> {
    let namespace = match File::open(format!("/proc/{process}/ns/cgroup")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ControlGroup))
        .map_err(|errno| with_context("entering the cgroup namespace of the container", &errno.into()))
}
