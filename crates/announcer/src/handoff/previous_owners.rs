//! Previous owners of addresses, and forwarding to them.
//!
//! Only the node through which a TCP connection was opened tracks the connection. After a planned move, the new owner
//! forwards packets of unknown connections to the previous owner.
//!
//! Each node records which node released an address last ([`PreviousOwners::record_release`]). It forwards packets to
//! the recorded node while it owns the address, and after its own release. Packets therefore reach the connections of
//! several former owners, one hop after the other. Forwarding never loops. No node forwards to the current owner, and
//! no node starts to forward to a node that may forward back. A node does not forward back after it has granted its
//! vote for the address to this node, or has announced its shutdown.
//!
//! A new owner may not have identified the previous owner yet, or may not forward to it yet. Until then the address is
//! *pending* ([`PreviousOwners::pending`]): packets of unknown connections are dropped, and TCP retransmits
//! them. Otherwise the kernel would answer with a reset.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use balancer::serving::FORWARDING_DURATION_MAX;

use crate::{ADDRESSES_MAX, NodeName, Time};

#[cfg(test)]
mod tests;

/// Maximum time without a message of a previous owner that did not announce its shutdown. Clients with connections
/// through a failed node detect it no earlier. A busy network or process costs no connection.
pub(crate) const UNANSWERED_MAX: Duration = Duration::from_secs(5);
/// Time for which a new owner waits for the vote of the previous owner, and for messages that name it.
pub(crate) const ATTRIBUTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Liveness of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Not a member, or replaced by another process.
    Removed,
    /// Without a message for this duration.
    WithoutMessage(Duration),
    /// Announced its shutdown and sent nothing since. Its kernel may keep running.
    Leaving,
}

/// Previous owners by address, and the forwarding that follows from them.
#[derive(Debug, Default)]
pub(crate) struct PreviousOwners {
    by_address: BTreeMap<IpAddr, AddressOwners>,
    /// Owned addresses without a forwarding decision, and the time of their acquisition.
    pending: BTreeMap<IpAddr, Time>,
    is_changed: bool,
}

/// Other owners of one address.
#[derive(Debug, Default)]
struct AddressOwners {
    /// The last node that released the address.
    last: Option<PreviousOwner>,
    /// The node that this node forwards to.
    forwarded_to: Option<PreviousOwner>,
}

/// Node that released an address, with the time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PreviousOwner {
    node: NodeName,
    released_at: Time,
}

impl PreviousOwners {
    /// Records that another node released an address that it announced. `is_owner`: this node owns the address now.
    pub(crate) fn record_release(&mut self, now: Time, address: IpAddr, by: &NodeName, is_owner: bool) {
        if !self.by_address.contains_key(&address) && self.by_address.len() >= ADDRESSES_MAX {
            return;
        }
        let owners = self.by_address.entry(address).or_default();
        // Nodes repeat releases until they are confirmed.
        if is_node(owners.last.as_ref(), by) {
            return;
        }
        owners.last = Some(PreviousOwner {
            node: NodeName::clone(by),
            released_at: now,
        });
        if is_owner && !is_node(owners.forwarded_to.as_ref(), by) {
            self.acquired(now, address);
        }
    }

    /// Records that this node owns an address from now on.
    pub(crate) fn acquired(&mut self, now: Time, address: IpAddr) {
        self.is_changed |= self.pending.insert(address, now).is_none();
    }

    /// Decides about pending addresses. `may_forward` returns true if a node does not forward an address to this node;
    /// `is_attributed` returns true if every possible previous owner has reported.
    pub(crate) fn decide_pending(
        &mut self,
        now: Time,
        may_forward: impl Fn(IpAddr, &NodeName) -> bool,
        is_attributed: impl Fn(IpAddr) -> bool,
    ) {
        let Self {
            by_address,
            pending,
            is_changed,
        } = self;
        let count = pending.len();
        pending.retain(|address, since| {
            let is_in_time = now < *since + ATTRIBUTION_TIMEOUT;
            let mut owners = by_address.get_mut(address);
            let last = owners.as_deref().and_then(|owners| owners.last.as_ref());
            // A node that released the address long ago need not be the last one.
            let is_recent = last.is_some_and(|last| *since < last.released_at + ATTRIBUTION_TIMEOUT);
            if is_in_time && !is_recent && !is_attributed(*address) {
                return true;
            }
            let Some(owners) = &mut owners else { return false };
            let Some(last) = &owners.last else { return false };
            if owners.forwarded_to.as_ref() == Some(last) {
                return false;
            }
            if !may_forward(*address, &last.node) {
                return is_in_time;
            }
            owners.forwarded_to = Some(last.clone());
            *is_changed = true;
            false
        });
        *is_changed |= pending.len() < count;
    }

