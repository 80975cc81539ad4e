//! Ownership history: when this node and other nodes owned an address, and the conntrack entries that are
//! stale for that reason.
//!
//! Clients reuse source ports. This node may still have a conntrack entry for an old connection with the same
//! 5-tuple. Packets of a newer connection (opened at another node) then match that entry and fail the window check.
//! They are neither forwarded nor answered. Therefore closed connections are flushed when an address returns. If
//! another node owned the address meanwhile, two faults are possible. This node lost the address unplanned, or the
//! forwarding chain to this node broke. Then the other node has reset active connections without this node, which
//! flushes them, too.
//!
//! The forwarding chain consists of all nodes that owned the address since, in order
//! ([`crate::handoff::previous_owners`]). It breaks in these cases:
//!
//! - A node of the chain shuts down or fails.
//! - A node of the chain releases the address a second time, because an owner forwards to one node only.
//! - [`FORWARDING_DURATION_MAX`] has passed.
//!
//! This node does not detect breaks before the start of its process. It also does not detect breaks at nodes without
//! space for the address, or without a common link.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use balancer::serving::FORWARDING_DURATION_MAX;

use crate::election::vote_leases::LeaseHolder;
use crate::handoff::previous_owners::{Liveness, UNANSWERED_MAX};
use crate::{ADDRESSES_MAX, FENCING_INTERVAL, Time};

#[cfg(test)]
mod tests;

/// Margin of the absence of an address: votes outlast the last probe, and the kernel counts whole seconds.
const ABSENCE_MARGIN: Duration = FENCING_INTERVAL.saturating_add(Duration::from_secs(2));
/// Maximum number of recorded later owners of an address. A longer forwarding chain counts as broken.
const CHAIN_MAX: usize = 16;
/// Upper bound of the time between the end of a process and the first message of its successor.
const REPLACED_WITHIN: Duration = UNANSWERED_MAX.saturating_mul(2);

/// Stale conntrack entries of the TCP connections to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConntrackFlush {
    /// Closed connections.
    Closed,
    /// Closed connections, and connections with packets within this duration; all connections for [`Duration::MAX`].
    ActiveWithin(Duration),
}

/// Addresses that this node owns or has owned.
#[derive(Debug, Default)]
pub(crate) struct OwnershipHistory {
    by_address: BTreeMap<IpAddr, Ownership>,
}

/// The current or last ownership of an address by this node.
#[derive(Debug)]
struct Ownership {
    is_current: bool,
    /// End of the last ownership.
    ended: Option<Time>,
    chain: ChainState,
    /// True if another node is known to have owned the address since.
    had_other_owner: bool,
    /// Later owners that released the address, in order.
    releases: Vec<LeaseHolder>,
    /// The process that holds this node's vote for the address.
    successor: Option<LeaseHolder>,
    /// The previous holder of this node's vote, and the time at which its lease expired or it announced its shutdown.
    lost_successor: Option<(LeaseHolder, Time)>,
}

/// State of the forwarding chain to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainState {
    /// All packets of connections of this node arrived here.
    Complete,
    /// Packets after this time did not arrive here.
    BrokenSince(Time),
    /// Packets have been missing since an unknown time.
    Unknown,
}

impl Ownership {
    fn new() -> Self {
        Self {
            is_current: false,
            ended: None,
            chain: ChainState::Complete,
            had_other_owner: false,
            releases: Vec::new(),
            successor: None,
            lost_successor: None,
        }
    }

    fn break_chain(&mut self, at: Time) {
        if self.chain == ChainState::Complete {
            self.chain = ChainState::BrokenSince(at);
        }
    }

    /// Returns the intermediate hops: all later owners, except the last one if that released the address to this node.
    fn hops(&self) -> &[LeaseHolder] {
        match self.releases.split_last() {
            Some((last, rest)) if self.successor.as_ref().is_none_or(|next| next == last) => rest,
            _ => &self.releases,
        }
    }

    fn check_chain(&mut self, now: Time, liveness: impl Fn(&LeaseHolder) -> Liveness) {
        if self.is_current || self.chain != ChainState::Complete {
            return;
        }
        let broken_at = self.hops().iter().filter_map(|hop| match liveness(hop) {
            Liveness::Removed => Some(now.saturating_sub(REPLACED_WITHIN)),
            Liveness::Leaving => Some(now.saturating_sub(UNANSWERED_MAX)),
            Liveness::WithoutMessage(time) => (time > UNANSWERED_MAX).then(|| now.saturating_sub(time)),
        });
        let expired_at = self.ended.map(|ended| ended + FORWARDING_DURATION_MAX);
        let broken_at = broken_at
            .chain(expired_at.filter(|expired_at| *expired_at <= now))
            .min();
        if let Some(at) = broken_at {
            self.break_chain(at);
        }
    }
}

