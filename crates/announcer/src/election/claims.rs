//! Which addresses this node asks for, which it answers for, and when it announces them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::{Core, Effect, forwarding};
use crate::election::capabilities::Means;
use crate::election::rendezvous;
use crate::election::vote_leases::Voted;
use crate::{ANNOUNCED_AFTER, NodeName, Time};

/// How long an address is asked for in vain before others get a chance: votes may be split between nodes that see
/// different things. Longer than what it takes to be lent the votes of a node that is gone. Up to twice as long, by
/// chance.
const ASKING_PATIENCE: Duration = Duration::from_secs(2);
/// How long it is then not asked for, at most.
const ASKING_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The addresses of this node.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    claimed: BTreeMap<IpAddr, Claim>,
    /// Addresses that are not asked for for a while.
    paused: BTreeMap<IpAddr, Time>,
    /// What is to be announced when.
    announcements: BTreeSet<(Time, IpAddr)>,
    /// The nodes that can answer, this one among them, as of the last look, and what they have.
    available: BTreeMap<NodeName, Means>,
    /// Whether enough members grant votes to this node.
    pub(crate) is_quorate: bool,
    /// Who should have which address is to be found out anew.
    pub(crate) are_stale: bool,
    /// Whether there are votes enough is to be found out anew.
    pub(crate) are_votes_stale: bool,
    /// The own votes are to be asked for anew.
    pub(crate) are_own_votes_stale: bool,
}

#[derive(Debug)]
struct Claim {
    is_held: bool,
    /// The node that should have the address, as far as is known.
    winner: Option<NodeName>,
    gives_up_at: Time,
}

impl Claims {
    pub(crate) fn claimed(&self) -> impl Iterator<Item = IpAddr> {
        self.claimed.keys().copied()
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = IpAddr> {
        let held = self.claimed.iter().filter(|(_, claim)| claim.is_held);
        held.map(|(address, _)| *address)
    }

    pub(crate) fn is_claimed(&self, address: IpAddr) -> bool {
        self.claimed.contains_key(&address)
    }

    pub(crate) fn is_held(&self, address: IpAddr) -> bool {
        self.claimed.get(&address).is_some_and(|claim| claim.is_held)
    }

    fn plan_announcements(&mut self, now: Time, address: IpAddr) {
        let times = ANNOUNCED_AFTER.map(|after| (now + after, address));
        self.announcements.extend(times);
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.announcements.first().map(|(time, _)| *time)
    }
}

impl Core {
    /// The network is to be told of these addresses as when they were taken, those of them that this node answers for: it
    /// answers on other links than before.
    pub fn announce_again(&mut self, now: Time, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            if self.claims.is_held(address) {
                self.claims.plan_announcements(now, address);
            }
        }
        self.settle(now);
    }

    /// Finds out what this node should have and what it has.
    pub(crate) fn settle_claims(&mut self, now: Time) {
        self.look_around(now);
        let paused = self.claims.paused.len();
        self.claims.paused.retain(|_, until| *until > now);
        self.claims.are_stale |= self.claims.paused.len() < paused;
        if std::mem::take(&mut self.claims.are_stale) {
            self.choose(now);
        }
        if std::mem::take(&mut self.claims.are_own_votes_stale) {
            self.ask_self(now);
        }
        if std::mem::take(&mut self.claims.are_votes_stale) {
            self.count_votes(now);
        }
        self.give_others_a_chance(now);
    }

    /// Whether this node has votes enough for an address.
    pub(crate) fn has_votes(&self, now: Time, address: IpAddr) -> bool {
        let Some(record) = self.membership.record() else {
            return false;
        };
        let me = &self.identity.name;
        let has_own = self
            .ballot
            .vote(address)
            .is_some_and(|voted| voted.name == *me && voted.incarnation == self.identity.incarnation);
        let has_vote = |name: &NodeName| {
            if name == me {
                return has_own;
            }
            self.peers
                .get(name)
                .is_some_and(|peer| peer.votes_for(now, address))
        };
        record.is_quorum(has_vote, self.membership.has_witness(now))
    }

    /// Whether this node lets another one have an address that it holds.
    pub(crate) fn gives_way(&self, address: IpAddr, to: &NodeName) -> bool {
        let claim = self.claims.claimed.get(&address);
        claim.is_some_and(|claim| claim.winner.as_ref() == Some(to))
    }

    /// Gives an address and all votes for it back; `to` another node, if it is known which one takes it.
    pub(crate) fn drop_claim(&mut self, now: Time, address: IpAddr, to: Option<&NodeName>) {
        // Whoever is cut off finds that out by this as well.
        let has_votes = self.has_votes(now, address);
        let Some(claim) = self.claims.claimed.remove(&address) else {
            return;
        };
        if claim.is_held {
            self.tenures.end(now, address, has_votes);
            if !self.demand.contains_key(&address) {
                self.tenures.forget_address(address);
            }
            self.lose(address, to);
        }
        for peer in self.peers.values_mut() {
            peer.release(now, address, claim.is_held);
        }
        let me = self.me();
        if let Some(next) = self.ballot.release(now, &me, address) {
            self.lent(now, &next, address);
        }
    }

    /// Tells the network where addresses are, when it is time.
    pub(crate) fn announce(&mut self, now: Time) {
        while let Some((time, address)) = self.claims.announcements.first().copied() {
            if time > now {
                break;
            }
            self.claims.announcements.pop_first();
            self.effects.push(Effect::Announce(address));
        }
    }

