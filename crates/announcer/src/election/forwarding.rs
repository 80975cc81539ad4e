//! Which packets this node sends on to whom, and where nodes take such packets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Core, Effect};
use crate::election::peer::Peer;
use crate::election::vote_leases::Voted;
use crate::handoff::next_hop::Entrance;
use crate::handoff::previous_owners::Presence;
use crate::{NodeName, Time};

/// How often it is looked whether those who are led to still live.
const LOOK_AFTER_PERIOD: Duration = Duration::from_secs(1);

impl Core {
    /// Where this node takes packets that others send on to it.
    pub fn tell_entrances(&mut self, entrances: Vec<Entrance>) {
        self.entrances = entrances;
    }

    /// The machine of a node does not answer on the link: nothing is sent on to it.
    pub fn tell_unreachable(&mut self, now: Time, node: &NodeName) {
        self.predecessors.forget_node(node);
        self.settle(now);
    }

    /// Whom packets of connections that are not known here are sent on to, by the address that they are for.
    pub fn led(&self) -> impl Iterator<Item = (IpAddr, &NodeName)> {
        self.predecessors.led()
    }

    /// Whom those for one address are sent on to.
    pub fn led_to(&self, address: IpAddr) -> Option<&NodeName> {
        self.predecessors.led_to(address)
    }

    /// The addresses of this node of which it does not know yet whom to send packets of unknown connections on to: these are
    /// to be dropped for the moment.
    pub fn unsettled(&self) -> impl Iterator<Item = IpAddr> {
        self.predecessors.unsettled()
    }

    /// Where a node takes packets that are sent on to it, if it says so.
    pub fn entrances_of(&self, node: &NodeName) -> &[Entrance] {
        self.peers.get(node).map_or(&[], |peer| &peer.entrances)
    }

    /// Finds out whom to send packets on to.
    pub(crate) fn settle_leads(&mut self, now: Time) {
        let (peers, ballot, me) = (&self.peers, &self.ballot, &self.identity.name);
        let may_lead = |address: IpAddr, node: &NodeName| {
            // A node that lent its vote, or is ending, leads nothing here: it took care of that before it said so.
            let peer = peers.get(node);
            peer.is_some_and(|peer| peer.is_leaving || peer.votes_for(now, address))
        };
        // Who gives an address up says so before it votes for another one. If it is dead, nobody waits for it.
        let is_told = |address: IpAddr| {
            let is_alive = |name: &NodeName| peers.get(name).is_some_and(|peer| peer.is_heard(now));
            let is_lent = |voted: &Voted| voted.name != *me && is_alive(&voted.name);
            !ballot.vote(address).is_some_and(is_lent)
                && peers
                    .values()
                    .all(|peer| !peer.is_heard(now) || peer.votes_for(now, address))
        };
        self.predecessors.follow(now, may_lead, is_told);
        if self.leads_due <= now {
            self.leads_due = now + LOOK_AFTER_PERIOD;
            self.predecessors.expire(now, |node| presence(peers, now, node));
            self.tenures.look(now, |voted| presence_of(peers, now, voted));
        }
        if self.predecessors.take_changed() {
            self.effects.push(Effect::Led);
        }
    }
}

/// How a node is.
fn presence(peers: &BTreeMap<NodeName, Peer>, now: Time, node: &NodeName) -> Presence {
    match peers.get(node) {
        None => Presence::Gone,
        Some(peer) if peer.is_leaving => Presence::Ending,
        Some(peer) => Presence::Silent(peer.silent_for(now)),
    }
}

/// How a process is: gone, too, if another one has its place.
pub(crate) fn presence_of(peers: &BTreeMap<NodeName, Peer>, now: Time, voted: &Voted) -> Presence {
    let peer = peers.get(&voted.name);
    match peer.is_some_and(|peer| peer.is_process(voted.incarnation)) {
        true => presence(peers, now, &voted.name),
        false => Presence::Gone,
    }
}
