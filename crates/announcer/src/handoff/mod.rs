//! Connections that stay open when an address moves to another node.
//!
//! The new owner forwards packets of connections that it does not track to the previous owner. `previous_owners` (pure)
//! decides the target, `forwarding` writes the nftables rules, and `next_hop` finds the link and the neighbour. When an
//! address returns, `ownership_history` (pure) decides which conntrack entries are stale, and `conntrack_flush` deletes
//! them.

pub(crate) mod conntrack_flush;
pub(crate) mod forwarding;
pub(crate) mod next_hop;
pub(crate) mod ownership_history;
pub(crate) mod previous_owners;

use std::net::IpAddr;

use crate::Time;
use crate::election::vote_leases::LeaseHolder;
use ownership_history::OwnershipHistory;
use previous_owners::PreviousOwners;

/// The pure part of the hand-off.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) previous_owners: PreviousOwners,
    pub(crate) history: OwnershipHistory,
    /// Time of the next liveness check of the nodes that packets are forwarded to.
    pub(crate) next_check: Time,
}

impl Handoff {
    /// Creates the state of a process that starts now.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            previous_owners: PreviousOwners::default(),
            history: OwnershipHistory::default(),
            next_check: now,
        }
    }

    /// Records that this node granted its vote for an address to another process.
    pub(crate) fn vote_granted(&mut self, address: IpAddr, to: &LeaseHolder) {
        self.previous_owners.vote_granted(address, &to.name);
        self.history.vote_granted(address, to);
    }

    /// Drops an address that is no longer to be announced.
    pub(crate) fn remove_address(&mut self, address: IpAddr) {
        self.previous_owners.remove_address(address);
        self.history.remove_address(address);
    }
}
