//! Configuration of announcing by BGP: peers and advertisements, from MetalLB's objects and Portolan's.
//!
//! | Module | Contents |
//! |---|---|
//! | [`objects`] | views of the objects |
//! | `parse` | validation of the objects |
//! | `watch` | watches of the objects, if the API server has the kinds |
//!
//! Objects of both groups have the same fields. An object refers to others of its own group only: a BGPAdvertisement of
//! MetalLB selects IPAddressPools, one of Portolan AddressPools.

pub mod objects;
mod parse;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use api::object::{AddressPoolSpec, Labels, ObjectKey};
use api::selector::LabelSelector;
use bgp::community::AnyCommunity;
use bgp::session::PeerSystem;

pub use parse::InvalidObject;
pub(crate) use watch::{Configurations, watch};

use balancer::metallb::objects::IpAddressPoolSpec;
use objects::{BfdProfileSpec, BgpAdvertisementSpec, BgpPeerSpec, CommunitySpec};

#[cfg(test)]
mod tests;

/// API group of a configuration object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// `portolan.dev`.
    Portolan,
    /// `metallb.io`.
    MetalLb,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portolan => "portolan.dev",
            Self::MetalLb => "metallb.io",
        })
    }
}

/// Group and name of an object.
pub type Name = (Group, String);

/// Object with its identity, for Events.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object<S> {
    pub(crate) uid: String,
    pub(crate) labels: Labels,
    pub(crate) spec: S,
}

/// Objects at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Objects {
    pub(crate) peers: BTreeMap<Name, Object<BgpPeerSpec>>,
    pub(crate) advertisements: BTreeMap<Name, Object<BgpAdvertisementSpec>>,
    pub(crate) communities: BTreeMap<Name, Object<CommunitySpec>>,
    pub(crate) profiles: BTreeMap<Name, Object<BfdProfileSpec>>,
    /// AddressPools by name.
    pub(crate) pools: BTreeMap<Name, Object<AddressPoolSpec>>,
    /// IPAddressPools by name.
    pub(crate) metallb_pools: BTreeMap<Name, Object<IpAddressPoolSpec>>,
}

/// Place of a router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    /// Router with a configured address.
    Address(IpAddr),
    /// Router on a link, whose address its router advertisements contain.
    Link(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Link(link) => f.write_str(link),
        }
    }
}

/// A valid BGPPeer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) local_as: u32,
    pub(crate) peer_as: PeerSystem,
    pub(crate) location: Location,
    pub(crate) port: u16,
    pub(crate) source: Option<IpAddr>,
    pub(crate) router_id: Option<Ipv4Addr>,
    pub(crate) hold_seconds: u16,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) connect_retry: Duration,
    pub(crate) nodes: Vec<LabelSelector>,
    pub(crate) password: Option<Password>,
    pub(crate) bfd: Option<BfdProfile>,
    pub(crate) has_graceful_restart: bool,
    pub(crate) is_multi_hop: bool,
    pub(crate) is_passive: bool,
    pub(crate) has_ttl_security: bool,
    pub(crate) vrf: Option<String>,
    pub(crate) is_dual_stack: bool,
}

/// Password of a peer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Password {
    Given(String),
    Secret(ObjectKey),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given"),
            Self::Secret(key) => write!(f, "Secret({key})"),
        }
    }
}

/// BFD timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BfdProfile {
    pub(crate) settings: bgp::bfd::Settings,
    pub(crate) minimum_ttl: u8,
}

/// A valid BGPAdvertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement {
    pub(crate) length4: u8,
    pub(crate) length6: u8,
    pub(crate) local_preference: Option<u32>,
    pub(crate) communities: Vec<AnyCommunity>,
    pub(crate) pool_names: Vec<String>,
    pub(crate) pools: Vec<LabelSelector>,
    pub(crate) nodes: Vec<LabelSelector>,
    pub(crate) services: Vec<LabelSelector>,
    pub(crate) peers: Vec<String>,
}

/// Valid objects, and the faults of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Configuration {
    pub(crate) peers: BTreeMap<Name, Peer>,
    pub(crate) advertisements: BTreeMap<Name, Advertisement>,
    pub(crate) invalid: Vec<InvalidObject>,
}

impl Configuration {
    /// Validates the objects. An invalid one does not affect others.
    pub(crate) fn of(objects: &Objects, metallb_namespace: &str) -> Self {
        let mut configuration = Self::default();
        for (name, object) in &objects.peers {
            match parse::peer(name.0, &object.spec, objects, metallb_namespace) {
                Ok(peer) => {
                    configuration.peers.insert(name.clone(), peer);
                }
                Err(reason) => configuration.reject("BGPPeer", name, &object.uid, reason),
            }
        }
        for (name, object) in &objects.advertisements {
            match parse::advertisement(name.0, &object.spec, objects) {
                Ok(advertisement) => {
                    configuration.advertisements.insert(name.clone(), advertisement);
                }
                Err(reason) => configuration.reject("BGPAdvertisement", name, &object.uid, reason),
            }
        }
        configuration
    }

    fn reject(&mut self, kind: &'static str, name: &Name, uid: &str, reason: String) {
        self.invalid.push(InvalidObject {
            kind,
            name: name.clone(),
            uid: uid.to_owned(),
            reason,
        });
    }
}