    /// Who can answer now; what changed makes claims stale.
    fn look_around(&mut self, now: Time) {
        let is_quorate = self.membership.record().is_some_and(|record| {
            let is_granted = |name: &NodeName| {
                if *name == self.identity.name {
                    return now >= self.quiet_until;
                }
                self.peers.get(name).is_some_and(|peer| peer.has_granted(now))
            };
            record.is_quorum(is_granted, self.membership.has_witness(now))
        });
        if is_quorate != self.claims.is_quorate {
            self.claims.is_quorate = is_quorate;
            self.claims.are_votes_stale = true;
            for peer in self.peers.values_mut() {
                peer.due = now;
            }
        }
        let peers = self.peers.iter().filter(|(_, peer)| peer.is_available(now));
        let peers = peers.map(|(name, peer)| (NodeName::clone(name), peer.means.clone()));
        let myself = (is_quorate && !self.is_leaving)
            .then(|| (NodeName::clone(&self.identity.name), self.means.clone()));
        let available: BTreeMap<NodeName, Means> = peers.chain(myself).collect();
        if available != self.claims.available {
            self.claims.available = available;
            self.claims.are_stale = true;
        }
    }

    /// Finds out for every address who should have it; asks for those of this node.
    fn choose(&mut self, now: Time) {
        let known: BTreeSet<IpAddr> = self.demand.keys().copied().chain(self.claims.claimed()).collect();
        for address in known {
            let winner = self.winner(address).cloned();
            let is_mine = winner.as_ref() == Some(&self.identity.name);
            let gives_up_at = self.patience(now);
            match self.claims.claimed.get_mut(&address) {
                Some(claim) => {
                    // Until another node asks for what it should have, it is better answered for here.
                    let is_kept = is_mine || (claim.is_held && winner.is_some());
                    claim.winner = winner;
                    if !is_kept {
                        self.drop_claim(now, address, None);
                    }
                }
                None if is_mine && !self.claims.paused.contains_key(&address) => {
                    let claim = Claim {
                        is_held: false,
                        winner,
                        gives_up_at,
                    };
                    self.claims.claimed.insert(address, claim);
                    for peer in self.peers.values_mut() {
                        peer.ask(now, address);
                    }
                    self.claims.are_own_votes_stale = true;
                }
                None => {}
            }
        }
    }

    fn winner(&self, address: IpAddr) -> Option<&NodeName> {
        let candidates = self.demand.get(&address)?;
        let needs = &candidates.needs;
        let is_able = |name: &&NodeName| {
            let available = self.claims.available.get(*name);
            available.is_some_and(|means| means.meet(needs))
        };
        rendezvous::winner(address, candidates.preferred.iter().filter(is_able))
            .or_else(|| rendezvous::winner(address, candidates.otherwise.iter().filter(is_able)))
    }

    /// Asks the own ballot, which may have lent the vote to another node.
    fn ask_self(&mut self, now: Time) {
        if now < self.quiet_until {
            self.claims.are_own_votes_stale = true;
            return;
        }
        let me = self.me();
        self.ballot.heard(&me, Time::MAX);
        for address in self.claims.claimed.keys() {
            self.ballot.ask(now, &me, *address);
        }
        self.claims.are_votes_stale = true;
    }

    /// What this node begins and stops to answer for.
    fn count_votes(&mut self, now: Time) {
        let counted: Vec<(IpAddr, bool)> = self
            .claims
            .claimed()
            .map(|address| (address, self.has_votes(now, address)))
            .collect();
        for (address, is_held) in counted {
            let gives_up_at = self.patience(now);
            let Some(claim) = self.claims.claimed.get_mut(&address) else {
                continue;
            };
            if std::mem::replace(&mut claim.is_held, is_held) == is_held {
                continue;
            }
            claim.gives_up_at = gives_up_at;
            if is_held {
                let peers = &self.peers;
                let presence = |voted: &Voted| forwarding::presence_of(peers, now, voted);
                let forgotten = self.tenures.begin(now, address, presence);
                let forget = forgotten.map(|forgotten| Effect::Forget(address, forgotten));
                self.effects
                    .extend(forget.into_iter().chain([Effect::Gained(address)]));
                self.predecessors.take(now, address);
                self.claims.plan_announcements(now, address);
            } else {
                let is_mine = claim.winner.as_ref() == Some(&self.identity.name);
                self.tenures.end(now, address, false);
                self.lose(address, None);
                if !is_mine {
                    self.drop_claim(now, address, None);
                }
            }
        }
    }

    fn lose(&mut self, address: IpAddr, to: Option<&NodeName>) {
        // What a process that ends leads is gone with it.
        self.predecessors
            .give_up(address, to.filter(|_| !self.is_leaving));
        self.claims.announcements.retain(|(_, of)| *of != address);
        self.effects.push(Effect::Lost(address));
    }

    fn patience(&mut self, now: Time) -> Time {
        now + ASKING_PATIENCE.mul_f64(1.0 + self.random.f64())
    }

    /// Stops asking for what was asked for in vain for too long.
    fn give_others_a_chance(&mut self, now: Time) {
        let in_vain = self.claims.claimed.iter().filter(|(_, claim)| !claim.is_held);
        let in_vain = in_vain.filter(|(_, claim)| claim.gives_up_at <= now);
        let in_vain: Vec<IpAddr> = in_vain.map(|(address, _)| *address).collect();
        for address in in_vain {
            self.drop_claim(now, address, None);
            let pause = ASKING_PAUSE_MAX.mul_f64(self.random.f64());
            self.claims.paused.insert(address, now + pause);
        }
    }
}
