//! Connections that stay open when an address moves to another node.
//!
//! The new owner forwards packets of connections that it does not know to the previous owner. `previous_owners` decides
//! where to (pure), `forwarding` writes the nftables rules, `next_hop` finds the link and the neighbour. When an address
//! returns, `ownership_history` (pure) decides which conntrack entries are stale, and `conntrack_flush` deletes them.

pub(crate) mod conntrack_flush;
pub(crate) mod forwarding;
pub(crate) mod next_hop;
pub(crate) mod ownership_history;
pub(crate) mod previous_owners;
