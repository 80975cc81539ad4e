//! Allocation of cluster IPs and node ports to Services.
//!
//! [`Allocators`] holds the taken addresses and ports in memory. In the store, each address has an IPAddress object
//! (FAM-14), and each port a key under [`NODE_PORTS_PREFIX`]. A write of a Service first reserves in memory and gets an
//! [`Allocation`]: writes and expectations for the transaction that writes the Service. After the commit, the
//! reservations are permanent, and the addresses and ports that the Service released are free. Without a commit,
//! dropping the allocation releases the reservations.

mod allocation;
mod allocators;
mod bootstrap;
mod cluster_ips;
mod inconsistency;
mod node_ports;
mod peer_allocations;
mod pools;
mod records;
pub(crate) mod repair;

pub use allocation::Allocation;
pub use allocators::{AllocatorError, AllocatorSettings, Allocators};
pub use bootstrap::{
    DEFAULT_SERVICE_CIDR, default_service_cidr, kubernetes_endpoint_slice, kubernetes_endpoints,
    kubernetes_service,
};
pub use inconsistency::{Allocated, Inconsistency, find_inconsistencies};
pub(crate) use peer_allocations::follow_peers;
pub use pools::{AllocationCounts, DURATION_BOUNDS_MICROSECONDS, Durations, RangeUsage, RepairCounts, Usage};
pub use records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX};

use api::field::FieldErrors;

/// A failed allocation. The texts are sent to the client.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The request is invalid: status 422 with these causes.
    #[error("the Service is invalid")]
    Invalid(FieldErrors),
    /// The range is exhausted: status 500, reason `InternalError` (VAL-66, VAL-68, NP-08). A retry can succeed after a
    /// release.
    #[error("{0}")]
    Internal(String),
    /// The request contradicts itself. As upstream: status 500 without a reason (NP-06).
    #[error("{0}")]
    Unclassified(String),
}

#[cfg(test)]
mod tests;
