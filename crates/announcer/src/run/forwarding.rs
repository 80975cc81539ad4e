//! Control of the forwarding tables: writes the desired state of the election to nftables, and observes the liveness
//! of the next hops.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::clock::since_boot;
use netlink::route::Connection;

use crate::desired_announcements::DesiredAnnouncements;
use crate::election::Election;
use crate::handoff::forwarding::{ConnectionForwarding, ForwardingState};
use crate::handoff::next_hop::NextHop;
use crate::l2::sockets::LinkSockets;
use crate::metrics::Metrics;
use crate::{NodeName, Time};

/// Forwarding tables and the last check of their next hops.
pub(crate) struct ForwardingControl {
    tables: ConnectionForwarding,
    /// Nodes that did not answer on their links at the last check.
    unanswered: BTreeSet<NodeName>,
}

impl ForwardingControl {
    /// Starts the tables and reports missing kernel support.
    pub(crate) fn start(now: Time, metrics: &Metrics) -> Self {
        let tables = ConnectionForwarding::start(now);
        let unsupported: Vec<String> = tables
            .unsupported()
            .map(|(family, reason)| format!("{family}: {reason}"))
            .collect();
        for reason in &unsupported {
            tracing::warn!(
                reason,
                "forwarding not available; connections break when addresses of the family move as planned; the kernel needs NFT_DUP_IPV4 \
                 and NFT_DUP_IPV6, and the process CAP_NET_ADMIN"
            );
        }
        metrics.set_forwarding_unavailable(unsupported);
        Self {
            tables,
            unanswered: BTreeSet::new(),
        }
    }

    /// Returns the addresses that a killed process owned.
    pub(crate) fn recovered(&self) -> impl Iterator<Item = IpAddr> {
        self.tables.recovered().iter().copied()
    }

    /// Writes the forwarding state of the election to the kernel.
    pub(crate) fn apply(
        &mut self,
        election: &Election,
        sockets: &LinkSockets,
        desired: &DesiredAnnouncements,
        metrics: &Metrics,
    ) {
        let next_hops = next_hops(election, sockets, desired);
        let state = ForwardingState {
            forwarded: next_hops.map(|(address, _, hop)| (address, hop)).collect(),
            pending: election.pending().collect(),
            held: election.persisted_addresses().collect(),
        };
        metrics.set_forwarded(state.forwarded.len());
        self.tables.apply(since_boot(), &state);
    }

    /// Returns the nodes that did not answer neighbour discovery in two successive checks. The kernel probes
    /// them while it forwards packets.
    pub(crate) fn unreachable_nodes(
        &mut self,
        election: &Election,
        sockets: &LinkSockets,
        desired: &DesiredAnnouncements,
    ) -> Vec<NodeName> {
        let mut unanswered = BTreeSet::new();
        if election.forwarded().next().is_some() {
            match Connection::open().and_then(|mut connection| connection.neighbours()) {
                Ok(neighbours) => {
                    let unanswered_neighbours: BTreeSet<_> = neighbours
                        .iter()
                        .filter(|neighbour| neighbour.is_unanswered())
                        .map(|neighbour| (neighbour.link, neighbour.address))
                        .collect();
                    let hops = next_hops(election, sockets, desired)
                        .filter(|(_, _, hop)| unanswered_neighbours.contains(&(hop.link, hop.gateway)));
                    unanswered.extend(hops.map(|(_, node, _)| NodeName::clone(node)));
                }
                Err(error) => tracing::debug!(%error, "neighbours not listed"),
            }
        }
        // A node that was probed just now had no time to answer.
        let unreachable = unanswered.intersection(&self.unanswered).cloned().collect();
        self.unanswered = unanswered;
        unreachable
    }

    /// Deletes the tables: see [`ConnectionForwarding::delete`].
    pub(crate) fn delete(&mut self) {
        self.tables.delete();
    }
}

fn next_hops<'e>(
    election: &'e Election,
    sockets: &'e LinkSockets,
    desired: &'e DesiredAnnouncements,
) -> impl Iterator<Item = (IpAddr, &'e NodeName, NextHop)> {
    election.forwarded().filter_map(|(address, node)| {
        let links = desired.links(address);
        let hop = sockets.next_hop(address, &links, election.link_addresses_of(node))?;
        Some((address, node, hop))
    })
}
