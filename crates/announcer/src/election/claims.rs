//! Addresses that this node claims, and the schedule of their announcements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::capabilities::NodeCapabilities;
use crate::{ANNOUNCEMENT_DELAYS, NodeName, Time};

/// Claims of this node.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) by_address: BTreeMap<IpAddr, AddressClaim>,
    /// Addresses that are not claimed until the given time.
    pub(super) paused: BTreeMap<IpAddr, Time>,
    announcements: BTreeSet<(Time, IpAddr)>,
    /// Available nodes, including this one, and their capabilities.
    pub(super) available: BTreeMap<NodeName, NodeCapabilities>,
    /// True if a majority of the members leases votes to this node.
    pub(super) is_quorate: bool,
    /// True if the preferred owners have to be computed again.
    pub(super) are_stale: bool,
    /// True if the votes have to be counted again.
    pub(super) are_votes_stale: bool,
    /// True if the votes of this node itself have to be requested again.
    pub(super) are_own_votes_stale: bool,
}

/// Claim of an address.
#[derive(Debug)]
pub(super) struct AddressClaim {
    /// True if this node owns the address.
    pub(super) is_owned: bool,
    /// The preferred owner in the view of this node.
    pub(super) preferred_owner: Option<NodeName>,
    /// End of the claim without ownership.
    pub(super) expires_at: Time,
}

impl Claims {
    /// Iterates over the addresses that this node claims, owned or not.
    pub(super) fn claimed(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().copied()
    }

    /// Iterates over the addresses that this node owns.
    pub(super) fn owned(&self) -> impl Iterator<Item = IpAddr> {
        let owned = self.by_address.iter().filter(|(_, claim)| claim.is_owned);
        owned.map(|(address, _)| *address)
    }

    /// Returns true if this node claims the address.
    pub(super) fn is_claimed(&self, address: IpAddr) -> bool {
        self.by_address.contains_key(&address)
    }

    /// Returns true if this node owns the address.
    pub(super) fn is_owned(&self, address: IpAddr) -> bool {
        self.by_address.get(&address).is_some_and(|claim| claim.is_owned)
    }

    /// Returns true if another node is the preferred owner of a claimed address.
    pub(super) fn is_preferred_owner(&self, address: IpAddr, node: &NodeName) -> bool {
        let claim = self.by_address.get(&address);
        claim.is_some_and(|claim| claim.preferred_owner.as_ref() == Some(node))
    }

    /// Schedules the announcements that follow the acquisition of an address.
    pub(super) fn schedule_announcements(&mut self, now: Time, address: IpAddr) {
        let times = ANNOUNCEMENT_DELAYS.map(|delay| (now + delay, address));
        self.announcements.extend(times);
    }

    /// Cancels the scheduled announcements of an address.
    pub(super) fn cancel_announcements(&mut self, address: IpAddr) {
        self.announcements.retain(|(_, of)| *of != address);
    }

    /// Returns the time of the next announcement; `None` if none is scheduled.
    pub(super) fn next_announcement(&self) -> Option<Time> {
        self.announcements.first().map(|(time, _)| *time)
    }

    /// Removes and returns the addresses whose announcements are due.
    pub(super) fn take_due_announcements(&mut self, now: Time) -> Vec<IpAddr> {
        let mut due = Vec::new();
        while let Some((time, address)) = self.announcements.first().copied() {
            if time > now {
                break;
            }
            self.announcements.pop_first();
            due.push(address);
        }
        due
    }
}
