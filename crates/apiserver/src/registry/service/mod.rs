//! What Services are given by the server: cluster IPs and node ports.
//!
//! The [`Registry`] keeps in memory which are taken; the store keeps an IPAddress object for each address
//! (FAM-14) and a key under [`NODE_PORTS_PREFIX`] for each port. A write of a Service reserves what it needs
//! in memory first and gets an [`Allocation`]: writes and expectations for the same transaction as the
//! Service. When that is committed the reservation stays and what the Service gave up becomes free; when it
//! is not, dropping the allocation takes everything back.

mod allocation;
mod audit;
mod bootstrap;
mod cluster_ips;
mod followed;
mod node_ports;
mod pools;
mod records;
mod registry;
pub(crate) mod repair;

pub use allocation::Allocation;
pub use audit::{Allocated, Disagreement, audit};
pub use bootstrap::{
    DEFAULT_SERVICE_CIDR, default_service_cidr, kubernetes_endpoint_slice, kubernetes_endpoints,
    kubernetes_service,
};
pub(crate) use followed::follow_others;
pub use pools::{DURATION_BOUNDS_US, Durations, RangeUsage, Repairs, Taken, Usage};
pub use records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX};
pub use registry::{Registry, RegistryError, ServiceConfig};

use api::field::FieldErrors;

/// Why a Service is given nothing. The texts go to the client.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The Service asks for something that it cannot have: status 422 with these causes, and no others.
    #[error("the Service is invalid")]
    Invalid(FieldErrors),
    /// The server has nothing left to give: status 500, reason `InternalError` (VAL-66, VAL-68, NP-08).
    /// Retrying helps once something was released.
    #[error("{0}")]
    Internal(String),
    /// The request contradicts itself in a way the reference answers with status 500 and no reason (NP-06).
    #[error("{0}")]
    Unclassified(String),
}

#[cfg(test)]
mod tests;
