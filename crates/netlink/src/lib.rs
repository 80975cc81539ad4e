//! Network interfaces of the kernel: netlink (RFC 3549) on raw sockets, packet sockets, TCP state, resource limits
//! and clocks. The crate starts no other program.
//!
//! - [`message`]: messages and attributes as bytes
//! - [`socket`]: netlink sockets
//! - [`nftables`]: tables, chains, rules, sets and elements, in transactions
//! - [`conntrack`]: connection tracking entries
//! - [`ipset`]: listing and deletion of sets
//! - [`ipvs`]: virtual servers and their destinations
//! - [`accounting`]: counters of iptables rules
//! - [`bpf`]: eBPF programs, maps, and attachments to control groups and interfaces
//! - [`route`]: links, addresses, routes, policy rules, neighbours
//! - [`socket_diagnostics`]: TCP sockets of a network namespace, and their destruction
//! - [`packet`]: frames of a link
//! - [`echo`]: ICMP echo requests
//! - [`segment`]: TCP segments with any source address
//! - [`self_addressed`]: UDP datagrams that a neighbour returns
//! - [`tcp`]: state of TCP connections
//! - [`rlimit`]: resource limits of this process
//! - [`clock`]: clock that continues during suspend
//!
//! ```no_run
//! use netlink::nftables::{Batch, Change, Nftables, Table};
//!
//! let mut nftables = Nftables::open()?;
//! let table = Table {
//!     name: "example".to_owned(),
//!     comment: String::new(),
//!     is_dormant: false,
//! };
//! let mut batch = Batch::new(&table.name, None);
//! batch.table(Change::Add, &table, 0);
//! nftables.commit(batch)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod accounting;
pub mod bpf;
pub mod clock;
pub mod conntrack;
pub mod echo;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod ipset;
pub mod ipvs;
pub mod message;
mod netfilter;
pub mod nftables;
pub mod packet;
pub mod rlimit;
pub mod route;
pub mod segment;
pub mod self_addressed;
pub mod socket;
pub mod socket_diagnostics;
pub mod tcp;
