//! The kernel's network configuration by netlink (RFC 3549), on raw sockets: no other program is run. And its other
//! doors that a link is reached by.
//!
//! - [`message`]: messages and attributes as bytes
//! - [`socket`]: datagrams to the kernel and back
//! - [`nftables`]: tables, chains, rules, sets and their elements, in transactions
//! - [`conntrack`]: the flows that the kernel knows
//! - [`ipset`]: address sets, listed and taken away
//! - [`accounting`]: counters that rules of iptables add to
//! - [`route`]: links, addresses, routes, neighbours
//! - [`packet`]: frames of a link
//! - [`tcp`]: what the kernel knows of a connection
//! - [`rlimit`]: resource limits of this process
//! - [`clock`]: the clock that goes on while the machine sleeps

pub mod accounting;
pub mod clock;
pub mod conntrack;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod ipset;
pub mod message;
mod netfilter;
pub mod nftables;
pub mod packet;
pub mod rlimit;
pub mod route;
pub mod socket;
pub mod tcp;
