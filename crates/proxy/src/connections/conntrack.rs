//! Deletion of conntrack entries.

use std::collections::HashSet;
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};
use dataplane::ServiceEndpoints;
use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow};
use plan::Plan;

use crate::connections::drain::DueDepartures;
use crate::connections::resets::is_closed;
use crate::connections::stale_flows::{CleanupScope, TrackedFlow};

/// Handling of the entries of UDP requests without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnansweredRequests {
    /// The entries of requests remain: the endpoint can still respond, and without the entry the client would not get
    /// the response.
    Keep,
    /// The entries of requests are deleted, as all others.
    Delete,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeletedEntries {
    /// Deleted entries by IP family.
    pub(crate) counts: [u64; 2],
    /// True if an entry remains for a request.
    pub(crate) keeps_requests: bool,
}

/// Deletes all stale entries, except those that `requests` keeps. Call it with [`UnansweredRequests::Keep`] first. A
/// later call with [`UnansweredRequests::Delete`] removes the remaining entries, which are entries of UDP.
pub(crate) fn delete_stale(
    conntrack: &mut Conntrack,
    plan: &Plan,
    scope: &CleanupScope,
    requests: UnansweredRequests,
) -> Result<DeletedEntries, ConntrackError> {
    let mut deleted = DeletedEntries::default();
    let protocols: &[Protocol] = match requests {
        UnansweredRequests::Delete => &[Protocol::Udp],
        UnansweredRequests::Keep if scope.has_all_flows() => &[Protocol::Udp, Protocol::Sctp, Protocol::Tcp],
        UnansweredRequests::Keep => &[Protocol::Udp, Protocol::Sctp],
    };
    for protocol in protocols.iter().copied() {
        let families = [(Family::V4, plan::Family::V4), (Family::V6, plan::Family::V6)];
        for ((family, family_of_plan), count) in families.into_iter().zip(&mut deleted.counts) {
            if !scope.includes_flows_of(protocol, family_of_plan) {
                continue;
            }
            let stale = conntrack.flows(family, protocol.number(), |flow| {
                let flow = view(protocol, flow);
                let is_stale = scope.is_stale(plan, &flow);
                let is_kept = is_stale && requests == UnansweredRequests::Keep && flow.is_request();
                deleted.keeps_requests |= is_kept;
                is_stale && !is_kept
            })?;
            for flow in stale {
                *count += u64::from(conntrack.delete(&flow)?);
            }
        }
    }
    Ok(deleted)
}

/// Returns the TCP connections whose drain period is over.
pub(crate) fn drained_connections(
    conntrack: &mut Conntrack,
    plan: &Plan,
    due: &DueDepartures,
) -> Result<Vec<Flow>, ConntrackError> {
    tcp_flows(conntrack, |flow| due.ends(plan, &view(Protocol::Tcp, flow)))
}

/// Returns the TCP connections that `filter` accepts.
pub(crate) fn tcp_flows(
    conntrack: &mut Conntrack,
    mut filter: impl FnMut(&Flow) -> bool,
) -> Result<Vec<Flow>, ConntrackError> {
    let mut flows = Vec::new();
    for family in [Family::V4, Family::V6] {
        flows.extend(conntrack.flows(family, Protocol::Tcp.number(), &mut filter)?);
    }
    Ok(flows)
}

/// Returns the endpoints to which an open TCP connection leads through their Service.
pub(crate) fn connected_endpoints(
    conntrack: &mut Conntrack,
    plan: &Plan,
    endpoints: &ServiceEndpoints,
) -> Result<ServiceEndpoints, ConntrackError> {
    let mut found = HashSet::new();
    tcp_flows(conntrack, |flow| {
        found.extend(service_endpoint(plan, flow).filter(|endpoint| endpoints.contains(endpoint)));
        false
    })?;
    Ok(found)
}

/// Returns true if an open TCP connection leads through a Service to one of these endpoints of the Service.
pub(crate) fn reaches_endpoint(plan: &Plan, flow: &Flow, endpoints: &ServiceEndpoints) -> bool {
    service_endpoint(plan, flow).is_some_and(|endpoint| endpoints.contains(&endpoint))
}

/// Returns the Service of an open TCP connection, and the address of its endpoint; `None` without a frontend.
fn service_endpoint(plan: &Plan, flow: &Flow) -> Option<(ObjectKey, IpAddr)> {
    if is_closed(flow) || flow.reply.source == flow.original.destination {
        return None;
    }
    let (port, _) = plan.frontend_at(Protocol::Tcp, flow.original.destination)?;
    Some((port.key.service.clone(), flow.reply.source.ip()))
}

/// Passes all TCP connections to `each`.
pub(crate) fn tcp_connections(
    conntrack: &mut Conntrack,
    mut each: impl FnMut(&TrackedFlow),
) -> Result<(), ConntrackError> {
    for family in [Family::V4, Family::V6] {
        conntrack.flows(family, Protocol::Tcp.number(), |flow| {
            each(&view(Protocol::Tcp, flow));
            false
        })?;
    }
    Ok(())
}

fn view(protocol: Protocol, flow: &Flow) -> TrackedFlow {
    TrackedFlow {
        protocol,
        destination: flow.original.destination,
        endpoint: flow.reply.source,
        is_replied: flow.is_replied,
    }
}

#[cfg(test)]
mod tests;
