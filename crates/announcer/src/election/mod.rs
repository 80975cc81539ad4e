//! The state machine of a node: messages, news of the API and moments in; messages and addresses to answer for out.
//!
//! Two leases make it safe. A member that hears a probe lends its votes to the prober until [`FENCE`] later on its own
//! clock, and says in its next message that it does; the prober uses the votes until [`VOTE_LASTS`] after *it sent* that
//! probe, on its own clock. That is over earlier, whatever the network did in between. A process that starts lends
//! nothing for one fence interval, since it does not know what the one before it had lent.
//!
//! Which node asks for an address follows from what it sees ([`crate::election::rendezvous`]). Nodes that see different things may
//! both ask; the votes say who gets it. Who has an address keeps it until the node that should have it asks. Nodes that lack
//! what an address needs ([`crate::election::capabilities`]) are passed over by all that know it, themselves first of all.
//!
//! Who gives an address up that it answered for says so to all, and who takes it leads to that node what it does not know
//! ([`crate::handoff::previous_owners`]).

pub(crate) mod capabilities;
mod claims;
mod exchange;
mod forwarding;
mod inspection;
mod membership;
pub(crate) mod membership_store;
mod peer;
pub mod rendezvous;
pub(crate) mod vote_leases;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::announcers::{Member, Process, PublicKey, Record};

use crate::election::capabilities::{Means, Needs};
use crate::election::peer::Peer;
use crate::election::vote_leases::{Ballot, Voted};
use crate::handoff::next_hop::Entrance;
use crate::handoff::ownership_history::{Forgotten, Tenures};
use crate::handoff::previous_owners::Predecessors;
use crate::protocol::message::{Echo, Message};
use crate::{FENCE, NodeName, Time};

pub use membership::{Write, Written};

/// How long a member that knows a new list of members goes on lending votes to nodes that know an older one: what news
/// of the API may take.
const EPOCH_PATIENCE: Duration = Duration::from_secs(2);
/// The core is to be asked this often at least: proposals to the API depend on how long things are as they are.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// Who this node is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The Node.
    pub name: NodeName,
    /// A number that no other process of the node ever had.
    pub incarnation: u64,
    /// Where probes reach it, and come from.
    pub address: SocketAddr,
    /// The public half of the process's key pair.
    pub public_key: PublicKey,
    /// The cluster, if this node founds it: 16 random bytes in hexadecimal digits.
    pub new_cluster: String,
    /// Where the randomness of pauses comes from.
    pub seed: u64,
}

impl Identity {
    /// The node's entry in the record.
    fn member(&self) -> Member {
        Member {
            address: self.address,
            process: Some(Process {
                incarnation: self.incarnation,
                public_key: self.public_key,
            }),
        }
    }
}

/// Which nodes may answer for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Those of which one does, if any is there.
    pub preferred: BTreeSet<NodeName>,
    /// Those of which one does otherwise: cordoned ones.
    pub otherwise: BTreeSet<NodeName>,
    /// What it takes besides.
    pub needs: Needs,
}

/// What the core wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A message is to be sent. Losing it is no harm.
    Send(SocketAddr, Message),
    /// This node answers for the address from now on.
    Gained(IpAddr),
    /// It does not any more.
    Lost(IpAddr),
    /// The network is to be told that the address is here.
    Announce(IpAddr),
    /// The kernel is to forget connections to the address. The network is not to be told of the address before these are
    /// found: those that are opened from then on are none of them.
    Forget(IpAddr, Forgotten),
    /// Packets are to be sent on to others than before, or dropped ([`Core::led`], [`Core::unsettled`]). It is to be so before
    /// any message of the same time goes out: others rely on what these say.
    Led,
}

/// A node.
#[derive(Debug)]
pub struct Core {
    identity: Identity,
    random: fastrand::Rng,
    /// Until then no votes are lent.
    quiet_until: Time,
    last_stamp: u64,
    is_leaving: bool,
    means: Means,
    entrances: Vec<Entrance>,
    predecessors: Predecessors,
    tenures: Tenures,
    /// When it is looked next whether those who are led to still live.
    leads_due: Time,
    ballot: Ballot,
    peers: BTreeMap<NodeName, Peer>,
    /// The messages that came last from nodes that are not on the list any more: if they come back, copies of earlier ones
    /// are no news.
    former_peers: BTreeMap<NodeName, Echo>,
    demand: BTreeMap<IpAddr, Arc<Candidates>>,
    claims: claims::Claims,
    membership: membership::Membership,
    effects: Vec<Effect>,
}

