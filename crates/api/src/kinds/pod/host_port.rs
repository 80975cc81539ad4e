//! Conflicts of host ports, for the scheduler and for the admission of agents.

use std::net::IpAddr;

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
    /// An empty `hostIP` and `0.0.0.0` stand for any address of both families. Upstream takes `::` for one address.
    /// Here it stands for any address, too: a socket at `::` accepts connections of both families. Addresses are
    /// compared by value, so that two forms of one IPv6 address are in conflict.
    pub fn conflicts_with(&self, other: &RequestedHostPort<'_>) -> bool {
        self.port != 0
            && self.port == other.port
            && protocol_or_default(self.protocol) == protocol_or_default(other.protocol)
            && host_ips_overlap(self.host_ip, other.host_ip)
    }
}

fn protocol_or_default(protocol: &str) -> &str {
    if protocol.is_empty() { "TCP" } else { protocol }
}

fn host_ips_overlap(host_ip: &str, other: &str) -> bool {
    if host_ip.is_empty() || other.is_empty() {
        return true;
    }
    let (parsed, parsed_other) = (host_ip.parse::<IpAddr>(), other.parse::<IpAddr>());
    let is_any = |parsed: &Result<IpAddr, _>| parsed.as_ref().is_ok_and(IpAddr::is_unspecified);
    if is_any(&parsed) || is_any(&parsed_other) {
        return true;
    }
    match (parsed, parsed_other) {
        (Ok(address), Ok(other)) => address == other,
        // Addresses with leading zeros, which older API servers accept.
        _ => host_ip == other,
    }
}

#[cfg(test)]
mod tests;
