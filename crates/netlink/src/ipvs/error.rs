//! Reasons why an IPVS request fails.

use std::io;

use crate::socket::DUMP_ATTEMPTS_MAX;

/// Failures of reading or changing virtual servers.
#[derive(Debug, thiserror::Error)]
pub enum IpvsError {
    /// No socket could be opened: no file descriptor is left, or netlink is forbidden.
    #[error("cannot open a netlink socket: {source}")]
    Socket {
        /// Error of the system call.
        source: io::Error,
    },
    /// The kernel has no IPVS. A retry helps after its module is loaded.
    #[error("this kernel has no IPVS; load its module by `modprobe ip_vs`")]
    Missing,
    /// CAP_NET_ADMIN is missing in the network namespace.
    #[error("not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// The kernel refused the request.
    #[error("{operation}: {source}")]
    Kernel {
        /// Description of the request.
        operation: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Concurrent changes interrupted every attempt of a dump. Retry later.
    #[error("{operation}: the list changed during each of {DUMP_ATTEMPTS_MAX} attempts; retry later")]
    Inconsistent {
        /// Description of the request.
        operation: String,
    },
}

impl IpvsError {
    pub(super) fn from_kernel(operation: String, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM) => Self::NotPermitted,
            _ => Self::Kernel { operation, source },
        }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Socket { source } | Self::Kernel { source, .. } => source.raw_os_error(),
            Self::Missing | Self::NotPermitted | Self::Inconsistent { .. } => None,
        }
    }

    /// Returns true if the object to create exists already.
    pub fn is_already_present(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// Returns true if the kernel lacks the scheduler of a virtual server.
    pub fn is_scheduler_missing(&self) -> bool {
        self.errno() == Some(libc::ENOENT)
    }

    /// Returns true if the server, destination or scheduler does not exist. The kernel has two error numbers for this.
    pub fn is_absent(&self) -> bool {
        matches!(self.errno(), Some(libc::ESRCH | libc::ENOENT))
    }
}
