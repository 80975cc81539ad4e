//! Entry of a container into the user namespace of its Pod.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::thread::{
    Gid, LinkNameSpaceType, Uid, UnshareFlags, move_into_link_name_space, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

use super::context::with_context;
use crate::confinement::user_namespaces::ranges::IdRange;

/// User namespace of the Pod.
pub(super) struct UserNamespace {
    descriptor: OwnedFd,
    range: IdRange,
}

impl UserNamespace {
    /// Opens the user namespace that owns the UTS namespace of this process. Call this before the process enters the
    /// mounts of a container, because the container may have mounted over `/proc`.
    ///
    /// # Errors
    /// Errors of `ioctl(2)`.
    pub(super) fn of_pod(range: IdRange) -> io::Result<Self> {
        let owned = File::open("/proc/self/ns/uts")?;
        // SAFETY: the call takes no pointer; the descriptor is open.
        let descriptor = unsafe { libc::ioctl(owned.as_raw_fd(), libc::NS_GET_USERNS) };
        if descriptor < 0 {
            return Err(with_context(
                "the Pod's user namespace",
                &io::Error::last_os_error(),
            ));
        }
        // SAFETY: the call created this descriptor, and nothing else owns it. The kernel sets its close-on-exec flag.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor, range })
    }

    /// Returns the host IDs of the Pod.
    pub(super) fn range(&self) -> IdRange {
        self.range
    }

    /// Makes the process root of the namespace, without privileges outside. With `owns_mounts` it also gets a mount
    /// namespace that the user namespace owns. The kernel locks masking mounts and read-only flags in it.
    ///
    /// # Errors
    /// Errors of `setns(2)`, `setresuid(2)` and `unshare(2)`. A process that is already in the namespace gets `EINVAL`.
    pub(super) fn enter(self, owns_mounts: bool) -> io::Result<()> {
        let entered = move_into_link_name_space(self.descriptor.as_fd(), Some(LinkNameSpaceType::User));
        entered.map_err(|errno| with_context("entering the Pod's user namespace", &errno.into()))?;
        become_root().map_err(|error| with_context("root of the Pod's user namespace", &error))?;
        if !owns_mounts {
            return Ok(());
        }
        // SAFETY: no file descriptor table is unshared, the only reason why the call is unsafe.
        let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
        unshared.map_err(|errno| with_context("mounts of the Pod's user namespace", &errno.into()))
    }
}

impl AsFd for UserNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn become_root() -> io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    Ok(set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?)
}
