//! What can be seen of a core from outside.

use std::net::IpAddr;

use super::Core;
use crate::status::MemberStatus;
use crate::{NodeName, Time};

impl Core {
    /// The members and those who join, by name.
    pub fn members(&self, now: Time) -> Vec<MemberStatus> {
        let Some(record) = self.membership.record() else {
            return Vec::new();
        };
        let members = record.everybody().map(|(name, member)| {
            let is_this = *name == self.identity.name;
            let peer = self.peers.get(name);
            let heard = peer.and_then(|peer| peer.heard);
            let ago = heard.map(|heard| now.saturating_sub(heard.at).as_millis());
            MemberStatus {
                node: NodeName::clone(name),
                address: member.address,
                is_this,
                is_joining: !record.members.contains_key(name),
                heard_milliseconds_ago: ago.map(|ago| u64::try_from(ago).unwrap_or(u64::MAX)),
                is_heard: is_this || peer.is_some_and(|peer| peer.is_heard(now)),
                is_leaving: match is_this {
                    true => self.is_leaving,
                    false => peer.is_some_and(|peer| peer.is_leaving),
                },
            }
        });
        members.collect()
    }

    /// Who answers for an address, as far as this node can know: itself, or the node that it lends its vote to. A node
    /// that this one does not hear is none.
    pub fn owner(&self, now: Time, address: IpAddr) -> Option<&NodeName> {
        if self.may_answer(now, address) {
            return Some(&self.identity.name);
        }
        let voted = &self.ballot.vote(address)?.name;
        (*voted != self.identity.name).then_some(voted)
    }

    /// How many nodes may answer for an address.
    pub fn candidates(&self, address: IpAddr) -> usize {
        let candidates = self.demand.get(&address);
        candidates.map_or(0, |candidates| {
            candidates.preferred.union(&candidates.otherwise).count()
        })
    }
}
