//! Settings of a session, and the addresses of its connections.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::routes::NextHop;
use crate::{AutonomousSystem, Family};

/// Autonomous system that a peer has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSystem {
    /// The given number.
    Number(AutonomousSystem),
    /// Number of this speaker.
    Internal,
    /// Any number but that of this speaker.
    External,
}

impl PeerSystem {
    /// Returns true if a peer may be in the autonomous system `peer`. This speaker is in `local`.
    pub(super) fn allows(self, peer: AutonomousSystem, local: AutonomousSystem) -> bool {
        match self {
            Self::Number(number) => peer == number,
            Self::Internal => peer == local,
            Self::External => peer != local,
        }
    }
}

/// Settings of a session with one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Autonomous system of this speaker.
    pub local_as: AutonomousSystem,
    /// Autonomous system of the peer.
    pub peer_as: PeerSystem,
    /// BGP identifier of this speaker.
    pub router_id: Ipv4Addr,
    /// Hold time in seconds: 0 for sessions without it, or at least 3. The lower value of both speakers applies.
    pub hold_seconds: u16,
    /// Time between two KEEPALIVEs; a third of the hold time if `None`, and at most that.
    pub keepalive: Option<Duration>,
    /// Maximum delay between two attempts to connect.
    pub connect_retry: Duration,
    /// True to wait for connections of the peer.
    pub is_passive: bool,
    /// Families to negotiate.
    pub families: Vec<Family>,
    /// Time for which peers keep the routes after a restart (RFC 4724); `None` to negotiate no graceful restart.
    pub restart_seconds: Option<u16>,
    /// True if the host started shortly before this speaker, which may have replaced one from before that. The forwarding
    /// state of that time is lost.
    pub is_after_boot: bool,
}

/// Addresses of this host on a connection, for next hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// Address of IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// Address of IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// Link-local address of IPv6, if the peer is on the same link.
    pub link_local: Option<Ipv6Addr>,
}

impl LocalAddresses {
    /// Returns the next hop of routes of a family. Routes of IPv4 have one of IPv6 only if the peer supports that
    /// (RFC 8950).
    pub(super) fn next_hop(&self, family: Family, has_extended_next_hop: bool) -> Option<NextHop> {
        let ipv4 = self.ipv4.map(NextHop::Ipv4);
        let global = self.ipv6.map(|address| NextHop::Ipv6 {
            address,
            link_local: self.link_local,
        });
        // Without a global address, the link-local one is the only one.
        let link_local = self.link_local.map(|address| NextHop::Ipv6 {
            address,
            link_local: None,
        });
        let ipv6 = global.or(link_local);
        match family {
            Family::Ipv4 => ipv4.or(ipv6.filter(|_| has_extended_next_hop)),
            Family::Ipv6 => ipv6,
        }
    }
}
