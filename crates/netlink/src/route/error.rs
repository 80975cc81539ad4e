//! What can go wrong with links, addresses and routes.

use std::io;

use super::link::NAME_BYTES_MAX;

/// Why the kernel's network was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The socket could not be opened: no descriptor is left, or netlink is forbidden here.
    #[error("netlink socket: {source}")]
    Socket {
        /// What failed.
        source: io::Error,
    },
    /// The kernel refused the request. `EPERM` means that CAP_NET_ADMIN is missing in the namespace.
    #[error("{operation}: {source}")]
    Kernel {
        /// What was asked for.
        operation: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Not a name that a link may have. No retry mends it.
    #[error(
        "{name:?} cannot name a link: 1 to {NAME_BYTES_MAX} bytes, no blank, no '/', not \".\" or \"..\""
    )]
    Name {
        /// The name that was given.
        name: String,
    },
    /// No link has that name.
    #[error("{operation}: no link is named {name}")]
    NoLink {
        /// What was asked for.
        operation: String,
        /// The name that was looked for.
        name: String,
    },
    /// A network namespace could not be entered: CAP_SYS_ADMIN is missing, or the descriptor is none of a namespace.
    #[error("entering a network namespace: {source}")]
    Namespace {
        /// What failed.
        source: io::Error,
    },
}

impl RouteError {
    /// The kernel's error number, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Socket { source, .. } | Self::Kernel { source, .. } | Self::Namespace { source } => {
                source.raw_os_error()
            }
            Self::Name { .. } | Self::NoLink { .. } => None,
        }
    }

    /// Whether the thing to be made exists already.
    pub fn is_exists(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// Whether the thing to be changed or removed is not there: the kernel says so in four ways.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoLink { .. })
            || matches!(
                self.errno(),
                Some(libc::ENODEV | libc::ENOENT | libc::ESRCH | libc::EADDRNOTAVAIL)
            )
    }
}
