//! Taking stale flows from the kernel's memory.

use api::object::Protocol;
use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow as KernelFlow};
use plan::Plan;

use crate::care::{Flow, Scope};
use crate::drain::Due;

/// Makes the kernel forget all flows that are stale; tells how many there were, by family.
pub(crate) fn forget_stale(
    conntrack: &mut Conntrack,
    plan: &Plan,
    scope: &Scope,
) -> Result<[u64; 2], ConntrackError> {
    let mut counts = [0; 2];
    for protocol in [Protocol::Udp, Protocol::Sctp] {
        for (family, count) in [Family::V4, Family::V6].into_iter().zip(&mut counts) {
            let stale = conntrack.flows(family, protocol.number(), |flow| {
                scope.is_stale(plan, &view(protocol, flow))
            })?;
            for flow in stale {
                *count += u64::from(conntrack.forget(&flow)?);
            }
        }
    }
    Ok(counts)
}

/// Makes the kernel forget the TCP connections whose time to drain is over; tells how many there were.
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
            count += usize::from(conntrack.forget(&flow)?);
        }
    }
    Ok(count)
}

/// Hands all TCP connections to `each`.
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
        answered_by: flow.reply.source,
    }
}
