//! Reasons why an rtnetlink request fails.

use std::io;

use super::link_id::NAME_BYTES_MAX;
use crate::socket::DUMP_ATTEMPTS_MAX;

/// Failures of reading or changing links, addresses and routes.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No socket could be opened: no file descriptor is left, or netlink is forbidden.
    #[error("cannot open a netlink socket: {source}")]
    Socket {
        /// Error of the system call.
        source: io::Error,
    },
    /// The kernel refused the request. `EPERM` means that CAP_NET_ADMIN is missing in the namespace.
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
    /// The name is invalid for a link. A retry does not help.
    #[error(
        "expected a link name of 1 to {NAME_BYTES_MAX} bytes without a blank or '/', other than \".\" and \"..\", found {name:?}"
    )]
    Name {
        /// The name as given.
        name: String,
    },
    /// No link has this name.
    #[error("{operation}: no link is named {name}")]
    NoLink {
        /// Description of the request.
        operation: String,
        /// Name of the link.
        name: String,
    },
    /// The network namespace could not be entered: CAP_SYS_ADMIN is missing, or the descriptor is not a namespace.
    #[error("cannot enter a network namespace: {source}")]
    Namespace {
        /// Error of the system call.
        source: io::Error,
    },
}

impl RouteError {
    /// Returns the errno of the kernel or of the system call.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Socket { source, .. } | Self::Kernel { source, .. } | Self::Namespace { source } => {
                source.raw_os_error()
            }
            Self::Inconsistent { .. } | Self::Name { .. } | Self::NoLink { .. } => None,
        }
    }

    /// Returns true if the object to create exists already.
    pub fn is_already_present(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// Returns true if the object to change or delete does not exist. The kernel has four error numbers for this.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoLink { .. })
            || matches!(
                self.errno(),
                Some(libc::ENODEV | libc::ENOENT | libc::ESRCH | libc::EADDRNOTAVAIL)
            )
    }
}
