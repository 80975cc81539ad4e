//! Processing of received messages, granting of votes, and creation of messages.
//!
//! Messages may be lost, late or repeated. Candidates therefore repeat their requests in each probe, and
//! [`Election::receive`] drops replays and late messages. An accepted message renews the lease of its sender before its
//! entries are processed. A sender with an outdated member list gets no votes. A release is always confirmed, and its
//! vote goes to a waiting candidate at once.

use std::net::{IpAddr, SocketAddr};

use super::state::{Effect, Election};
use super::vote_leases::LeaseHolder;
use crate::protocol::message::{Message, VoteEntry};
use crate::{FENCING_INTERVAL, NodeName, PROBE_PERIOD, Time};

impl Election {
    /// Processes a message from a source address. Messages to other processes, from non-members or wrong
    /// addresses, replays and late messages are dropped.
    pub(crate) fn receive(&mut self, now: Time, source: SocketAddr, message: &Message) {
        self.expire(now);
        if message.to != *self.node.name() {
            return;
        }
        let Some(peer) = self.peers.get_mut(&message.from) else {
            return;
        };
        let incarnation = self.node.identity.incarnation;
        if !peer.receive(now, source, message, incarnation) {
            return;
        }
        let echo = message.echo.filter(|echo| echo.incarnation == incarnation);
        let lease = message.lease_generation.zip(echo);
        if let Some((generation, echo)) = lease {
            peer.renew_lease(now, message.incarnation, echo.timestamp, generation);
        }
        // A sender with an outdated member list gets no votes: see `proposals`.
        peer.receives_votes =
            now >= self.node.grants_votes_from && message.epoch >= self.membership.min_epoch;
        let sender = LeaseHolder {
            name: NodeName::clone(&message.from),
            incarnation: message.incarnation,
        };
        if peer.receives_votes {
            self.votes.renew(&sender, now + FENCING_INTERVAL);
        }
        for entry in &message.entries {
            self.process_entry(now, &sender, *entry, lease.map(|(generation, _)| generation));
        }
        self.update(now);
    }

    fn process_entry(&mut self, now: Time, sender: &LeaseHolder, entry: VoteEntry, generation: Option<u64>) {
        match entry {
            VoteEntry::RequestVote(address) => self.process_request(now, sender, address),
            VoteEntry::ReleaseVote(address) => self.process_release(now, sender, address),
            VoteEntry::ReleaseAddress(address) => {
                if self.candidates.contains_key(&address) {
                    self.record_release(now, sender, address);
                }
                self.process_release(now, sender, address);
            }
            VoteEntry::GrantVote(address) => {
                let peer = self.peers.get_mut(&sender.name);
                if peer.is_some_and(|peer| peer.vote_granted(now, address, generation)) {
                    self.claims.are_votes_stale = true;
                }
            }
            VoteEntry::ConfirmRelease(address) => {
                let is_claimed = self.claims.is_claimed(address);
                if let Some(peer) = self.peers.get_mut(&sender.name) {
                    peer.release_confirmed(address);
                    if is_claimed {
                        peer.request_vote(now, address);
                    }
                }
            }
        }
    }

    fn process_request(&mut self, now: Time, sender: &LeaseHolder, address: IpAddr) {
        if self.claims.is_preferred_owner(address, &sender.name) {
            self.withdraw_claim(now, address, Some(&sender.name));
        }
        if !self.claims.is_owned(address) {
            self.handoff.previous_owners.vote_requested(address, &sender.name);
        }
        let receives_votes = self.peers.is(&sender.name, |peer| peer.receives_votes);
        if receives_votes && self.votes.request(now, sender, address) {
            self.handoff.vote_granted(address, sender);
            self.reply(now, &sender.name, VoteEntry::GrantVote(address));
        }
    }

    fn process_release(&mut self, now: Time, sender: &LeaseHolder, address: IpAddr) {
        let next = self.votes.release(now, sender, address);
        self.reply(now, &sender.name, VoteEntry::ConfirmRelease(address));
        match next {
            Some(next) => self.vote_granted(now, &next, address),
            // The request of this node itself may be too old to count as waiting. A free vote could go to another node,
            // which would not request a release from this node.
            None => self.claims.are_own_votes_stale |= self.claims.is_claimed(address),
        }
    }

    /// Records that another node released an address that it announced.
    fn record_release(&mut self, now: Time, by: &LeaseHolder, address: IpAddr) {
        let is_owner = self.claims.is_owned(address);
        self.handoff
            .previous_owners
            .record_release(now, address, &by.name, is_owner);
        let is_leaving = self.peers.is(&by.name, |peer| peer.is_leaving);
        if let Some(flush) = self.handoff.history.record_release(now, address, by, is_leaving) {
            self.effects.push(Effect::FlushConntrack(address, flush));
        }
    }

    /// Revokes votes of unresponsive nodes, and ends expired leases of this node.
    pub(super) fn expire(&mut self, now: Time) {
        let expired = self.votes.expire(now);
        self.claims.are_own_votes_stale |= !expired.revoked.is_empty();
        for (holder, address) in &expired.revoked {
            self.handoff.history.successor_lost(now, *address, holder);
        }
        for (holder, address) in expired.granted {
            self.vote_granted(now, &holder, address);
        }
        for peer in self.peers.values_mut() {
            self.claims.are_votes_stale |= peer.expire_lease(now);
        }
    }

    /// Processes a vote of this node that went to a waiting candidate.
    pub(super) fn vote_granted(&mut self, now: Time, to: &LeaseHolder, address: IpAddr) {
        if *to == self.node.holder() {
            self.claims.are_votes_stale = true;
        } else {
            self.handoff.vote_granted(address, to);
            self.reply(now, &to.name, VoteEntry::GrantVote(address));
        }
    }

    fn reply(&mut self, now: Time, to: &NodeName, entry: VoteEntry) {
        if let Some(peer) = self.peers.get_mut(to) {
            peer.reply(now, entry);
        }
    }

    /// Sends the probes that are due.
    pub(super) fn send_due(&mut self, now: Time) {
        let (epoch, min_epoch) = self.membership.epochs();
        let capabilities = self.node.capabilities.advertised();
        for (name, peer) in self.peers.iter_mut() {
            if peer.next_probe > now {
                continue;
            }
            // Jitter keeps the probes of the members from synchronizing.
            peer.next_probe = now + PROBE_PERIOD.mul_f64(0.8 + 0.4 * self.random.f64());
            let echo = peer.echo();
            let lease_generation = echo.filter(|_| peer.receives_votes).and_then(|echo| {
                let holder = LeaseHolder {
                    name: NodeName::clone(name),
                    incarnation: echo.incarnation,
                };
                self.votes.generation(&holder)
            });
            for entries in peer.take_entries() {
                let message = Message {
                    from: NodeName::clone(&self.node.identity.name),
                    to: NodeName::clone(name),
                    incarnation: self.node.identity.incarnation,
                    timestamp: self.node.next_timestamp(now),
                    epoch,
                    min_epoch,
                    is_quorate: self.claims.is_quorate,
                    is_leaving: self.node.is_leaving,
                    echo,
                    lease_generation,
                    entries,
                    capabilities: capabilities.clone(),
                    link_addresses: self.node.link_addresses.clone(),
                };
                self.effects.push(Effect::Send(peer.address, message));
            }
        }
    }
}
