//! Deletion of conntrack entries.

use api::object::Protocol;
use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow as KernelFlow};
use plan::Plan;

use crate::conntrack_cleanup::{CleanupScope, Flow};
use crate::drain::Due;

/// Deletes all stale entries. Returns their number by IP family.
pub(crate) fn delete_stale(
    conntrack: &mut Conntrack,
    plan: &Plan,
    scope: &CleanupScope,
) -> Result<[u64; 2], ConntrackError> {
    let mut counts = [0; 2];
    let tcp = scope.is_everything().then_some(Protocol::Tcp);
    for protocol in [Protocol::Udp, Protocol::Sctp].into_iter().chain(tcp) {
        for (family, count) in [Family::V4, Family::V6].into_iter().zip(&mut counts) {
            let stale = conntrack.flows(family, protocol.number(), |flow| {
                scope.is_stale(plan, &view(protocol, flow))
            })?;
            for flow in stale {
                *count += u64::from(conntrack.delete(&flow)?);
            }
        }
    }
    Ok(counts)
}

/// Deletes the entries of TCP connections whose drain period is over. Returns their number.
pub(crate) fn end_drained(
    conntrack: &mut Conntrack,
    plan: &Plan,
    due: &Due,
) -> Result<usize, ConntrackError> {
    let mut count = 0;
    for family in [Family::V4, Family::V6] {
        let ended = conntrack.flows(family, Protocol::Tcp.number(), |flow| {
            due.ends(plan, &view(Protocol::Tcp, flow))
        })?;
        for flow in ended {
            count += usize::from(conntrack.delete(&flow)?);
        }
    }
    Ok(count)
}

/// Passes all TCP connections to `each`.
pub(crate) fn tcp_connections(
    conntrack: &mut Conntrack,
    mut each: impl FnMut(&Flow),
) -> Result<(), ConntrackError> {
    for family in [Family::V4, Family::V6] {
        conntrack.flows(family, Protocol::Tcp.number(), |flow| {
            each(&view(Protocol::Tcp, flow));
            false
        })?;
    }
    Ok(())
}

fn view(protocol: Protocol, flow: &KernelFlow) -> Flow {
    Flow {
        protocol,
        destination: flow.original.destination,
        endpoint: flow.reply.source,
    }
}
