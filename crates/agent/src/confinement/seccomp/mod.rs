//! Seccomp filters of containers.

mod profile;
mod runtime_default;
mod syscall_numbers;
#[cfg(test)]
mod tests;

use std::io;

use seccompiler::BpfProgram;
use serde::{Deserialize, Serialize};

use crate::confinement::capabilities::CapabilityBits;
pub use profile::{Action, Comparison, Condition, Profile, ProfileError, Rule};
pub use runtime_default::runtime_default;

/// Seccomp filter of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// No filter.
    Unconfined,
    /// Rules of [`runtime_default()`].
    #[default]
    RuntimeDefault,
    /// Rules of a profile of the administrator.
    Localhost(Profile),
}

impl Seccomp {
    /// Returns the filters for a container with at most these capabilities.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn filters(&self, capabilities: CapabilityBits) -> Result<Vec<BpfProgram>, ProfileError> {
        match self {
            Self::Unconfined => Ok(Vec::new()),
            Self::RuntimeDefault => runtime_default(capabilities).filters(),
            Self::Localhost(profile) => profile.filters(),
        }
    }

    /// Returns true if the filters of a container with these capabilities reject a system call regardless of its
    /// arguments.
    pub fn denies(&self, capabilities: CapabilityBits, call: &str) -> bool {
        match self {
            Self::Unconfined => false,
            Self::RuntimeDefault => runtime_default(capabilities).denies(call),
            Self::Localhost(profile) => profile.denies(call),
        }
    }
}

/// Installs filters for this process and its children. It needs `no_new_privs` or CAP_SYS_ADMIN.
///
/// # Errors
/// Errors of `seccomp(2)`.
pub fn install(filters: &[BpfProgram]) -> io::Result<()> {
    for filter in filters {
        let length = filter.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog {
            len: length,
            // Both structures are the kernel's `struct sock_filter`, which the kernel only reads.
            filter: filter.as_ptr().cast_mut().cast(),
        };
        // SAFETY: the program, and the filter of the length that it states, live through the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
