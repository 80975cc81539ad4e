//! Messages in, votes lent, messages out.

use std::net::{IpAddr, SocketAddr};

use super::{Core, Effect};
use crate::election::vote_leases::Voted;
use crate::protocol::message::{Entry, Message, Stamp};
use crate::{FENCE, NodeName, PROBE_PERIOD, Time};

impl Core {
    /// A message came from an address. One that is not for this process, from a stranger or from elsewhere, a copy, or late is
    /// dropped.
    pub fn receive(&mut self, now: Time, source: SocketAddr, message: &Message) {
        self.expire(now);
        if message.to != self.identity.name {
            return;
        }
        let Some(peer) = self.peers.get_mut(&message.from) else {
            return;
        };
        let me = self.identity.incarnation;
        if !peer.hear(now, source, message, me) {
            return;
        }
        let heard = message.heard.filter(|heard| heard.incarnation == me);
        let grant = message.grant.zip(heard);
        if let Some((generation, heard)) = grant {
            peer.take_grant(now, message.incarnation, heard.stamp, generation);
        }
        // To know an older list is to be lent nothing: see `membership`.
        peer.is_granted = now >= self.quiet_until && message.epoch >= self.membership.refuses_below();
        let sender = Voted {
            name: NodeName::clone(&message.from),
            incarnation: message.incarnation,
        };
        if peer.is_granted {
            self.ballot.heard(&sender, now + FENCE);
        }
        for entry in &message.entries {
            self.take_entry(now, &sender, *entry, grant.map(|(generation, _)| generation));
        }
        self.settle(now);
    }

    fn take_entry(&mut self, now: Time, sender: &Voted, entry: Entry, generation: Option<u64>) {
        match entry {
            Entry::Ask(address) => {
                if self.gives_way(address, &sender.name) {
                    self.drop_claim(now, address, Some(&sender.name));
                }
                if !self.claims.is_held(address) {
                    self.predecessors.asked(address, &sender.name);
                }
                let is_granted = self.peers.get(&sender.name).is_some_and(|peer| peer.is_granted);
                if is_granted && self.ballot.ask(now, sender, address) {
                    self.predecessors.lent(address, &sender.name);
                    self.tenures.lent(address, sender);
                    self.answer(now, &sender.name, Entry::Vote(address));
                }
            }
            Entry::Release(address) | Entry::GaveUp(address) => {
                if matches!(entry, Entry::GaveUp(_)) && self.demand.contains_key(&address) {
                    self.gave_up(now, sender, address);
                }
                let next = self.ballot.release(now, sender, address);
                self.answer(now, &sender.name, Entry::Released(address));
                match next {
                    Some(next) => self.lent(now, &next, address),
                    // It asked itself too long ago. A vote that nobody has could go to somebody else, who then would not
                    // ask this node again to give way.
                    None => self.claims.are_own_votes_stale |= self.claims.is_claimed(address),
                }
            }
            Entry::Vote(address) => {
                let peer = self.peers.get_mut(&sender.name);
                if peer.is_some_and(|peer| peer.voted(now, address, generation)) {
                    self.claims.are_votes_stale = true;
                }
            }
            Entry::Released(address) => {
                let is_claimed = self.claims.is_claimed(address);
                if let Some(peer) = self.peers.get_mut(&sender.name) {
                    peer.released(address);
                    if is_claimed {
                        peer.ask(now, address);
                    }
                }
            }
        }
    }

    /// Another node answered for an address, and gave it up on purpose.
    fn gave_up(&mut self, now: Time, by: &Voted, address: IpAddr) {
        let is_here = self.claims.is_held(address);
        self.predecessors.gave_up(now, address, &by.name, is_here);
        let is_ending = self.peers.get(&by.name).is_some_and(|peer| peer.is_leaving);
        if let Some(forgotten) = self.tenures.gave_up(now, address, by, is_ending) {
            self.effects.push(Effect::Forget(address, forgotten));
        }
    }

    /// Takes back votes from the silent, and stops using votes of the silent.
    pub(crate) fn expire(&mut self, now: Time) {
        let expired = self.ballot.expire(now);
        self.claims.are_own_votes_stale |= !expired.freed.is_empty();
        for (voted, address) in &expired.freed {
            self.tenures.gone(now, *address, voted);
        }
        for (voted, address) in expired.lent {
            self.lent(now, &voted, address);
        }
        for peer in self.peers.values_mut() {
            self.claims.are_votes_stale |= peer.lapse(now);
        }
    }

    /// A vote went to somebody who waited for it.
    pub(crate) fn lent(&mut self, now: Time, to: &Voted, address: IpAddr) {
        if *to == self.me() {
            self.claims.are_votes_stale = true;
        } else {
            self.predecessors.lent(address, &to.name);
            self.tenures.lent(address, to);
            self.answer(now, &to.name, Entry::Vote(address));
        }
    }

    fn answer(&mut self, now: Time, to: &NodeName, entry: Entry) {
        if let Some(peer) = self.peers.get_mut(to) {
            peer.answer(now, entry);
        }
    }

    /// Sends to everybody whom something is due.
    pub(crate) fn send_due(&mut self, now: Time) {
        let (epoch, refuses_below) = self.membership.epochs();
        let told = self.means.told();
        for (name, peer) in &mut self.peers {
            if peer.due > now {
                continue;
            }
            peer.due = now + PROBE_PERIOD.mul_f64(0.8 + 0.4 * self.random.f64());
            let heard = peer.echo();
            let grant = heard.filter(|_| peer.is_granted).and_then(|heard| {
                let voted = Voted {
                    name: NodeName::clone(name),
                    incarnation: heard.incarnation,
                };
                self.ballot.generation(&voted)
            });
            for entries in peer.take_entries() {
                let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                self.last_stamp = nanoseconds.max(self.last_stamp + 1);
                let message = Message {
                    from: NodeName::clone(&self.identity.name),
                    to: NodeName::clone(name),
                    incarnation: self.identity.incarnation,
                    stamp: Stamp(self.last_stamp),
                    epoch,
                    refuses_below,
                    is_quorate: self.claims.is_quorate,
                    is_leaving: self.is_leaving,
                    heard,
                    grant,
                    entries,
                    means: told.clone(),
                    entrances: self.entrances.clone(),
                };
                self.effects.push(Effect::Send(peer.address, message));
            }
        }
    }
}