    /// Records that this node no longer owns an address. Forwarding continues if the new owner `to` is known
    /// and is not the node that packets are forwarded to.
    pub(crate) fn lost(&mut self, address: IpAddr, to: Option<&NodeName>) {
        self.is_changed |= self.pending.remove(&address).is_some();
        self.update(address, |owners| {
            owners
                .forwarded_to
                .take_if(|next| to.is_none_or(|to| next.node == *to));
        });
    }

    /// Notes that another node requests the vote for an address that this node does not own: it may own it in a moment.
    pub(crate) fn vote_requested(&mut self, address: IpAddr, by: &NodeName) {
        self.update(address, |owners| {
            owners.forwarded_to.take_if(|next| next.node == *by);
        });
    }

    /// Records that this node granted its vote for an address to another node.
    pub(crate) fn vote_granted(&mut self, address: IpAddr, to: &NodeName) {
        self.update(address, |owners| {
            owners.forwarded_to.take_if(|next| next.node == *to);
            owners.last.take_if(|last| last.node == *to);
        });
    }

    /// Drops an address that is no longer to be announced.
    pub(crate) fn remove_address(&mut self, address: IpAddr) {
        self.is_changed |= self.pending.remove(&address).is_some();
        let owners = self.by_address.remove(&address);
        self.is_changed |= owners.is_some_and(|owners| owners.forwarded_to.is_some());
    }

    /// Drops a node whose host is down or not on the link.
    pub(crate) fn remove_node(&mut self, node: &NodeName) {
        self.retain(|owner| owner.node != *node);
    }

    /// Stops forwarding for addresses that this node does not own, because the process shuts down.
    pub(crate) fn retain_owned(&mut self, is_owner: impl Fn(IpAddr) -> bool) {
        for (address, owners) in &mut self.by_address {
            if !is_owner(*address) {
                self.is_changed |= owners.forwarded_to.take().is_some();
            }
        }
    }

    /// Drops failed nodes and releases older than [`FORWARDING_DURATION_MAX`].
    pub(crate) fn expire(&mut self, now: Time, liveness: impl Fn(&NodeName) -> Liveness) {
        let nodes = self
            .by_address
            .values()
            .flat_map(|owners| [&owners.last, &owners.forwarded_to]);
        let nodes: BTreeSet<NodeName> = nodes
            .flatten()
            .map(|owner| NodeName::clone(&owner.node))
            .collect();
        let has_failed = |node: &NodeName| match liveness(node) {
            Liveness::Removed => true,
            Liveness::WithoutMessage(time) => time > UNANSWERED_MAX,
            Liveness::Leaving => false,
        };
        let failed: BTreeSet<NodeName> = nodes.into_iter().filter(has_failed).collect();
        self.retain(|owner| {
            !failed.contains(&owner.node) && now < owner.released_at + FORWARDING_DURATION_MAX
        });
    }

    /// Returns the forwarded addresses and the nodes that packets of unknown connections go to.
    pub(crate) fn forwarded(&self) -> impl Iterator<Item = (IpAddr, &NodeName)> {
        self.by_address
            .iter()
            .filter_map(|(address, owners)| Some((*address, &owners.forwarded_to.as_ref()?.node)))
    }

    /// Returns the node that packets of unknown connections to an address go to.
    pub(crate) fn forwarded_to(&self, address: IpAddr) -> Option<&NodeName> {
        let next = self.by_address.get(&address)?.forwarded_to.as_ref();
        next.map(|owner| &owner.node)
    }

    /// Returns the owned addresses without a forwarding decision.
    pub(crate) fn pending(&self) -> impl Iterator<Item = IpAddr> {
        self.pending.keys().copied()
    }

    /// Returns true if [`PreviousOwners::forwarded`] or [`PreviousOwners::pending`] changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    fn update(&mut self, address: IpAddr, update: impl FnOnce(&mut AddressOwners)) {
        let Some(owners) = self.by_address.get_mut(&address) else {
            return;
        };
        let was_forwarded = owners.forwarded_to.is_some();
        update(owners);
        self.is_changed |= was_forwarded && owners.forwarded_to.is_none();
        if owners.last.is_none() && owners.forwarded_to.is_none() {
            self.by_address.remove(&address);
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&PreviousOwner) -> bool) {
        for owners in self.by_address.values_mut() {
            owners.last.take_if(|last| !is_kept(last));
            self.is_changed |= owners.forwarded_to.take_if(|next| !is_kept(next)).is_some();
        }
        self.by_address
            .retain(|_, owners| owners.last.is_some() || owners.forwarded_to.is_some());
    }
}

fn is_node(owner: Option<&PreviousOwner>, node: &NodeName) -> bool {
    owner.is_some_and(|owner| owner.node == *node)
}
