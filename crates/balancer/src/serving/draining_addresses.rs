//! Addresses that moved to another node and have open connections here.
//!
//! The new owner forwards their packets to this node (`announcer::handoff`). The edge serves such an address
//! until its last connection ends.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::{Addresses, FORWARDING_DURATION_MAX};

#[cfg(test)]
mod tests;

/// Minimum drain time: neighbours can still send packets to this node, and connections can be in their handshake.
const DRAIN_MIN: Duration = Duration::from_secs(10);
/// Interval between checks for open connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Addresses of other nodes that this node still serves.
#[derive(Debug, Default)]
pub(super) struct DrainingAddresses {
    owned: Addresses,
    /// Time since which each address belongs to another node.
    since: BTreeMap<IpAddr, Instant>,
    next_check: Option<Instant>,
}

impl DrainingAddresses {
    /// Updates the set. `owned` are the addresses of this node; `busy` returns addresses with open connections.
    pub(super) fn update(&mut self, now: Instant, owned: &Addresses, busy: impl FnOnce() -> Addresses) {
        for address in self.owned.difference(owned) {
            self.since.insert(*address, now);
        }
        self.owned.clone_from(owned);
        self.since.retain(|address, _| !owned.contains(address));
        if self.since.is_empty() {
            self.next_check = None;
            return;
        }
        let check_at = *self.next_check.get_or_insert(now + CHECK_INTERVAL);
        if now < check_at {
            return;
        }
        self.next_check = Some(now + CHECK_INTERVAL);
        let busy = busy();
        self.since.retain(|address, since| {
            let elapsed = now.saturating_duration_since(*since);
            elapsed < DRAIN_MIN || (elapsed < FORWARDING_DURATION_MAX && busy.contains(address))
        });
        if self.since.is_empty() {
            self.next_check = None;
        }
    }

    /// Returns the draining addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.since.keys().copied()
    }

    /// Returns true if the address is draining.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.since.contains_key(&address)
    }

    /// Returns the time of the next call of [`DrainingAddresses::update`], if one is due.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.next_check
    }
}
