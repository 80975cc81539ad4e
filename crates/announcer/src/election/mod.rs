//! Election of the owner of each address. Inputs are messages, API changes and time; outputs are messages,
//! announcements and writes. No clock, no I/O.
//!
//! A vote has two deadlines, one for the member and an earlier one for the candidate. A member that receives a probe
//! leases its votes to the sender for [`crate::FENCING_INTERVAL`], on its own clock. Its next message confirms the
//! lease. The candidate uses the votes until [`crate::VOTE_LEASE`] after *it sent* that probe, on its own clock. A
//! starting process grants no votes for one fencing interval, because it has no record of the votes of its predecessor.
//! The interval is shorter in two cases: the list has never contained another node, or the predecessor reported the
//! end of its votes.
//!
//! Each node claims the addresses that it wins by [`rendezvous`] hashing among the nodes that it considers
//! available. Nodes with different views may claim the same address; votes decide. The owner keeps an address
//! until the preferred owner requests its vote. Nodes without the required [`capabilities`] do not claim an
//! address.
//!
//! A node that releases an address announces the release to all members. The new owner forwards packets of unknown
//! connections to this node ([`crate::handoff::previous_owners`]).

pub(crate) mod capabilities;
mod claims;
mod exchange;
mod handoff;
mod inspection;
pub(crate) mod membership;
pub(crate) mod membership_store;
mod ownership;
mod peer;
mod peers;
mod proposals;
pub mod rendezvous;
mod state;
pub(crate) mod vote_leases;

pub(crate) use state::{Candidates, Effect, Election, Identity};