impl OwnershipHistory {
    /// Restores the addresses that a killed process owned.
    pub(crate) fn restore_after_crash(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            if let Some(ownership) = self.entry(address) {
                ownership.chain = ChainState::Unknown;
            }
        }
    }

    /// Begins an ownership. Returns the flush that has to precede it. `liveness` is that of
    /// [`OwnershipHistory::check_chains`].
    pub(crate) fn begin(
        &mut self,
        now: Time,
        address: IpAddr,
        liveness: impl Fn(&LeaseHolder) -> Liveness,
    ) -> Option<ConntrackFlush> {
        let ownership = self.entry(address)?;
        ownership.check_chain(now, liveness);
        let is_first = ownership.chain == ChainState::Complete && ownership.ended.is_none();
        let flush = match ownership.chain {
            _ if !ownership.had_other_owner => (!is_first).then_some(ConntrackFlush::Closed),
            ChainState::Complete => Some(ConntrackFlush::Closed),
            // A connection that was idle before the break for as long as the break lasted counts as idle throughout.
            ChainState::BrokenSince(at) => Some(ConntrackFlush::ActiveWithin(
                now.saturating_sub(at) * 2 + ABSENCE_MARGIN,
            )),
            ChainState::Unknown => Some(ConntrackFlush::ActiveWithin(Duration::MAX)),
        };
        *ownership = Ownership {
            is_current: true,
            had_other_owner: ownership.had_other_owner,
            ..Ownership::new()
        };
        flush
    }

    /// Ends an ownership.
    pub(crate) fn end(&mut self, now: Time, address: IpAddr, is_planned: bool) {
        if let Some(ownership) = self.entry(address) {
            *ownership = Ownership {
                ended: Some(now),
                chain: if is_planned {
                    ChainState::Complete
                } else {
                    ChainState::BrokenSince(now)
                },
                ..Ownership::new()
            };
        }
    }

    /// Records that another node released an address that it announced; `is_leaving` if its process shuts down. If
    /// the message arrives after this node acquired the address, the kernel holds connections of both periods. The
    /// closed ones have to be flushed.
    pub(crate) fn record_release(
        &mut self,
        now: Time,
        address: IpAddr,
        by: &LeaseHolder,
        is_leaving: bool,
    ) -> Option<ConntrackFlush> {
        let ownership = self.entry(address)?;
        let is_first = !std::mem::replace(&mut ownership.had_other_owner, true);
        if ownership.is_current {
            return is_first.then_some(ConntrackFlush::Closed);
        }
        // Nodes repeat releases until they are confirmed.
        if ownership.releases.last() != Some(by) {
            if ownership.releases.contains(by) || ownership.releases.len() >= CHAIN_MAX {
                ownership.break_chain(now);
            } else {
                ownership.releases.push(by.clone());
            }
        }
        if is_leaving && ownership.releases.last() == Some(by) {
            ownership.lost_successor = Some((by.clone(), now));
        }
        None
    }

    /// Records that the lease of the holder of this node's vote expired. The holder may no longer forward packets to
    /// this node.
    pub(crate) fn successor_lost(&mut self, now: Time, address: IpAddr, holder: &LeaseHolder) {
        if let Some(ownership) = self.former_ownership(address) {
            ownership.lost_successor = Some((holder.clone(), now));
        }
    }

    /// Records that this node granted its vote to another process. The chain is broken if the former holder is lost.
    pub(crate) fn vote_granted(&mut self, address: IpAddr, to: &LeaseHolder) {
        let Some(ownership) = self.former_ownership(address) else {
            return;
        };
        if let Some((lost, at)) = ownership.lost_successor.take()
            && lost != *to
        {
            ownership.break_chain(at);
        }
        ownership.successor = Some(to.clone());
    }

    /// Detects broken chains by the liveness of the processes on them.
    pub(crate) fn check_chains(&mut self, now: Time, liveness: impl Fn(&LeaseHolder) -> Liveness) {
        for ownership in self.by_address.values_mut() {
            ownership.check_chain(now, &liveness);
        }
    }

    /// Returns the addresses for [`OwnershipHistory::restore_after_crash`]: addresses that this node owns, and former
    /// ones with an incomplete chain.
    pub(crate) fn persisted_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let uncertain = self
            .by_address
            .iter()
            .filter(|(_, ownership)| ownership.is_current || ownership.chain != ChainState::Complete);
        uncertain.map(|(address, _)| *address)
    }

    /// Drops an address that is no longer to be announced.
    pub(crate) fn remove_address(&mut self, address: IpAddr) {
        self.by_address.remove(&address);
    }

    fn former_ownership(&mut self, address: IpAddr) -> Option<&mut Ownership> {
        let ownership = self.by_address.get_mut(&address);
        ownership.filter(|ownership| !ownership.is_current)
    }

    /// Returns the ownership of an address; `None` if the limit of addresses is reached.
    fn entry(&mut self, address: IpAddr) -> Option<&mut Ownership> {
        if !self.by_address.contains_key(&address) && self.by_address.len() >= ADDRESSES_MAX {
            return None;
        }
        Some(self.by_address.entry(address).or_insert_with(Ownership::new))
    }
}
