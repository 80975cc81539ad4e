//! The votes that this node lends: for each address to one process at a time, for as long as that process is heard.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::{ADDRESSES_MAX, NodeName, PROBE_PERIOD, Time};

#[cfg(test)]
mod tests;

/// How long somebody who asked in vain is remembered. It asks again with each probe.
const WAITING_LASTS: Duration = PROBE_PERIOD.saturating_mul(3);

/// A process that votes are lent to. A restarted one is another: it knows nothing of the votes of the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Voted {
    /// The node.
    pub name: NodeName,
    /// A number of the process's own.
    pub incarnation: u64,
}

/// The votes of one node.
#[derive(Debug, Default)]
pub struct Ballot {
    leases: BTreeMap<Voted, Lease>,
    votes: BTreeMap<IpAddr, Voted>,
    /// Who asked first for an address whose vote somebody else has, and when it did last.
    waiting: BTreeMap<IpAddr, (Voted, Time)>,
    generation: u64,
}

#[derive(Debug)]
struct Lease {
    until: Time,
    generation: u64,
    votes: BTreeSet<IpAddr>,
}

impl Ballot {
    /// A process is heard: what is lent to it is lent until then. To be called after [`Ballot::expire`] of the same moment.
    pub fn heard(&mut self, by: &Voted, until: Time) {
        if let Some(lease) = self.leases.get_mut(by) {
            lease.until = lease.until.max(until);
            return;
        }
        self.generation += 1;
        let lease = Lease {
            until,
            generation: self.generation,
            votes: BTreeSet::new(),
        };
        self.leases.insert(by.clone(), lease);
    }

    /// Which lease of this ballot a process has: when it ends, the next one has another number.
    pub fn generation(&self, of: &Voted) -> Option<u64> {
        self.leases.get(of).map(|lease| lease.generation)
    }

    /// Who has the vote for an address.
    pub fn vote(&self, address: IpAddr) -> Option<&Voted> {
        self.votes.get(&address)
    }

    /// Asks for the vote for an address; whether `by`, who must be heard, has it now. If somebody else has it, `by` is
    /// next.
    pub fn ask(&mut self, now: Time, by: &Voted, address: IpAddr) -> bool {
        if let Some(voted) = self.votes.get(&address) {
            if voted == by {
                return true;
            }
            let is_free = match self.waiting.get(&address) {
                Some((first, asked)) => first == by || now.saturating_sub(*asked) > WAITING_LASTS,
                None => self.waiting.len() < ADDRESSES_MAX,
            };
            if is_free {
                self.waiting.insert(address, (by.clone(), now));
            }
            return false;
        }
        let Some(lease) = self.leases.get_mut(by) else {
            return false;
        };
        if self.votes.len() >= ADDRESSES_MAX {
            return false;
        }
        lease.votes.insert(address);
        self.votes.insert(address, by.clone());
        self.waiting.remove(&address);
        true
    }

    /// A process gives a vote back, if it has it; who has it now, because it was waiting.
    pub fn release(&mut self, now: Time, by: &Voted, address: IpAddr) -> Option<Voted> {
        if self
            .waiting
            .get(&address)
            .is_some_and(|(waiting, _)| waiting == by)
        {
            self.waiting.remove(&address);
        }
        if self.votes.get(&address) != Some(by) {
            return None;
        }
        self.votes.remove(&address);
        if let Some(lease) = self.leases.get_mut(by) {
            lease.votes.remove(&address);
        }
        self.lend_to_waiting(now, address)
    }

    /// Takes back what was lent to processes that were not heard; who has which vote now, because it was waiting.
    pub fn expire(&mut self, now: Time) -> Expired {
        let over = self.leases.iter().filter(|(_, lease)| lease.until <= now);
        let over: Vec<Voted> = over.map(|(voted, _)| voted.clone()).collect();
        let mut expired = Expired::default();
        for voted in &over {
            let votes = self.leases.remove(voted).map(|lease| lease.votes);
            for address in votes.into_iter().flatten() {
                self.votes.remove(&address);
                expired.freed.push((voted.clone(), address));
                expired
                    .lent
                    .extend(self.lend_to_waiting(now, address).map(|next| (next, address)));
            }
        }
        expired
    }

    /// When the next lease ends.
    pub fn next_expiry(&self) -> Option<Time> {
        self.leases.values().map(|lease| lease.until).min()
    }

    fn lend_to_waiting(&mut self, now: Time, address: IpAddr) -> Option<Voted> {
        let (next, asked) = self.waiting.remove(&address)?;
        let is_fresh = now.saturating_sub(asked) <= WAITING_LASTS;
        (is_fresh && self.ask(now, &next, address)).then_some(next)
    }
}

/// What came of leases that ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Votes that were taken back, and from whom.
    pub freed: Vec<(Voted, IpAddr)>,
    /// Votes that were lent anew at once.
    pub lent: Vec<(Voted, IpAddr)>,
}
