//! The kernel's network configuration by netlink (RFC 3549), on raw sockets: no other program is run.
//!
//! - [`message`]: messages and attributes as bytes
//! - [`socket`]: datagrams to the kernel and back
//! - [`nftables`]: tables, chains, rules, sets and their elements, in transactions
//! - [`conntrack`]: the flows that the kernel knows
//! - [`ipset`]: address sets, listed and taken away
//! - [`route`]: links, addresses, routes, neighbours

pub mod conntrack;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod ipset;
pub mod message;
pub mod nftables;
pub mod route;
pub mod socket;
