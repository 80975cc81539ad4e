//! Views of the election for status reports.

use std::net::IpAddr;

use super::state::Election;
use crate::status::MemberStatus;
use crate::{NodeName, Time};

impl Election {
    /// Returns the members and the joining nodes.
    pub(crate) fn members(&self, now: Time) -> Vec<MemberStatus> {
        let Some(record) = self.membership.record() else {
            return Vec::new();
        };
        let members = record.members_and_joining().map(|(name, member)| {
            let is_own = name == self.node.name();
            let peer = self.peers.get(name);
            let last_probe = peer.and_then(|peer| peer.last_probe);
            let age = last_probe.map(|probe| now.saturating_sub(probe.at).as_millis());
            MemberStatus {
                node: NodeName::clone(name),
                address: member.address,
                is_this: is_own,
                is_joining: !record.members.contains_key(name),
                probe_age_milliseconds: age.map(|age| u64::try_from(age).unwrap_or(u64::MAX)),
                is_reachable: is_own || peer.is_some_and(|peer| peer.is_reachable(now)),
                is_leaving: if is_own {
                    self.node.is_leaving
                } else {
                    peer.is_some_and(|peer| peer.is_leaving)
                },
            }
        });
        members.collect()
    }

    /// Returns the owner of an address in the view of this node: itself, or the reachable holder of its vote.
    pub(crate) fn owner(&self, now: Time, address: IpAddr) -> Option<&NodeName> {
        if self.may_answer(now, address) {
            return Some(self.node.name());
        }
        let holder = &self.votes.holder(address)?.name;
        (holder != self.node.name()).then_some(holder)
    }

    /// Returns the number of nodes that may announce an address.
    pub(crate) fn candidate_count(&self, address: IpAddr) -> usize {
        let candidates = self.candidates.get(&address);
        candidates.map_or(0, |candidates| {
            candidates.preferred.union(&candidates.fallback).count()
        })
    }
}
