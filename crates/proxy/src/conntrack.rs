//! Taking stale flows from the kernel's memory.

use api::object::Protocol;
use netlink::conntrack::{Conntrack, ConntrackError, Family, Flow as KernelFlow};
use plan::Plan;

use crate::care::{Flow, Scope};

/// Makes the kernel forget all flows that are stale; tells how many there were.
pub(crate) fn forget_stale(
    conntrack: &mut Conntrack,
    plan: &Plan,
    scope: &Scope,
) -> Result<usize, ConntrackError> {
    let mut count = 0;
    for protocol in [Protocol::Udp, Protocol::Sctp] {
        for family in [Family::V4, Family::V6] {
            let stale = conntrack.flows(family, protocol.number(), |flow| {
                scope.is_stale(plan, &view(protocol, flow))
            })?;
            for flow in stale {
                count += usize::from(conntrack.forget(&flow)?);
            }
        }
    }
    Ok(count)
}

fn view(protocol: Protocol, flow: &KernelFlow) -> Flow {
    Flow {
        protocol,
        destination: flow.original.destination,
        answered_by: flow.reply.source,
    }
}
