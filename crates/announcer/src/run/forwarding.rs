//! Letting the kernel lead packets to the nodes that addresses moved away from, and seeing whether they are there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::clock::since_boot;
use netlink::route::Connection;

use super::Announcer;
use crate::NodeName;
use crate::handoff::forwarding::Wanted;
use crate::handoff::next_hop::Way;

impl Announcer {
    /// Says what the kernel lacks, once.
    pub(crate) fn tell_what_cannot_be_led(&self) {
        let refusals: Vec<String> = self
            .leads
            .refusals()
            .map(|(family, why)| format!("{family}: {why}"))
            .collect();
        for refusal in &refusals {
            tracing::warn!(
                refusal,
                "connections do not go on when addresses of the family move as planned; the kernel needs \
                 NFT_DUP_IPV4 and NFT_DUP_IPV6, and the process CAP_NET_ADMIN"
            );
        }
        self.metrics.tell_cannot_lead(refusals);
    }

    /// Lets the kernel lead what the core says, by the links that there are.
    pub(crate) fn lead(&mut self) {
        let wanted = Wanted {
            led: self.ways().map(|(address, _, way)| (address, way)).collect(),
            unsettled: self.core.unsettled().collect(),
            held: self.core.bequest().collect(),
        };
        self.metrics.set_led(wanted.led.len());
        self.leads.lead(since_boot(), &wanted);
    }

    /// Tells where this node takes what is led to it, and looks whether those who are led to still are on their links: the
    /// kernel asks for them as long as something is sent there.
    pub(crate) fn look_after_led(&mut self) {
        self.core.tell_entrances(self.ports.entrances());
        let mut unanswered = BTreeSet::new();
        if self.core.led().next().is_some() {
            match Connection::open().and_then(|mut connection| connection.neighbours()) {
                Ok(neighbours) => {
                    let silent: BTreeSet<_> = neighbours
                        .iter()
                        .filter(|neighbour| neighbour.is_unanswered())
                        .map(|neighbour| (neighbour.link, neighbour.address))
                        .collect();
                    let ways = self
                        .ways()
                        .filter(|(_, _, way)| silent.contains(&(way.link, way.gateway)));
                    unanswered.extend(ways.map(|(_, node, _)| NodeName::clone(node)));
                }
                Err(error) => tracing::debug!(%error, "the neighbours cannot be listed"),
            }
        }
        // Whoever has just been asked for has had no time to answer.
        for node in unanswered.intersection(&self.unanswered) {
            tracing::info!(
                node = &**node,
                "nothing is sent on to the node any more: it does not answer on its link"
            );
            self.core.tell_unreachable(since_boot(), node);
        }
        self.unanswered = unanswered;
        self.lead();
    }

    fn ways(&self) -> impl Iterator<Item = (IpAddr, &NodeName, Way)> {
        self.core.led().filter_map(|(address, node)| {
            let links = self.world.demand.links(address);
            let way = self.ports.way(address, &links, self.core.entrances_of(node))?;
            Some((address, node, way))
        })
    }
}
