//! Links: network interfaces, veth pairs, bridges and dummies.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::{LinkIndex, LinkName};
use super::message::{Request, ifinfomsg, new_link, read_u32};
use super::vxlan::{self, Vxlan};
use crate::message::{Attribute, attributes};

const VETH_INFO_PEER: u16 = 1;
/// `IFLA_BRPORT_MODE` in `IFLA_INFO_SLAVE_DATA` of a port of a bridge.
const IFLA_BRPORT_MODE: u16 = 4;
/// Attributes in `IFLA_INFO_DATA` with the UDP port of a link, by the kind of the link.
const ENCAPSULATION_PORTS: [(&str, u16); 3] = [
    ("vxlan", vxlan::IFLA_VXLAN_PORT),
    ("geneve", 5),  // `IFLA_GENEVE_PORT`
    ("bareudp", 1), // `IFLA_BAREUDP_PORT`
];

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: LinkIndex,
    /// Interface name.
    pub name: String,
    /// Kind, such as `veth` or `bridge`; empty for hardware and `lo`.
    pub kind: String,
    /// True if the link is up (`IFF_UP`).
    pub is_up: bool,
    /// True for the loopback link.
    pub is_loopback: bool,
    /// MTU in bytes.
    pub mtu_bytes: u32,
    /// Bridge of the link.
    pub master: Option<LinkIndex>,
    /// Ethernet address.
    pub ethernet: Option<[u8; 6]>,
    /// Settings of a link of kind `vxlan`.
    pub vxlan: Option<Vxlan>,
    /// UDP port of a link of kind `vxlan`, `geneve` or `bareudp`.
    pub encapsulation_port: Option<u16>,
    /// Group; 0 by default.
    pub group: u32,
    /// True if a program requests promiscuous mode.
    pub is_promiscuous: bool,
    /// Only for ports of a bridge: true if the bridge sends frames back to the port that they came from.
    pub is_hairpin: Option<bool>,
    /// Index of the underlying link, or of the peer of a veth in its namespace.
    pub lower: Option<LinkIndex>,
}

/// Bridge of a link after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Master {
    /// No bridge.
    None,
    /// This bridge.
    Of(LinkIndex),
}

/// Changes of a link; `None` leaves a property unchanged.
#[derive(Clone, Debug, Default)]
pub struct LinkChange<'a> {
    /// Up or down.
    pub up: Option<bool>,
    /// MTU in bytes.
    pub mtu_bytes: Option<u32>,
    /// Bridge that the link joins or leaves.
    pub master: Option<Master>,
    /// Group, which nftables rules can match.
    pub group: Option<u32>,
    /// Network namespace to move the link to.
    pub namespace: Option<BorrowedFd<'a>>,
    /// New name. Kernels before 6.2 require that the link is down.
    pub name: Option<LinkName>,
    /// Hairpin mode of a port of a bridge.
    pub hairpin: Option<bool>,
}

impl LinkChange<'_> {
    /// Returns a change that sets the link up.
    pub fn up() -> Self {
        Self {
            up: Some(true),
            ..Self::default()
        }
    }
}

impl Connection {
    /// Returns all links of the namespace.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        let request = || Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &ifinfomsg(0, 0, 0));
        self.dump("list links", request, parse)
    }

    /// Returns the link with this name.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn link(&mut self, name: &LinkName) -> Result<Option<Link>, RouteError> {
        Ok(self.links()?.into_iter().find(|link| link.name == name.as_str()))
    }

    /// Returns the index of the link with this name.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if there is no such link, or the kernel refuses.
    pub fn link_index(&mut self, name: &LinkName) -> Result<LinkIndex, RouteError> {
        match self.link(name)? {
            Some(link) => Ok(link.index),
            None => Err(RouteError::NoLink {
                operation: "look up a link".to_owned(),
                name: name.to_string(),
            }),
        }
    }

    /// Creates a veth pair: `local` in this namespace, `peer` in `peer_namespace`, or in this one, too. Both are down.
    /// Deletion of one deletes the other.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if a name is in use.
    pub fn add_veth(
        &mut self,
        local: &LinkName,
        peer: &LinkName,
        peer_namespace: Option<BorrowedFd<'_>>,
    ) -> Result<(), RouteError> {
        let mut request = new_link(local);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nested(libc::IFLA_INFO_DATA, |veth| {
                veth.nested(VETH_INFO_PEER, |attributes| {
                    attributes
                        .fixed(&ifinfomsg(0, 0, 0))
                        .text(libc::IFLA_IFNAME, peer.as_str());
                    if let Some(namespace) = peer_namespace {
                        attributes.number(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
                    }
                });
            });
        });
        self.execute(format!("make veth pair {local} and {peer}"), request)
    }

    /// Creates a bridge without spanning tree protocol, which is down.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the name is in use.
    pub fn add_bridge(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = new_link(name);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "bridge");
        });
        self.execute(format!("make bridge {name}"), request)
    }

    /// Creates a dummy link, which holds addresses and carries no packets. It is down.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the name is in use.
    pub fn add_dummy(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = new_link(name);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "dummy");
        });
        self.execute(format!("make dummy link {name}"), request)
    }

    /// Deletes a link and its peer.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such link.
    pub fn delete_link(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = Request::new(libc::RTM_DELLINK, 0, &ifinfomsg(0, 0, 0));
        request.text(libc::IFLA_IFNAME, name.as_str());
        self.execute(format!("remove link {name}"), request)
    }

    /// Changes a link.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn change_link(&mut self, link: LinkIndex, change: &LinkChange<'_>) -> Result<(), RouteError> {
        let up = libc::IFF_UP as u32;
        let (flags, mask) = match change.up {
            Some(true) => (up, up),
            Some(false) => (0, up),
            None => (0, 0),
        };
        let mut request = Request::new(libc::RTM_NEWLINK, 0, &ifinfomsg(link.0, flags, mask));
        if let Some(bytes) = change.mtu_bytes {
            request.number(libc::IFLA_MTU, bytes);
        }
        if let Some(master) = change.master {
            let index = match master {
                Master::None => 0,
                Master::Of(bridge) => bridge.0,
            };
            request.number(libc::IFLA_MASTER, index);
        }
        if let Some(group) = change.group {
            request.number(libc::IFLA_GROUP, group);
        }
        if let Some(namespace) = change.namespace {
            request.number(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
        }
        if let Some(name) = &change.name {
            request.text(libc::IFLA_IFNAME, name.as_str());
        }
        if let Some(hairpin) = change.hairpin {
            request.nested(libc::IFLA_LINKINFO, |info| {
                info.text(libc::IFLA_INFO_SLAVE_KIND, "bridge");
                info.nested(libc::IFLA_INFO_SLAVE_DATA, |port| {
                    port.attribute(IFLA_BRPORT_MODE, &[u8::from(hairpin)]);
                });
            });
        }
        self.execute(format!("change link {}", link.0), request)
    }
}

