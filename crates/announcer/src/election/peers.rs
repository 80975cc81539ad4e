//! The other members of the cluster.

use std::collections::BTreeMap;

use api::announcers::Record;

use super::peer::Peer;
use super::vote_leases::LeaseHolder;
use crate::handoff::previous_owners::Liveness;
use crate::protocol::message::Echo;
use crate::{MEMBERS_MAX, NodeName, Time};

/// Maximum number of removed members whose last message is kept. Each one is a deleted Node.
const FORMER_PEERS_MAX: usize = 4 * MEMBERS_MAX;

/// Members other than this node.
#[derive(Debug, Default)]
pub(super) struct PeerTable {
    peers: BTreeMap<NodeName, Peer>,
    /// Last messages of removed members: if a member returns, replays of earlier messages are rejected.
    former: BTreeMap<NodeName, Echo>,
}

impl PeerTable {
    pub(super) fn get(&self, name: &NodeName) -> Option<&Peer> {
        self.peers.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &NodeName) -> Option<&mut Peer> {
        self.peers.get_mut(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeName, &Peer)> {
        self.peers.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&NodeName, &mut Peer)> {
        self.peers.iter_mut()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.values_mut()
    }

    /// Schedules a probe to each peer for now.
    pub(super) fn probe_all(&mut self, now: Time) {
        for peer in self.peers.values_mut() {
            peer.next_probe = now;
        }
    }

    /// Returns true if a peer satisfies a condition; false for other names.
    pub(super) fn is(&self, name: &NodeName, condition: impl FnOnce(&Peer) -> bool) -> bool {
        self.peers.get(name).is_some_and(condition)
    }

    /// Returns the liveness of a node.
    pub(super) fn liveness(&self, now: Time, node: &NodeName) -> Liveness {
        match self.peers.get(node) {
            None => Liveness::Removed,
            Some(peer) if peer.is_leaving => Liveness::Leaving,
            Some(peer) => Liveness::WithoutMessage(peer.time_since_probe(now)),
        }
    }

    /// Returns the liveness of a process. A process that another one has replaced counts as removed.
    pub(super) fn process_liveness(&self, now: Time, process: &LeaseHolder) -> Liveness {
        if self.is(&process.name, |peer| peer.is_process(process.incarnation)) {
            self.liveness(now, &process.name)
        } else {
            Liveness::Removed
        }
    }

    /// Adopts the member list; `own` is this node. `init` prepares new peers.
    pub(super) fn update(
        &mut self,
        now: Time,
        record: Option<&Record>,
        own: &NodeName,
        mut init: impl FnMut(&mut Peer),
    ) {
        let former = &mut self.former;
        self.peers.retain(|name, peer| {
            let is_listed = record.is_some_and(|record| record.member(name).is_some());
            if let Some(last) = peer.last_message().filter(|_| !is_listed) {
                former.insert(NodeName::clone(name), last);
            }
            is_listed
        });
        while self.former.len() > FORMER_PEERS_MAX {
            self.former.pop_first();
        }
        let members = record.into_iter().flat_map(Record::members_and_joining);
        for (name, member) in members.filter(|(name, _)| *name != own) {
            let last = self.former.remove(name);
            let peer = self.peers.entry(NodeName::clone(name)).or_insert_with(|| {
                let mut peer = Peer::new(member, last, now);
                init(&mut peer);
                peer
            });
            peer.update(member);
        }
    }
}
