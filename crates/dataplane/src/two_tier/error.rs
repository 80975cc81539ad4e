//! Errors of two-tier forwarding.

use std::io;
use std::net::IpAddr;

use netlink::nftables::{CommitError, ReadError};
use netlink::route::RouteError;

/// Reasons why connections are not forwarded, or forwarded frontends are not listed. A retry may help, except without
/// CAP_NET_ADMIN.
#[derive(Debug, thiserror::Error)]
pub enum TwoTierError {
    /// The kernel refused a change of links.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// nftables is not reachable.
    #[error("cannot use nftables: {0}")]
    Nftables(#[source] io::Error),
    /// The kernel refused a table.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The kernel did not list the elements of a table.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The Node of this host is unknown, or has no address. It may appear later.
    #[error("Node {0} has no InternalIP or ExternalIP")]
    NoAddress(String),
    /// No link has the address of this node. It may appear later.
    #[error("no link of this host has the address {0} of its Node")]
    NoUnderlay(IpAddr),
}