/// Decodes the payload of an `RTM_NEWLINK`.
pub(super) fn parse(part: &[u8]) -> Option<Link> {
    let flags = read_u32(part, 8)?;
    let mut link = Link {
        index: LinkIndex(read_u32(part, 4)?),
        name: String::new(),
        kind: String::new(),
        is_up: flags & libc::IFF_UP as u32 != 0,
        is_loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        mtu_bytes: 0,
        master: None,
        ethernet: None,
        vxlan: None,
        encapsulation_port: None,
        group: 0,
        is_promiscuous: flags & libc::IFF_PROMISC as u32 != 0,
        is_hairpin: None,
        lower: None,
    };
    let is_ethernet = part.get(2..4)? == libc::ARPHRD_ETHER.to_ne_bytes();
    for Attribute { kind, value } in attributes(part.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = read_u32(value, 0)?,
            libc::IFLA_MASTER => link.master = read_u32(value, 0).map(LinkIndex),
            libc::IFLA_GROUP => link.group = read_u32(value, 0)?,
            libc::IFLA_LINK => link.lower = read_u32(value, 0).map(LinkIndex),
            libc::IFLA_ADDRESS if is_ethernet => link.ethernet = value.try_into().ok(),
            libc::IFLA_LINKINFO => {
                link.kind = attributes(value)
                    .find(|inner| inner.kind == libc::IFLA_INFO_KIND)
                    .map(|inner| text(inner.value))
                    .unwrap_or_default();
                let data = attributes(value).find(|inner| inner.kind == libc::IFLA_INFO_DATA);
                if link.kind == "vxlan" {
                    link.vxlan = data.and_then(|inner| vxlan::parse(inner.value));
                }
                link.encapsulation_port = data.and_then(|inner| encapsulation_port(&link.kind, inner.value));
                link.is_hairpin = hairpin_mode(value);
            }
            _ => {}
        }
    }
    Some(link)
}

/// Returns the UDP port in the `IFLA_INFO_DATA` of a link of this kind.
fn encapsulation_port(kind: &str, info_data: &[u8]) -> Option<u16> {
    let (_, port) = ENCAPSULATION_PORTS.iter().find(|(of, _)| *of == kind)?;
    attributes(info_data).find(|inner| inner.kind == *port)?.u16_be()
}

/// Returns the hairpin mode in the `IFLA_LINKINFO` of a port of a bridge; `None` for other links.
fn hairpin_mode(link_info: &[u8]) -> Option<bool> {
    let attribute_of_kind = |kind: u16| attributes(link_info).find(|inner| inner.kind == kind);
    let is_bridge_port = text(attribute_of_kind(libc::IFLA_INFO_SLAVE_KIND)?.value) == "bridge";
    let port = attribute_of_kind(libc::IFLA_INFO_SLAVE_DATA).filter(|_| is_bridge_port)?;
    let mode = attributes(port.value).find(|inner| inner.kind == IFLA_BRPORT_MODE)?;
    mode.u8().map(|mode| mode != 0)
}

/// Returns a text up to its zero. Names are bytes in the kernel, so invalid UTF-8 is replaced.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}
