//! Links, addresses, routes, policy rules and neighbours by rtnetlink (RFC 3549; the kernel's `rtnetlink.h`,
//! `if_link.h`, `if_addr.h`, `fib_rules.h`, `neighbour.h`).
//!
//! A [`Connection`] stays in the network namespace in which it was opened, even if its thread moves to another one.
//! Each call is one request with its acknowledgement and blocks for microseconds.

mod address;
mod connection;
mod error;
mod link;
mod link_id;
mod listing;
mod message;
mod namespace;
mod neighbour;
mod routes;
mod rule;
mod table;
mod vxlan;

/// Decodes a message, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    link::parse(message.payload);
    address::parse(message.payload);
    routes::parse(message.payload);
    listing::parse(message.payload);
    neighbour::parse(message.payload);
    rule::parse(message.payload);
    vxlan::parse_entry(message.payload);
    vxlan::parse(message.payload);
}

#[cfg(test)]
mod tests;

pub use address::Address;
pub use connection::Connection;
pub use error::RouteError;
pub use link::{Link, LinkChange, Master};
pub use link_id::{LinkIndex, LinkName, NAME_BYTES_MAX};
pub use listing::ListedRoute;
pub use namespace::NetworkNamespace;
pub use neighbour::Neighbour;
pub use routes::{Action, Route};
pub use rule::{Rule, RuleFamily, RuleMark};
pub use table::RouteTable;
pub use vxlan::{ForwardingEntry, Vxlan};
