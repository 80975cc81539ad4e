//! A BGP speaker that announces routes: codec and state machine, without sockets, clock and randomness.
//!
//! | Module | Contents |
//! |---|---|
//! | [`message`] | messages on the wire: OPEN, UPDATE, NOTIFICATION, KEEPALIVE, ROUTE-REFRESH |
//! | [`community`] | standard and large communities in text and numbers |
//! | [`routes`] | routes to announce, and the differences to the routes that a peer has |
//! | [`session`] | state machine of one peer: connections, timers, negotiation, collisions |
//! | [`bfd`] | Bidirectional Forwarding Detection: packets and state machine |
//!
//! The speaker announces routes of IPv4 and IPv6 unicast (RFC 4271, RFC 4760). It counts and discards the routes that
//! peers announce, so a peer cannot fill its memory. Malformed attributes are handled by RFC 7606.
//!
//! # Example
//!
//! ```
//! use bgp::message::{self, encode};
//!
//! let bytes = encode::keepalive();
//! assert_eq!(message::frame_length(&bytes), Ok(Some(19)));
//! ```

pub mod bfd;
pub mod community;
pub mod message;
pub mod routes;
pub mod session;
#[cfg(test)]
mod simulation;

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// Point in time on a monotonic clock, since an arbitrary start.
pub type Time = Duration;

/// Number of an autonomous system (RFC 6793).
pub type AutonomousSystem = u32;

/// Address family of unicast routes (RFC 4760).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// AFI 1, SAFI 1.
    Ipv4,
    /// AFI 2, SAFI 1.
    Ipv6,
}

impl Family {
    /// Both families.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];
    /// Subsequent address family identifier of unicast routes.
    pub(crate) const UNICAST: u8 = 1;

    /// Returns the address family identifier.
    pub(crate) const fn afi(self) -> u16 {
        match self {
            Self::Ipv4 => 1,
            Self::Ipv6 => 2,
        }
    }

    /// Returns the family of identifiers; `None` if this speaker does not support it.
    pub(crate) fn of_identifiers(afi: u16, safi: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|family| family.afi() == afi && safi == Self::UNICAST)
    }

    /// Returns the family of a prefix.
    pub fn of(prefix: &IpNet) -> Self {
        Self::of_address(&prefix.addr())
    }

    /// Returns the family of an address.
    pub fn of_address(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }
}
