//! Session keyring of a container's program. A program without a keyring of its own possesses the keys of the session
//! in which the agent was started.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::protocol::Confinement;
use crate::confinement::capabilities::CapabilityBits;

#[cfg(test)]
mod tests;

/// `KEYCTL_JOIN_SESSION_KEYRING` of `linux/keyctl.h`.
const JOIN_SESSION_KEYRING: libc::c_long = 1;
/// File of every kernel that has keys.
const KEYS: &str = "/proc/keys";

/// Gives this process a new, empty session keyring. It has no name by which another process could join it.
///
/// # Errors
/// Errors of `keyctl(2)`.
pub(super) fn join_new() -> io::Result<()> {
    let no_name: libc::c_long = 0;
    // SAFETY: without a name, the call takes numbers only.
    let serial = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, no_name) };
    if serial < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Gives a container's program a new session keyring. Call this while `/proc` is that of the Pod.
///
/// # Errors
/// Errors of `keyctl(2)`. Without the call, a container runs only if it cannot use keys.
pub(super) fn join_for(confinement: &Confinement) -> io::Result<()> {
    join_new().or_else(|error| {
        let bits = confinement
            .capabilities
            .map_or(CapabilityBits::ALL, CapabilityBits);
        let has_no_keys = || !Path::new(KEYS).exists();
        handle_missing_keyring(
            &error,
            confinement.seccomp.denies(bits, "keyctl") || has_no_keys(),
        )
    })
}

/// Handles a kernel that refuses the call. `has_no_access` is true for a container that cannot use keys.
fn handle_missing_keyring(error: &io::Error, has_no_access: bool) -> io::Result<()> {
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::NOSYS | Errno::PERM) if has_no_access => return Ok(()),
        Some(Errno::NOSYS | Errno::PERM) => {
            "; the container would possess the keys of the agent: permit keyctl(2) to the agent, or give the container \
             the seccompProfile RuntimeDefault"
        }
        Some(Errno::DQUOT) => "; raise the sysctls kernel.keys.root_maxkeys and kernel.keys.maxkeys",
        _ => "",
    };
    let message = format!("joining a new session keyring: {error}{remedy}");
    Err(io::Error::new(error.kind(), message))
}
