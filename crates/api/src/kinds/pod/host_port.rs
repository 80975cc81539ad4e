//! Conflicts of host ports, for the scheduler and for the admission of agents.

use std::net::{IpAddr, Ipv4Addr};

/// A host port that a container requests, as in its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedHostPort<'a> {
    /// Address of the node; empty for any address.
    pub host_ip: &'a str,
    /// TCP, UDP or SCTP; empty for TCP.
    pub protocol: &'a str,
    /// Port of the node; 0 for none.
    pub port: u16,
}

impl RequestedHostPort<'_> {
    /// Returns true if one node cannot serve both ports (upstream's `HostPortInfo.CheckConflict`).
    ///
    /// An empty `hostIP` and `0.0.0.0` stand for any address of both families. `::` is one address, as upstream: a port at
    /// a named IPv6 address precedes one at `::`. Addresses are compared by value, so that two forms of one IPv6 address
    /// are in conflict.
    pub fn conflicts_with(&self, other: &RequestedHostPort<'_>) -> bool {
        self.port != 0
            && self.port == other.port
            && protocol_or_default(self.protocol) == protocol_or_default(other.protocol)
            && overlap(self.host_ip, other.host_ip)
    }
}

fn protocol_or_default(protocol: &str) -> &str {
    if protocol.is_empty() { "TCP" } else { protocol }
}

fn overlap(host_ip: &str, other: &str) -> bool {
    if host_ip.is_empty() || other.is_empty() {
        return true;
    }
    let (parsed, parsed_other) = (host_ip.parse::<IpAddr>(), other.parse::<IpAddr>());
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    match (parsed, parsed_other) {
        (Ok(address), Ok(other)) => address == any || other == any || address == other,
        (Ok(address), Err(_)) | (Err(_), Ok(address)) if address == any => true,
        // Addresses with leading zeros, which older API servers accept.
        _ => host_ip == other,
    }
}

#[cfg(test)]
mod tests;
