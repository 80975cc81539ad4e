//! Claims of addresses, and ownership by votes.
//!
//! A node claims an address if it is the preferred owner among the available candidates. It owns the address while a
//! majority of the members votes for it. An owner that is no longer preferred keeps the address until the preferred
//! owner requests it, so that the address is always announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::capabilities::NodeCapabilities;
use super::claims::AddressClaim;
use super::rendezvous;
use super::state::{Effect, Election};
use super::vote_leases::LeaseHolder;
use crate::{NodeName, Time};

/// Minimum lifetime of a claim without ownership, up to twice as long at random. Votes may be split between
/// nodes with different views, and a withdrawn claim gives another node the chance of a majority. It exceeds
/// the time after which the votes of a failed node are free.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum pause after a withdrawn claim.
const CLAIM_PAUSE_MAX: Duration = Duration::from_secs(1);

impl Election {
    /// Schedules announcements of owned addresses whose links changed. Other addresses are ignored.
    pub(crate) fn announce_again(&mut self, now: Time, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            if self.claims.is_owned(address) {
                self.claims.schedule_announcements(now, address);
            }
        }
        self.update(now);
    }

    /// Updates claims and ownership.
    pub(super) fn update_claims_and_ownership(&mut self, now: Time) {
        self.update_available(now);
        let paused = self.claims.paused.len();
        self.claims.paused.retain(|_, until| *until > now);
        self.claims.are_stale |= self.claims.paused.len() < paused;
        if std::mem::take(&mut self.claims.are_stale) {
            self.update_claims(now);
        }
        if std::mem::take(&mut self.claims.are_own_votes_stale) {
            self.request_own_votes(now);
        }
        if std::mem::take(&mut self.claims.are_votes_stale) {
            self.count_votes(now);
        }
        self.withdraw_expired_claims(now);
    }

    /// Returns true if this node holds a majority of the votes for an address.
    pub(super) fn has_votes(&self, now: Time, address: IpAddr) -> bool {
        let Some(record) = self.membership.record() else {
            return false;
        };
        let own = self.node.name();
        let has_own_vote = self.votes.holder(address).is_some_and(|holder| {
            holder.name == *own && holder.incarnation == self.node.identity.incarnation
        });
        let has_vote = |name: &NodeName| {
            if name == own {
                return has_own_vote;
            }
            self.peers.is(name, |peer| peer.votes_for(now, address))
        };
        record.is_quorum(has_vote, self.membership.has_tie_breaker(now))
    }

    /// Withdraws a claim and returns all votes for the address; `to` is the next owner, if it is known.
    pub(super) fn withdraw_claim(&mut self, now: Time, address: IpAddr, to: Option<&NodeName>) {
        // A node without connection to the others detects its loss here too: its votes have expired.
        let has_votes = self.has_votes(now, address);
        let Some(claim) = self.claims.by_address.remove(&address) else {
            return;
        };
        if claim.is_owned {
            self.handoff.history.end(now, address, has_votes);
            if !self.candidates.contains_key(&address) {
                self.handoff.history.remove_address(address);
            }
            self.record_loss(address, to);
        }
        for peer in self.peers.values_mut() {
            peer.release_vote(now, address, claim.is_owned);
        }
        let own = self.node.holder();
        if let Some(next) = self.votes.release(now, &own, address) {
            self.vote_granted(now, &next, address);
        }
    }

    /// Queues the announcements that are due.
    pub(super) fn queue_announcements(&mut self, now: Time) {
        let due = self.claims.take_due_announcements(now);
        self.effects.extend(due.into_iter().map(Effect::Announce));
    }

    /// Updates the available nodes. A change makes the claims stale.
    fn update_available(&mut self, now: Time) {
        let own = self.node.name();
        let is_quorate = self.membership.record().is_some_and(|record| {
            let has_lease = |name: &NodeName| {
                if name == own {
                    return now >= self.node.grants_votes_from;
                }
                self.peers.is(name, |peer| peer.has_lease(now))
            };
            record.is_quorum(has_lease, self.membership.has_tie_breaker(now))
        });
        if is_quorate != self.claims.is_quorate {
            self.claims.is_quorate = is_quorate;
            self.claims.are_votes_stale = true;
            self.peers.probe_all(now);
        }
        let peers = self.peers.iter().filter(|(_, peer)| peer.is_available(now));
        let peers = peers.map(|(name, peer)| (NodeName::clone(name), peer.capabilities.clone()));
        let own = (is_quorate && !self.node.is_leaving)
            .then(|| (NodeName::clone(self.node.name()), self.node.capabilities.clone()));
        let available: BTreeMap<NodeName, NodeCapabilities> = peers.chain(own).collect();
        if available != self.claims.available {
            self.claims.available = available;
            self.claims.are_stale = true;
        }
    }

    /// Computes the preferred owner of each address. Claims the addresses that prefer this node, and withdraws the
    /// other claims.
    fn update_claims(&mut self, now: Time) {
        let candidates = self.candidates.keys().copied();
        let known: BTreeSet<IpAddr> = candidates.chain(self.claims.claimed()).collect();
        for address in known {
            let preferred_owner = self.preferred_owner(address).cloned();
            let is_own = preferred_owner.as_ref() == Some(self.node.name());
            let expires_at = self.claim_deadline(now);
            match self.claims.by_address.get_mut(&address) {
                Some(claim) => {
                    // An owner keeps the address until the preferred owner requests it, so that it is always announced.
                    let is_kept = is_own || (claim.is_owned && preferred_owner.is_some());
                    claim.preferred_owner = preferred_owner;
                    if !is_kept {
                        self.withdraw_claim(now, address, None);
                    }
                }
                None if is_own && !self.claims.paused.contains_key(&address) => {
                    let claim = AddressClaim {
                        is_owned: false,
                        preferred_owner,
                        expires_at,
                    };
                    self.claims.by_address.insert(address, claim);
                    for peer in self.peers.values_mut() {
                        peer.request_vote(now, address);
                    }
                    self.claims.are_own_votes_stale = true;
                }
                None => {}
            }
        }
    }

    /// Returns the preferred owner of an address among the available nodes with the required capabilities.
    fn preferred_owner(&self, address: IpAddr) -> Option<&NodeName> {
        let candidates = self.candidates.get(&address)?;
        let requirements = &candidates.requirements;
        let is_able = |name: &&NodeName| {
            let available = self.claims.available.get(*name);
            available.is_some_and(|capabilities| capabilities.satisfy(requirements))
        };
        rendezvous::winner(address, candidates.preferred.iter().filter(is_able))
            .or_else(|| rendezvous::winner(address, candidates.fallback.iter().filter(is_able)))
    }

    /// Requests the votes of this node itself, which another node may hold.
    fn request_own_votes(&mut self, now: Time) {
        if now < self.node.grants_votes_from {
            self.claims.are_own_votes_stale = true;
            return;
        }
        let own = self.node.holder();
        self.votes.renew(&own, Time::MAX);
        for address in self.claims.claimed() {
            self.votes.request(now, &own, address);
        }
        self.claims.are_votes_stale = true;
    }

    /// Starts and ends ownership by the votes.
    fn count_votes(&mut self, now: Time) {
        let counted: Vec<(IpAddr, bool)> = self
            .claims
            .claimed()
            .map(|address| (address, self.has_votes(now, address)))
            .collect();
        for (address, is_owned) in counted {
            let expires_at = self.claim_deadline(now);
            let Some(claim) = self.claims.by_address.get_mut(&address) else {
                continue;
            };
            if std::mem::replace(&mut claim.is_owned, is_owned) == is_owned {
                continue;
            }
            claim.expires_at = expires_at;
            let is_own = claim.preferred_owner.as_ref() == Some(self.node.name());
            if is_owned {
                self.acquire(now, address);
            } else {
                self.handoff.history.end(now, address, false);
                self.record_loss(address, None);
                if !is_own {
                    self.withdraw_claim(now, address, None);
                }
            }
        }
    }

    fn acquire(&mut self, now: Time, address: IpAddr) {
        let peers = &self.peers;
        let liveness = |process: &LeaseHolder| peers.process_liveness(now, process);
        let flush = self.handoff.history.begin(now, address, liveness);
        let flush = flush.map(|flush| Effect::FlushConntrack(address, flush));
        // The flush precedes the announcement: see `Effect::FlushConntrack`.
        self.effects
            .extend(flush.into_iter().chain([Effect::Acquired(address)]));
        self.handoff.previous_owners.acquired(now, address);
        self.claims.schedule_announcements(now, address);
    }

    fn record_loss(&mut self, address: IpAddr, to: Option<&NodeName>) {
        // Forwarding by this process ends with it.
        let to = to.filter(|_| !self.node.is_leaving);
        self.handoff.previous_owners.lost(address, to);
        self.claims.cancel_announcements(address);
        self.effects.push(Effect::Lost(address));
    }

    fn claim_deadline(&mut self, now: Time) -> Time {
        now + CLAIM_TIMEOUT.mul_f64(1.0 + self.random.f64())
    }

    /// Withdraws claims without ownership after their timeout, and pauses them.
    fn withdraw_expired_claims(&mut self, now: Time) {
        let claims = self.claims.by_address.iter();
        let expired = claims.filter(|(_, claim)| !claim.is_owned && claim.expires_at <= now);
        let expired: Vec<IpAddr> = expired.map(|(address, _)| *address).collect();
        for address in expired {
            self.withdraw_claim(now, address, None);
            let pause = CLAIM_PAUSE_MAX.mul_f64(self.random.f64());
            self.claims.paused.insert(address, now + pause);
        }
    }
}
