//! Sources of connections, by which limits are counted.

use std::net::IpAddr;

use counting::client_network;

/// Source of a connection: an IPv4 address, or the /64 prefix of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        Source(client_network(address))
    }
}

#[cfg(test)]
mod tests;
