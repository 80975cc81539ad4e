//! Conflicts of host ports, for the scheduler and for the admission of agents.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

/// A host port that a container requests, as in its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedHostPort<'a> {
    /// Address of the node; empty for any address.
    pub host_ip: &'a str,
    /// TCP, UDP or SCTP; empty for TCP.
    pub protocol: &'a str,
    /// Port of the node; 0 for no port.
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
            && host_ips_overlap(self.host_ip, other.host_ip)
    }
}

/// Host ports in use on a node. A comparison takes constant time, whatever their number.
#[derive(Clone, Debug, Default)]
pub struct UsedHostPorts<'a> {
    /// Addresses by port and protocol.
    by_port: HashMap<(u16, &'a str), UsedAddresses<'a>>,
}

/// Addresses of a host port that are in use.
#[derive(Clone, Debug, Default)]
struct UsedAddresses<'a> {
    /// True if a port is in use at any address.
    has_any: bool,
    others: HashSet<HostAddress<'a>>,
}

/// A `hostIP`. Two of them conflict if one is `Any`, or if they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HostAddress<'a> {
    Any,
    Ip(IpAddr),
    /// An address with leading zeros, which older API servers accept.
    Text(&'a str),
}

impl<'a> UsedHostPorts<'a> {
    /// Returns true if a node with these ports cannot serve another one ([`RequestedHostPort::conflicts_with`]).
    pub fn conflict_with(&self, port: &RequestedHostPort<'_>) -> bool {
        let key = (port.port, protocol_or_default(port.protocol));
        let Some(used) = self.by_port.get(&key) else {
            return false;
        };
        match HostAddress::of(port.host_ip) {
            _ if used.has_any => true,
            HostAddress::Any => !used.others.is_empty(),
            address => used.others.contains(&address),
        }
    }
}

impl<'a> Extend<RequestedHostPort<'a>> for UsedHostPorts<'a> {
    fn extend<I: IntoIterator<Item = RequestedHostPort<'a>>>(&mut self, ports: I) {
        for port in ports.into_iter().filter(|port| port.port != 0) {
            let key = (port.port, protocol_or_default(port.protocol));
            let used = self.by_port.entry(key).or_default();
            match HostAddress::of(port.host_ip) {
                HostAddress::Any => used.has_any = true,
                address => _ = used.others.insert(address),
            }
        }
    }
}

impl<'a> FromIterator<RequestedHostPort<'a>> for UsedHostPorts<'a> {
    fn from_iter<I: IntoIterator<Item = RequestedHostPort<'a>>>(ports: I) -> Self {
        let mut used = Self::default();
        used.extend(ports);
        used
    }
}

impl<'a> HostAddress<'a> {
    fn of(host_ip: &'a str) -> Self {
        match host_ip.parse::<IpAddr>() {
            _ if host_ip.is_empty() => Self::Any,
            Ok(address) if address == IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Self::Any,
            Ok(address) => Self::Ip(address),
            Err(_) => Self::Text(host_ip),
        }
    }
}

fn protocol_or_default(protocol: &str) -> &str {
    if protocol.is_empty() { "TCP" } else { protocol }
}

fn host_ips_overlap(host_ip: &str, other: &str) -> bool {
    match (HostAddress::of(host_ip), HostAddress::of(other)) {
        (HostAddress::Any, _) | (_, HostAddress::Any) => true,
        (address, other) => address == other,
    }
}

#[cfg(test)]
mod tests;
