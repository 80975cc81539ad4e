//! Forwarding decisions of this node, and its link addresses for forwarded packets.

use std::net::IpAddr;
use std::time::Duration;

use super::state::{Effect, Election};
use super::vote_leases::LeaseHolder;
use crate::handoff::next_hop::LinkAddress;
use crate::{NodeName, Time};

/// Period of liveness checks of the nodes that packets are forwarded to.
const LIVENESS_PERIOD: Duration = Duration::from_secs(1);

impl Election {
    /// Sets the addresses at which this node receives forwarded packets.
    pub(crate) fn set_link_addresses(&mut self, link_addresses: Vec<LinkAddress>) {
        self.node.link_addresses = link_addresses;
    }

    /// Stops forwarding to a node whose host does not answer on the link.
    pub(crate) fn node_unreachable(&mut self, now: Time, node: &NodeName) {
        self.handoff.previous_owners.remove_node(node);
        self.update(now);
    }

    /// Returns the forwarded addresses and the nodes that packets of unknown connections go to.
    pub(crate) fn forwarded(&self) -> impl Iterator<Item = (IpAddr, &NodeName)> {
        self.handoff.previous_owners.forwarded()
    }

    /// Returns the node that packets of unknown connections to an address go to.
    pub(crate) fn forwarded_to(&self, address: IpAddr) -> Option<&NodeName> {
        self.handoff.previous_owners.forwarded_to(address)
    }

    /// Returns the owned addresses without a forwarding decision, whose packets of unknown connections are dropped.
    pub(crate) fn pending(&self) -> impl Iterator<Item = IpAddr> {
        self.handoff.previous_owners.pending()
    }

    /// Returns the addresses at which another node receives forwarded packets.
    pub(crate) fn link_addresses_of(&self, node: &NodeName) -> &[LinkAddress] {
        self.peers.get(node).map_or(&[], |peer| &peer.link_addresses)
    }

    /// Updates the forwarding decisions.
    pub(super) fn update_forwarding(&mut self, now: Time) {
        let (peers, votes, own) = (&self.peers, &self.votes, self.node.name());
        let may_forward = |address: IpAddr, node: &NodeName| {
            // A node stops forwarding to this node before it announces its vote or its shutdown.
            peers.is(node, |peer| peer.is_leaving || peer.votes_for(now, address))
        };
        // A former owner announces its release before it votes for another node. Failed nodes are not waited for.
        let is_attributed = |address: IpAddr| {
            let is_alive = |name: &NodeName| peers.is(name, |peer| peer.is_reachable(now));
            let is_granted = |holder: &LeaseHolder| holder.name != *own && is_alive(&holder.name);
            !votes.holder(address).is_some_and(is_granted)
                && peers
                    .values()
                    .all(|peer| !peer.is_reachable(now) || peer.votes_for(now, address))
        };
        let handoff = &mut self.handoff;
        handoff
            .previous_owners
            .decide_pending(now, may_forward, is_attributed);
        if handoff.next_check <= now {
            handoff.next_check = now + LIVENESS_PERIOD;
            handoff
                .previous_owners
                .expire(now, |node| peers.liveness(now, node));
            handoff
                .history
                .check_chains(now, |process| peers.process_liveness(now, process));
        }
        if handoff.previous_owners.take_changed() {
            self.effects.push(Effect::UpdateForwarding);
        }
    }
}
