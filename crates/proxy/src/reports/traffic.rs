//! Traffic by Service, read from connection tracking on request: number of connections and bytes through this node.

use std::cmp::Reverse;
use std::collections::HashMap;

use api::object::{ObjectKey, Protocol};
use dataplane::ConnectionCount;
use netlink::conntrack::{Conntrack, ConntrackError, Family};
use plan::Plan;

/// Traffic of a Service in connection tracking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Service as `namespace/name`.
    pub(crate) service: String,
    /// Number of entries, including recently closed connections.
    pub(crate) connections: u64,
    /// Bytes in both directions; 0 if the kernel does not count them.
    pub(crate) bytes: u64,
    /// Connections whose endpoint was chosen when the client connected, since the Service has endpoints. Their
    /// conntrack entries contain only the address of the endpoint.
    pub(crate) chosen_at_connect: u64,
    /// Connections that were refused when the client connected.
    pub(crate) refused_at_connect: u64,
}

/// Returns the Services with the most connections, at most `services_max`.
pub(crate) fn busiest(
    conntrack: &mut Conntrack,
    plan: &Plan,
    at_connect: &HashMap<ObjectKey, ConnectionCount>,
    services_max: usize,
) -> Result<Vec<Traffic>, ConntrackError> {
    let mut counts: HashMap<&ObjectKey, (u64, u64)> = HashMap::new();
    let used = at_connect
        .iter()
        .filter(|(_, count)| count.accepted + count.refused > 0);
    counts.extend(used.map(|(service, _)| (service, (0, 0))));
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        for family in [Family::V4, Family::V6] {
            // Only sums are kept, no flows.
            conntrack.flows(family, protocol.number(), |flow| {
                if let Some((port, _)) = plan.frontend_at(protocol, flow.original.destination) {
                    let (connections, bytes) = counts.entry(&port.key.service).or_default();
                    *connections += 1;
                    *bytes += flow.bytes();
                }
                false
            })?;
        }
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    let chosen = |service: &ObjectKey| at_connect.get(service).copied().unwrap_or_default();
    all.sort_unstable_by_key(|(service, (connections, _))| {
        (Reverse(*connections + chosen(service).accepted), *service)
    });
    let first = all.into_iter().take(services_max);
    Ok(first
        .map(|(service, (connections, bytes))| Traffic {
            service: service.to_string(),
            connections,
            bytes,
            chosen_at_connect: chosen(service).accepted,
            refused_at_connect: chosen(service).refused,
        })
        .collect())
}

#[cfg(test)]
mod tests;
