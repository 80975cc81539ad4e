//! Counting of clients and namespaces against limits. Several components use it.
//!
//! - [`client_network`]: the network that counts as one client. The API server, the edge, userspace mode, DNS and the
//!   servers of metrics use it.
//! - [`Shares`]: a limit of permits or bytes that holders share. The holders are namespaces in the agent and in
//!   userspace mode, and clients in DNS.
//! - [`SharedValues`]: one value for each key, such as the limits of a namespace at the edge.

mod shared_values;
mod shares;

use std::net::{IpAddr, Ipv6Addr};

pub use shared_values::SharedValues;
pub use shares::{NamespaceShare, NamespaceShares, Share, Shares};

#[cfg(test)]
mod tests;

/// Prefix length by which IPv6 clients count: a host usually has all addresses of such a network (RFC 7421).
const IPV6_PREFIX_BITS: u32 = 64;

/// Returns the network by which a client counts: its IPv4 address, or the first address of its IPv6 /64. Loopback
/// addresses stay themselves. An IPv4-mapped address counts as its IPv4 address.
///
/// Pods of a node can share a /64. Where nodes verify their addresses, and the range of Pods is known, count their
/// addresses instead.
pub fn client_network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let host_bits = Ipv6Addr::BITS - IPV6_PREFIX_BITS;
            Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits).into()
        }
        address => address,
    }
}
