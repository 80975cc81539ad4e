//! Election of the owner of each address: messages, API changes and time in; messages, announcements and writes out.
//! No clock, no I/O.
//!
//! Two leases make the election safe. A member that receives a probe leases its votes to the sender until
//! [`crate::FENCING_INTERVAL`] later on its own clock, and confirms this in its next message. The candidate
//! uses the votes until [`crate::VOTE_LEASE`] after *it sent* that probe, on its own clock, which is always
//! earlier. A starting process grants no votes for one fencing interval, because it does not know the votes
//! of its predecessor.
//!
//! Each node claims the addresses that it wins by [`rendezvous`] hashing among the nodes that it considers
//! available. Nodes with different views may claim the same address; votes decide. The owner keeps an address
//! until the preferred owner requests its vote. Nodes without the required [`capabilities`] do not claim an
//! address.
//!
//! A node that releases an address announces this to all members. The new owner forwards packets of unknown
//! connections to it ([`crate::handoff::previous_owners`]).

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
