//! What the kernel's memory of flows tells of Services: how many connections each has through this node, and how much
//! they have said. It costs nothing until somebody asks.

use std::cmp::Reverse;
use std::collections::HashMap;

use api::object::{ObjectKey, Protocol};
use netlink::conntrack::{Conntrack, ConntrackError, Family};
use plan::Plan;

/// The connections and flows of a Service that the kernel knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The Service, as `namespace/name`.
    pub(crate) service: String,
    /// How many there are, those among them that have ended a moment ago.
    pub(crate) connections: u64,
    /// Bytes of them all in both directions; 0 where the kernel does not count.
    pub(crate) bytes: u64,
}

/// The Services with the most connections, so many at most.
pub(crate) fn busiest(
    conntrack: &mut Conntrack,
    plan: &Plan,
    services_max: usize,
) -> Result<Vec<Traffic>, ConntrackError> {
    let mut counts: HashMap<&ObjectKey, (u64, u64)> = HashMap::new();
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        for family in [Family::V4, Family::V6] {
            // Nothing is kept of a flow but its part of the sums.
            conntrack.flows(family, protocol.number(), |flow| {
                if let Some((port, _)) = plan.frontend_at(protocol, flow.original.destination) {
                    let (connections, bytes) = counts.entry(&port.key.service).or_default();
                    *connections += 1;
                    *bytes += flow.bytes;
                }
                false
            })?;
        }
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_unstable_by_key(|(service, (connections, _))| (Reverse(*connections), *service));
    let first = all.into_iter().take(services_max);
    Ok(first
        .map(|(service, (connections, bytes))| Traffic {
            service: service.to_string(),
            connections,
            bytes,
        })
        .collect())
}

#[cfg(test)]
mod tests;
