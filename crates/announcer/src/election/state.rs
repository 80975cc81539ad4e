//! State of a node in the election, and its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::announcers::{Member, Process, PublicKey, Record};

use super::capabilities::{NodeCapabilities, Requirements};
use super::claims::Claims;
use super::membership::Membership;
use super::peers::PeerTable;
use super::vote_leases::{LeaseHolder, VoteLedger};
use crate::handoff::Handoff;
use crate::handoff::next_hop::LinkAddress;
use crate::handoff::ownership_history::ConntrackFlush;
use crate::protocol::message::{Message, Timestamp};
use crate::{FENCING_INTERVAL, NodeName, Time};

/// Maximum time between two ticks: proposals to the API depend on the age of conditions.
const TICK_PERIOD: Duration = Duration::from_millis(250);

/// Identity of this process.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Name of the Node.
    pub(crate) name: NodeName,
    /// Random number that no other process of the node has used.
    pub(crate) incarnation: u64,
    /// Address of the UDP socket for probes.
    pub(crate) address: SocketAddr,
    /// Public key of the process.
    pub(crate) public_key: PublicKey,
    /// Identifier for the cluster if this node founds it: 16 random bytes in hexadecimal digits.
    pub(crate) new_cluster: String,
    /// Seed of the random delays.
    pub(crate) seed: u64,
}

/// Nodes that may announce an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// Candidates of first choice.
    pub(crate) preferred: BTreeSet<NodeName>,
    /// Candidates if no preferred one is available: cordoned nodes.
    pub(crate) fallback: BTreeSet<NodeName>,
    /// Required capabilities.
    pub(crate) requirements: Requirements,
}

/// Action that the election requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send a message. Its loss is harmless.
    Send(SocketAddr, Message),
    /// This node owns the address from now on.
    Acquired(IpAddr),
    /// This node no longer owns the address.
    Lost(IpAddr),
    /// Send gratuitous announcements of the address.
    Announce(IpAddr),
    /// Flush conntrack entries of the address. They have to be collected before the address is announced:
    /// connections that are opened from then on are not stale.
    FlushConntrack(IpAddr, ConntrackFlush),
    /// Apply [`Election::forwarded`] and [`Election::pending`] to the kernel, before any message of the same
    /// batch is sent: other nodes rely on it.
    UpdateForwarding,
}

/// State of this node itself.
#[derive(Debug)]
pub(crate) struct LocalNode {
    pub(super) identity: Identity,
    pub(super) capabilities: NodeCapabilities,
    pub(super) link_addresses: Vec<LinkAddress>,
    pub(super) is_leaving: bool,
    /// End of the first fencing interval, in which this process grants no votes.
    pub(super) grants_votes_from: Time,
    /// Time until which votes of the predecessor may be in use, if it reported that.
    predecessor_votes_until: Option<Time>,
    last_timestamp: u64,
}

impl LocalNode {
    pub(super) fn name(&self) -> &NodeName {
        &self.identity.name
    }

    /// Returns this process as a holder of votes.
    pub(super) fn holder(&self) -> LeaseHolder {
        LeaseHolder {
            name: NodeName::clone(&self.identity.name),
            incarnation: self.identity.incarnation,
        }
    }

    /// Returns the entry of this node in the member list.
    pub(super) fn member(&self) -> Member {
        Member {
            address: self.identity.address,
            process: Some(Process {
                incarnation: self.identity.incarnation,
                public_key: self.identity.public_key,
            }),
        }
    }

    /// Returns the name of this process as the holder of the tie-breaker vote.
    pub(super) fn tie_breaker_holder(&self) -> String {
        format!("{}/{:016x}", self.identity.name, self.identity.incarnation)
    }

    /// Returns the timestamp of the next message, greater than all earlier ones.
    pub(super) fn next_timestamp(&mut self, now: Time) -> Timestamp {
        let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.last_timestamp = nanoseconds.max(self.last_timestamp + 1);
        Timestamp(self.last_timestamp)
    }
}

/// Participation of a node in the election.
#[derive(Debug)]
pub(crate) struct Election {
    pub(super) node: LocalNode,
    pub(super) random: fastrand::Rng,
    pub(super) peers: PeerTable,
    pub(super) votes: VoteLedger,
    pub(super) candidates: BTreeMap<IpAddr, Arc<Candidates>>,
    pub(super) claims: Claims,
    pub(super) membership: Membership,
    pub(super) handoff: Handoff,
    pub(super) effects: Vec<Effect>,
}

impl Election {
    /// Creates the state of a process that starts now.
    pub(crate) fn new(identity: Identity, now: Time) -> Self {
        Self {
            random: fastrand::Rng::with_seed(identity.seed),
            node: LocalNode {
                identity,
                capabilities: NodeCapabilities::default(),
                link_addresses: Vec::new(),
                is_leaving: false,
                grants_votes_from: now + FENCING_INTERVAL,
                predecessor_votes_until: None,
                last_timestamp: 0,
            },
            peers: PeerTable::default(),
            votes: VoteLedger::default(),
            candidates: BTreeMap::new(),
            claims: Claims::default(),
            membership: Membership::default(),
            handoff: Handoff::new(now),
            effects: Vec::new(),
        }
    }

    /// Restores the addresses that a killed process owned.
    pub(crate) fn restore_after_crash(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.handoff.history.restore_after_crash(addresses);
    }

