//! Sources of connections, by which limits are counted.

use std::net::{IpAddr, Ipv6Addr};

/// Source of a connection: an IPv4 address, or the /64 prefix of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        Source(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
            address => address,
        })
    }
}

#[cfg(test)]
mod tests;
