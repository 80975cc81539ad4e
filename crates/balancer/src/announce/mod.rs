//! Announcing addresses on the local network: one node answers ARP and NDP for each address.
//!
//! Who answers is decided by votes, address by address. Every node has one vote for each address, lends it to one node
//! at a time, and takes it back when that node was not heard for the fence interval. A node answers for an address only
//! as long as more than half of the members lend it their votes, by leases that it measures itself with its own steady
//! clock. Two majorities have a member in common, so there are never two nodes that answer for one address,
//! whoever is cut off from whom; a frozen process finds its leases ended when it wakes. None of it needs the API server,
//! but for the list of members ([`api::announcers`]) and the casting vote of clusters with an even number of them.
//!
//! - [`demand`]: which addresses there are and which nodes may answer for them, from Services, slices, Nodes and pools
//! - [`means`]: what nodes must have for some addresses
//! - [`links`]: the links that addresses are announced on
//! - [`rendezvous`]: which of these nodes should
//! - [`api::announcers`]: the list of members, kept in a Lease
//! - [`ballot`]: the votes that this node lends
//! - [`core`]: the state machine of a node; no clock, no I/O
//! - [`predecessors`]: who answered for an address before, and still knows its connections
//! - [`tenures`]: what the kernel may still remember of connections to addresses that come back
//! - [`entrance`]: where nodes take packets that others send on to them
//! - `leads`: the kernel's part of sending packets on
//! - `flows`: making the kernel forget connections
//! - [`keys`]: what messages are authenticated with
//! - [`message`]: what nodes tell each other, in bytes
//! - [`frame`]: ARP and NDP in bytes
//! - [`status`]: what is told of members and addresses
//! - `world`: what watches tell of the API
//! - [`run()`]: the loop around the core, with sockets and the API
//!
//! The simulation in the tests drives whole clusters of cores through loss, partitions, freezes and restarts.

pub mod ballot;
pub mod core;
pub mod demand;
pub mod entrance;
mod flows;
pub mod frame;
pub mod keys;
mod leads;
pub mod links;
pub mod means;
pub mod message;
mod metrics;
mod peer;
mod ports;
pub mod predecessors;
mod registry;
pub mod rendezvous;
mod run;
#[cfg(test)]
mod simulation;
pub mod status;
pub mod tenures;
mod world;

use std::time::Duration;

pub use api::announcers::{MEMBERS_MAX, NodeName};
pub use links::LinkSelection;
pub use metrics::Metrics;
pub use run::{AnnounceError, Settings, run};
pub use status::Status;

/// A moment on the own steady clock: the time since some moment that stays the same while the process runs.
pub type Time = Duration;

/// The time between two probes to the same node; each is up to a fifth shorter or longer.
pub const PROBE_PERIOD: Duration = Duration::from_millis(100);
/// How long a node may be silent before others ask for its addresses.
pub const SUSPECT_AFTER: Duration = Duration::from_millis(400);
/// How long a node may use a vote after it sent the probe that the vote was last confirmed for.
pub const VOTE_LASTS: Duration = Duration::from_millis(600);
/// The fence interval: how long a member keeps its vote with a node that it does not hear. It is longer than
/// [`VOTE_LASTS`] by more than clocks may run apart.
pub const FENCE: Duration = Duration::from_millis(700);
/// When a taken address is announced, after the moment it was taken: neighbours may miss some.
pub const ANNOUNCED_AFTER: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Most addresses that votes are kept for: bounds what members can make each other hold.
pub const ADDRESSES_MAX: usize = 65_536;
