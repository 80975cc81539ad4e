//! Routes to announce, and the differences to the routes that a peer has.
//!
//! The desired routes are a state, not a sequence of changes. [`Advertised`] records the routes that a peer has. The
//! number of UPDATEs is therefore the number of prefixes that differ, however often the state changes before they are
//! sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::Family;
use crate::community::{AnyCommunity, Community, LargeCommunity};

#[cfg(test)]
mod tests;

/// Maximum number of communities of each kind on a route, so that attributes leave space for prefixes.
pub const COMMUNITIES_MAX: usize = 64;
/// Maximum number of routes to a peer; it bounds the memory of the speaker.
pub const ROUTES_MAX: usize = 65_536;
/// Maximum number of changed prefixes that one batch looks at.
const BATCH_PREFIXES_MAX: usize = 1_024;

/// Next hop of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Address of IPv4.
    Ipv4(Ipv4Addr),
    /// Address of IPv6, with the link-local one if the peer is on the same link.
    Ipv6 {
        /// Global address, or the link-local one without a global.
        address: Ipv6Addr,
        /// Link-local address.
        link_local: Option<Ipv6Addr>,
    },
}

/// Attributes of an announced route.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteAttributes {
    /// LOCAL_PREF for peers of the same autonomous system; `None` for 100.
    pub local_preference: Option<u32>,
    communities: BTreeSet<Community>,
    large_communities: BTreeSet<LargeCommunity>,
}

impl RouteAttributes {
    /// Adds a community. Returns false if there are [`COMMUNITIES_MAX`] others of its kind.
    pub fn add(&mut self, community: AnyCommunity) -> bool {
        match community {
            AnyCommunity::Standard(community) => add(&mut self.communities, community),
            AnyCommunity::Large(community) => add(&mut self.large_communities, community),
        }
    }

    /// Returns the standard communities.
    pub fn communities(&self) -> impl Iterator<Item = Community> {
        self.communities.iter().copied()
    }

    /// Returns the large communities.
    pub fn large_communities(&self) -> impl Iterator<Item = LargeCommunity> {
        self.large_communities.iter().copied()
    }
}

fn add<T: Ord>(set: &mut BTreeSet<T>, community: T) -> bool {
    if set.contains(&community) {
        return true;
    }
    set.len() < COMMUNITIES_MAX && set.insert(community)
}

/// Routes by prefix.
pub type Routes = BTreeMap<IpNet, Arc<RouteAttributes>>;

/// Prefixes of one UPDATE: same family and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Family of the prefixes.
    pub family: Family,
    /// Attributes; `None` to withdraw.
    pub attributes: Option<Arc<RouteAttributes>>,
    /// Prefixes; not empty.
    pub prefixes: Vec<IpNet>,
}

/// Desired routes, and those that a peer has.
#[derive(Debug, Default)]
pub struct Advertised {
    desired: Routes,
    sent: Routes,
    /// Prefixes whose sent route may differ from the desired one.
    changed: BTreeSet<IpNet>,
    /// Families to send again after their changed prefixes, so that many requests of a peer cost as much as one.
    refreshes: BTreeSet<Family>,
}

impl Advertised {
    /// Replaces the desired routes. Routes beyond [`ROUTES_MAX`] are left out; returns their number.
    pub fn set(&mut self, mut desired: Routes) -> usize {
        let excess = desired.len().saturating_sub(ROUTES_MAX);
        for _ in 0..excess {
            desired.pop_last();
        }
        let before = std::mem::replace(&mut self.desired, desired);
        let gone = before.keys().filter(|prefix| !self.desired.contains_key(*prefix));
        self.changed.extend(gone);
        let differ =
            |(prefix, attributes): &(&IpNet, &Arc<RouteAttributes>)| before.get(*prefix) != Some(*attributes);
        let differing = self.desired.iter().filter(differ);
        self.changed.extend(differing.map(|(prefix, _)| *prefix));
        self.changed
            .retain(|prefix| self.desired.get(prefix) != self.sent.get(prefix));
        self.start_refreshes();
        excess
    }

    /// Drops the record of the routes that the peer has, after a new session.
    pub fn reset(&mut self) {
        self.sent.clear();
        self.refreshes.clear();
        self.changed = self.desired.keys().copied().collect();
    }

    /// Sends all routes of a family again, after the prefixes of the family that wait.
    pub fn refresh(&mut self, family: Family) {
        if self.refreshes.insert(family) {
            self.start_refreshes();
        }
    }

    /// Starts the refreshes of families without changed prefixes: a withdrawal that waits depends on `sent`.
    fn start_refreshes(&mut self) {
        let (sent, changed) = (&mut self.sent, &mut self.changed);
        self.refreshes.retain(|family| {
            let is_of_family = |prefix: &&IpNet| Family::of(prefix) == *family;
            if changed.iter().any(|prefix| is_of_family(&prefix)) {
                return true;
            }
            sent.retain(|prefix, _| !is_of_family(&prefix));
            changed.extend(self.desired.keys().filter(is_of_family).copied());
            false
        });
    }

    /// Returns the next prefixes to send, of the families in `is_sendable`; `None` if the peer has all routes.
    pub fn next_batch(&self, is_sendable: impl Fn(Family) -> bool) -> Option<Batch> {
        let is_pending = |prefix: &IpNet| self.desired.get(prefix) != self.sent.get(prefix);
        let mut sendable = self
            .changed
            .iter()
            .filter(|prefix| is_sendable(Family::of(prefix)) && is_pending(prefix));
        let first = *sendable.next()?;
        let family = Family::of(&first);
        let attributes = self.desired.get(&first);
        let is_alike =
            |prefix: &&IpNet| Family::of(prefix) == family && self.desired.get(*prefix) == attributes;
        let alike = sendable.take(BATCH_PREFIXES_MAX).filter(is_alike).copied();
        Some(Batch {
            family,
            attributes: attributes.cloned(),
            prefixes: std::iter::once(first).chain(alike).collect(),
        })
    }

    /// Notes that the first `count` prefixes of a batch were sent.
    pub fn sent(&mut self, batch: &Batch, count: usize) {
        for prefix in batch.prefixes.iter().take(count) {
            match &batch.attributes {
                Some(attributes) => {
                    self.sent.insert(*prefix, Arc::clone(attributes));
                }
                None => {
                    self.sent.remove(prefix);
                }
            }
            self.changed.remove(prefix);
        }
        self.start_refreshes();
    }

    /// Returns the number of desired routes.
    pub fn desired_count(&self) -> usize {
        self.desired.len()
    }

    /// Returns the routes that the peer has.
    pub fn sent_routes(&self) -> &Routes {
        &self.sent
    }

    /// Returns the number of prefixes that wait to be sent.
    pub fn pending_count(&self) -> usize {
        self.changed.len()
    }
}