impl Core {
    /// A process that starts now.
    pub fn new(identity: Identity, now: Time) -> Self {
        Self {
            random: fastrand::Rng::with_seed(identity.seed),
            identity,
            quiet_until: now + FENCE,
            last_stamp: 0,
            is_leaving: false,
            means: Means::default(),
            entrances: Vec::new(),
            predecessors: Predecessors::default(),
            tenures: Tenures::default(),
            leads_due: now,
            ballot: Ballot::default(),
            peers: BTreeMap::new(),
            former_peers: BTreeMap::new(),
            demand: BTreeMap::new(),
            claims: claims::Claims::default(),
            membership: membership::Membership::default(),
            effects: Vec::new(),
        }
    }

    /// The process before this one ended without giving these addresses up, which it answered for.
    pub fn inherit(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.tenures.inherit(addresses);
    }

    /// The addresses that a process after this one is to inherit if this one is killed.
    pub fn bequest(&self) -> impl Iterator<Item = IpAddr> {
        self.tenures.bequest()
    }

    /// Who may answer for addresses; `None` if nobody is to any more.
    pub fn tell_demand(
        &mut self,
        now: Time,
        news: impl IntoIterator<Item = (IpAddr, Option<Arc<Candidates>>)>,
    ) {
        for (address, candidates) in news {
            match candidates {
                Some(candidates) => self.demand.insert(address, candidates),
                None => {
                    self.predecessors.forget_address(address);
                    self.tenures.forget_address(address);
                    self.demand.remove(&address)
                }
            };
            self.claims.are_stale = true;
        }
        self.settle(now);
    }

    /// What this node has. Others are told at once.
    pub fn tell_means(&mut self, now: Time, means: Means) {
        if self.means == means {
            return;
        }
        self.means = means;
        for peer in self.peers.values_mut() {
            peer.due = now;
        }
        self.settle(now);
    }

    /// This process is about to end: others are to take its addresses.
    pub fn leave(&mut self, now: Time) {
        self.is_leaving = true;
        let claims = &self.claims;
        self.predecessors.keep_only(|address| claims.is_held(address));
        self.claims.are_stale = true;
        for peer in self.peers.values_mut() {
            peer.due = now;
        }
        self.settle(now);
    }

    /// Gives up what is left, at the very end.
    pub fn give_up(&mut self, now: Time) {
        self.demand.clear();
        self.claims.are_stale = true;
        self.settle(now);
    }

    /// Time passed. To be called at [`Core::next_wake`] at the latest.
    pub fn tick(&mut self, now: Time) {
        self.settle(now);
    }

    /// When something is to be done if nothing happens.
    pub fn next_wake(&self, now: Time) -> Time {
        // What is due is due at once if its time has passed: datagrams that are dropped settle nothing.
        let due = self.peers.values().map(|peer| peer.due.max(now));
        let peers = self.peers.values();
        let of_peers = peers
            .flat_map(|peer| [peer.lapses_at(), peer.suspected_at()])
            .flatten();
        of_peers
            .chain(self.ballot.next_expiry())
            .chain(self.claims.next_wake())
            .chain([self.quiet_until])
            .filter(|time| *time > now)
            .chain(due)
            .fold(now + LOOK_PERIOD, Time::min)
    }

    /// Whether this node may answer for an address at this very moment. To be asked with a fresh `now` before each answer.
    pub fn may_answer(&self, now: Time, address: IpAddr) -> bool {
        self.claims.is_held(address) && self.has_votes(now, address)
    }

    /// The addresses that this node answers for.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> {
        self.claims.held()
    }

    /// The list of members, as far as it is known.
    pub fn record(&self) -> Option<&Record> {
        self.membership.record()
    }

    /// Whether enough members hear this node that it could get votes.
    pub fn is_quorate(&self) -> bool {
        self.claims.is_quorate
    }

    /// Whether every member that is heard knows of all addresses that this node gave up.
    pub fn is_all_told(&self, now: Time) -> bool {
        let mut heard = self.peers.values().filter(|peer| peer.is_heard(now));
        heard.all(|peer| !peer.is_releasing())
    }

    /// What is to be done since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn me(&self) -> Voted {
        Voted {
            name: NodeName::clone(&self.identity.name),
            incarnation: self.identity.incarnation,
        }
    }

    /// Draws all conclusions; every input ends here.
    fn settle(&mut self, now: Time) {
        self.expire(now);
        self.settle_membership(now);
        self.settle_claims(now);
        self.settle_leads(now);
        self.announce(now);
        self.send_due(now);
    }
}
