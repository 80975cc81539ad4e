//! User namespaces of Pods (`hostUsers: false`, KEP-127).
//!
//! IDs 0 to 65535 of the Pod map to 65,536 host IDs that no other Pod has ([`ranges`]). The user namespace owns the
//! network, UTS and IPC namespaces of the Pod ([`Holder`]) and the mount namespace of each container. The sandbox
//! process stays root of the host, out of reach of the Pod. Each container enters the user namespace before it
//! executes its program.
//!
//! Files in volumes keep the owners that they have without a user namespace: ID-mapped mounts translate them.
//! Without ID-mapped mounts, volumes that the agent creates belong to IDs of the range ([`crate::volumes::file_owners`]).

mod holder;
pub(crate) mod id_map;
mod id_mapped_mounts;
pub mod ranges;

use std::io;

pub use holder::{Holder, SUBCOMMAND, hold_namespaces};
pub use id_map::{IdMap, IdMaps};
use ranges::RangeError;

/// Reason why a user namespace cannot be created. The Pod waits, because it must not start without one.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// API validation rejects such Pods, but manifests of static Pods bypass it.
    #[error("hostNetwork: Forbidden: when `hostUsers` is false")]
    HostNetwork,
    /// No free IDs.
    #[error("can't allocate user namespace: {0}")]
    Range(#[from] RangeError),
    /// The holder process did not start, or ended.
    #[error("cannot create a user namespace: {source}")]
    Holder {
        /// I/O error.
        source: io::Error,
    },
    /// The kernel refused a step; a limit in `/proc/sys/user` or a security module is the usual cause.
    #[error("cannot create a user namespace: {message}")]
    Refused {
        /// The step and the cause.
        message: String,
    },
    /// The kernel refused the ID map.
    #[error("cannot map host IDs from {first} on: {source}")]
    Map {
        /// First host ID.
        first: u32,
        /// I/O error.
        source: io::Error,
    },
    /// Support of ID-mapped mounts could not be determined.
    #[error("ID-mapped mounts: {source}")]
    Mounts {
        /// I/O error.
        source: io::Error,
    },
}
