//! Routes that this node announces to each peer (LBM-11), from the objects of the cluster; no clock, no I/O.
//!
//! The speaker announces an address if the assigner has recorded it, a BGPAdvertisement selects its pool, and no Node
//! reports it as its own. With `externalTrafficPolicy: Local`, nodes with ready endpoints announce; with `Cluster`,
//! all nodes do while any endpoint is ready. Terminating endpoints that still serve count where no endpoint is ready
//! (KEP-1669).
//!
//! A node that is not ready, or excluded from load balancing, announces nothing. A cordoned node gives way to others: its
//! routes get the community GRACEFUL_SHUTDOWN (RFC 8326), and disappear after [`Drain::DELAY`]. A route without another
//! node stays.

mod cluster;
mod decide;

pub(crate) use cluster::Cluster;
pub(crate) use decide::{Drain, NodeRoutes};

#[cfg(test)]
mod tests;
