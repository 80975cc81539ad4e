//! Votes that this node grants: one holder per address, as long as probes of the holder arrive.
//!
//! All votes of a holder depend on one lease, which its accepted messages renew. If the lease expires, all its votes
//! are free at once. A later lease has another generation, so that the holder does not count votes of an earlier one.
//! The first rejected candidate of an address is the next holder as long as it repeats its request. A restarted process
//! is another holder, without the votes of its predecessor.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::{ADDRESSES_MAX, NodeName, PROBE_PERIOD, Time};

#[cfg(test)]
mod tests;

/// Lifetime of a rejected request. Candidates repeat requests in each probe.
const WAITING_TIMEOUT: Duration = PROBE_PERIOD.saturating_mul(3);

/// Process that holds votes. A restarted process is another holder, without the votes of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseHolder {
    /// Node that runs the process.
    pub(crate) name: NodeName,
    /// Random number of the process.
    pub(crate) incarnation: u64,
}

/// The votes that one node grants, and their leases.
#[derive(Debug, Default)]
pub(crate) struct VoteLedger {
    leases: BTreeMap<LeaseHolder, Lease>,
    holders: BTreeMap<IpAddr, LeaseHolder>,
    /// First rejected candidate of an address, and the time of its last request.
    waiting: BTreeMap<IpAddr, (LeaseHolder, Time)>,
    generation: u64,
}

/// Lease of votes: its end, its generation, and the members that granted it.
#[derive(Debug)]
struct Lease {
    until: Time,
    generation: u64,
    votes: BTreeSet<IpAddr>,
}

impl VoteLedger {
    /// Grants a lease or extends it to `until`. [`VoteLedger::expire`] has to be called first for the same
    /// point in time.
    pub(crate) fn renew(&mut self, holder: &LeaseHolder, until: Time) {
        if let Some(lease) = self.leases.get_mut(holder) {
            lease.until = lease.until.max(until);
            return;
        }
        self.generation += 1;
        let lease = Lease {
            until,
            generation: self.generation,
            votes: BTreeSet::new(),
        };
        self.leases.insert(holder.clone(), lease);
    }

    /// Returns the generation of a holder's lease. A lease that follows an expired one has another generation.
    pub(crate) fn generation(&self, holder: &LeaseHolder) -> Option<u64> {
        self.leases.get(holder).map(|lease| lease.generation)
    }

    /// Returns the end of the leases of all holders but `own`.
    pub(crate) fn granted_until(&self, own: &LeaseHolder) -> Time {
        let others = self.leases.iter().filter(|(holder, _)| *holder != own);
        others.map(|(_, lease)| lease.until).max().unwrap_or(Time::ZERO)
    }

    /// Returns the holder of the vote for an address.
    pub(crate) fn holder(&self, address: IpAddr) -> Option<&LeaseHolder> {
        self.holders.get(&address)
    }

    /// Requests the vote for an address. Returns true if `candidate`, which needs a lease, holds the vote
    /// now. If another process holds it, the first candidate is the next one.
    pub(crate) fn request(&mut self, now: Time, candidate: &LeaseHolder, address: IpAddr) -> bool {
        if let Some(holder) = self.holders.get(&address) {
            if holder == candidate {
                return true;
            }
            let is_next = match self.waiting.get(&address) {
                Some((first, requested_at)) => {
                    first == candidate || now.saturating_sub(*requested_at) > WAITING_TIMEOUT
                }
                None => self.waiting.len() < ADDRESSES_MAX,
            };
            if is_next {
                self.waiting.insert(address, (candidate.clone(), now));
            }
            return false;
        }
        let Some(lease) = self.leases.get_mut(candidate) else {
            return false;
        };
        if self.holders.len() >= ADDRESSES_MAX {
            return false;
        }
        lease.votes.insert(address);
        self.holders.insert(address, candidate.clone());
        self.waiting.remove(&address);
        true
    }

    /// Takes a vote back from its holder. Returns the waiting candidate that holds it now.
    pub(crate) fn release(
        &mut self,
        now: Time,
        holder: &LeaseHolder,
        address: IpAddr,
    ) -> Option<LeaseHolder> {
        if self
            .waiting
            .get(&address)
            .is_some_and(|(waiting, _)| waiting == holder)
        {
            self.waiting.remove(&address);
        }
        if self.holders.get(&address) != Some(holder) {
            return None;
        }
        self.holders.remove(&address);
        if let Some(lease) = self.leases.get_mut(holder) {
            lease.votes.remove(&address);
        }
        self.grant_to_waiting(now, address)
    }

    /// Revokes the votes of expired leases and grants them to waiting candidates.
    pub(crate) fn expire(&mut self, now: Time) -> Expired {
        let over = self.leases.iter().filter(|(_, lease)| lease.until <= now);
        let over: Vec<LeaseHolder> = over.map(|(holder, _)| holder.clone()).collect();
        let mut expired = Expired::default();
        for holder in &over {
            let votes = self.leases.remove(holder).map(|lease| lease.votes);
            for address in votes.into_iter().flatten() {
                self.holders.remove(&address);
                expired.revoked.push((holder.clone(), address));
                let next = self.grant_to_waiting(now, address);
                expired.granted.extend(next.map(|next| (next, address)));
            }
        }
        expired
    }

    /// Returns the end of the lease that expires first.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.leases.values().map(|lease| lease.until).min()
    }

    fn grant_to_waiting(&mut self, now: Time, address: IpAddr) -> Option<LeaseHolder> {
        let (next, requested_at) = self.waiting.remove(&address)?;
        let is_fresh = now.saturating_sub(requested_at) <= WAITING_TIMEOUT;
        (is_fresh && self.request(now, &next, address)).then_some(next)
    }
}

/// Votes that changed hands because leases expired.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Revoked votes and their former holders.
    pub(crate) revoked: Vec<(LeaseHolder, IpAddr)>,
    /// Votes that were granted to waiting candidates.
    pub(crate) granted: Vec<(LeaseHolder, IpAddr)>,
}