    /// Takes over from a predecessor that ended in order: `votes_until` is the time until which its votes may be in use.
    pub(crate) fn succeed(&mut self, votes_until: Time) {
        self.node.predecessor_votes_until = Some(votes_until);
    }

    /// Returns the time until which votes of this process, or of its predecessors, may be in use by other nodes.
    pub(crate) fn votes_until(&self) -> Time {
        let granted = self.votes.granted_until(&self.node.holder());
        self.node.grants_votes_from.max(granted)
    }

    /// Returns true if no other node uses a vote of this process or of its predecessors. Another node receives such a
    /// vote only after a change of the member list.
    pub(crate) fn is_free_of_votes(&self, now: Time) -> bool {
        self.is_alone() && self.votes_until() <= now
    }

    /// Returns true if the member list has no other node, and is known.
    fn is_alone(&self) -> bool {
        let own = self.node.name();
        let record = self.membership.record();
        record.is_some_and(|record| record.members_and_joining().all(|(name, _)| name == own))
    }

    /// Ends the fencing interval of a node that is alone as soon as the votes of its predecessors are free. With other
    /// members, the interval is also the time in which their probes arrive.
    pub(super) fn shorten_fencing(&mut self) {
        let reported = self.node.predecessor_votes_until.take();
        let votes_until = if self.has_always_been_alone() {
            Some(Time::ZERO)
        } else {
            reported.filter(|_| self.is_alone())
        };
        if let Some(votes_until) = votes_until {
            self.node.grants_votes_from = self.node.grants_votes_from.min(votes_until);
        }
    }

    /// Returns true if no predecessor of this process has granted a vote that another node may use. Nodes grant votes to
    /// nodes of their list only, and found a list when their earlier votes are free.
    fn has_always_been_alone(&self) -> bool {
        let record = self.membership.record();
        record.is_some_and(|record| record.never_had_other_than(self.node.name()))
    }

    /// Returns the addresses that the next process restores if this one is killed.
    pub(crate) fn persisted_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.handoff.history.persisted_addresses()
    }

    /// Sets the candidates of addresses; `None` removes an address.
    pub(crate) fn set_candidates(
        &mut self,
        now: Time,
        changes: impl IntoIterator<Item = (IpAddr, Option<Arc<Candidates>>)>,
    ) {
        for (address, candidates) in changes {
            match candidates {
                Some(candidates) => self.candidates.insert(address, candidates),
                None => {
                    self.handoff.remove_address(address);
                    self.candidates.remove(&address)
                }
            };
            self.claims.are_stale = true;
        }
        self.update(now);
    }

    /// Sets the capabilities of this node. Peers receive changes at once.
    pub(crate) fn set_capabilities(&mut self, now: Time, capabilities: NodeCapabilities) {
        if self.node.capabilities == capabilities {
            return;
        }
        self.node.capabilities = capabilities;
        self.peers.probe_all(now);
        self.update(now);
    }

    /// Starts the shutdown: other nodes take over the addresses.
    pub(crate) fn leave(&mut self, now: Time) {
        self.node.is_leaving = true;
        let claims = &self.claims;
        self.handoff
            .previous_owners
            .retain_owned(|address| claims.is_owned(address));
        self.claims.are_stale = true;
        self.peers.probe_all(now);
        self.update(now);
    }

    /// Releases all remaining addresses at the end of the shutdown.
    pub(crate) fn give_up(&mut self, now: Time) {
        self.candidates.clear();
        self.claims.are_stale = true;
        self.update(now);
    }

    /// Advances the time. The driver calls it at [`Election::next_wake`] at the latest.
    pub(crate) fn tick(&mut self, now: Time) {
        self.update(now);
    }

    /// Returns the time of the next tick.
    pub(crate) fn next_wake(&self, now: Time) -> Time {
        // Overdue probes are due now: dropped datagrams do not settle anything.
        let due = self.peers.values().map(|peer| peer.next_probe.max(now));
        let deadlines = self
            .peers
            .values()
            .flat_map(|peer| [peer.lease_expires_at(), peer.suspected_at()])
            .flatten();
        deadlines
            .chain(self.votes.next_expiry())
            .chain(self.claims.next_announcement())
            .chain([self.node.grants_votes_from])
            .filter(|time| *time > now)
            .chain(due)
            .fold(now + TICK_PERIOD, Time::min)
    }

    /// Returns true if this node owns an address at this very moment. Requires a fresh `now` before each reply.
    pub(crate) fn may_answer(&self, now: Time, address: IpAddr) -> bool {
        self.claims.is_owned(address) && self.has_votes(now, address)
    }

    /// Returns the addresses that this node owns.
    pub(crate) fn owned(&self) -> impl Iterator<Item = IpAddr> {
        self.claims.owned()
    }

    /// Returns the member list, if it is known.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.membership.record()
    }

    /// Returns true if a majority of the members leases votes to this node.
    pub(crate) fn is_quorate(&self) -> bool {
        self.claims.is_quorate
    }

    /// Returns true if all reachable members have confirmed all released addresses.
    pub(crate) fn is_release_confirmed(&self, now: Time) -> bool {
        let mut reachable = self.peers.values().filter(|peer| peer.is_reachable(now));
        reachable.all(|peer| !peer.is_releasing())
    }

    /// Returns the effects since the last call.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Derives all consequences of an input; every input ends here.
    pub(super) fn update(&mut self, now: Time) {
        self.expire(now);
        self.update_membership(now);
        self.update_claims_and_ownership(now);
        self.update_forwarding(now);
        self.queue_announcements(now);
        self.send_due(now);
    }
}
