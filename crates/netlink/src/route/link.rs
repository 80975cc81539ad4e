//! Links: network interfaces, veth pairs, bridges, dummies.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::str::FromStr;

use super::connection::Connection;
use super::error::RouteError;
use super::message::{Request, ifinfomsg, read_u32};
use super::vxlan::{self, Vxlan};
use crate::message::{Attribute, attributes};

/// Longest name of a link (`IFNAMSIZ` less the terminating zero).
pub const NAME_BYTES_MAX: usize = 15;

const VETH_INFO_PEER: u16 = 1;

/// The number of a link in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkIndex(pub u32);

/// The name of a link: 1 to [`NAME_BYTES_MAX`] bytes, no blank, no `/` (`dev_valid_name` of the kernel).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkName(String);

impl LinkName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = RouteError;

    fn from_str(name: &str) -> Result<Self, RouteError> {
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name != "." && name != "..";
        let plain = !name
            .bytes()
            .any(|b| matches!(b, b'/' | b':' | 0) || b.is_ascii_whitespace());
        if fits && plain {
            Ok(Self(name.to_owned()))
        } else {
            Err(RouteError::Name {
                name: name.to_owned(),
            })
        }
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A link as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: LinkIndex,
    /// Its name.
    pub name: String,
    /// What made it: `veth`, `bridge` … or "" for hardware and `lo`.
    pub kind: String,
    /// Whether it was set up (`IFF_UP`).
    pub is_up: bool,
    /// Whether it is the loopback link.
    pub is_loopback: bool,
    /// Largest packet in bytes.
    pub mtu_bytes: u32,
    /// The bridge that it is a port of.
    pub master: Option<LinkIndex>,
    /// Its Ethernet address, if it has one.
    pub ethernet: Option<[u8; 6]>,
    /// How it wraps packets, if it is of kind `vxlan`.
    pub vxlan: Option<Vxlan>,
    /// The group that it belongs to; 0 for most.
    pub group: u32,
}

/// To which bridge a link is to belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Master {
    /// To none.
    None,
    /// To that one.
    Of(LinkIndex),
}

/// What is to change on a link; what is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct LinkChange<'a> {
    /// Set up or down.
    pub up: Option<bool>,
    /// Largest packet in bytes.
    pub mtu_bytes: Option<u32>,
    /// Bridge to belong to.
    pub master: Option<Master>,
    /// Group to belong to, which rules of nftables can ask for.
    pub group: Option<u32>,
    /// Network namespace to move to.
    pub namespace: Option<BorrowedFd<'a>>,
    /// New name; the kernel wants the link down for that on kernels before 6.2.
    pub name: Option<LinkName>,
}

impl LinkChange<'_> {
    /// Set the link up, and change nothing else.
    pub fn up() -> Self {
        Self {
            up: Some(true),
            ..Self::default()
        }
    }
}

impl Connection {
    /// All links of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        let request = || Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &ifinfomsg(0, 0, 0));
        self.dump("list links", request, parse)
    }

    /// The link of that name, if there is one.
    pub fn link(&mut self, name: &LinkName) -> Result<Option<Link>, RouteError> {
        Ok(self.links()?.into_iter().find(|l| l.name == name.as_str()))
    }

    /// The number of the link of that name.
    pub fn link_index(&mut self, name: &LinkName) -> Result<LinkIndex, RouteError> {
        match self.link(name)? {
            Some(link) => Ok(link.index),
            None => Err(RouteError::NoLink {
                operation: "look up a link".to_owned(),
                name: name.to_string(),
            }),
        }
    }

    /// Makes a pair of veth links: `near` in this namespace, `far` in `far_namespace` or in this one too.
    /// Both are down at first. Removing one of them removes the other.
    pub fn add_veth(
        &mut self,
        near: &LinkName,
        far: &LinkName,
        far_namespace: Option<BorrowedFd<'_>>,
    ) -> Result<(), RouteError> {
        let mut request = new_link(near);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nested(libc::IFLA_INFO_DATA, |veth| {
                veth.nested(VETH_INFO_PEER, |peer| {
                    peer.fixed(&ifinfomsg(0, 0, 0))
                        .text(libc::IFLA_IFNAME, far.as_str());
                    if let Some(namespace) = far_namespace {
                        peer.number(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
                    }
                });
            });
        });
        self.execute(format!("make veth pair {near} and {far}"), request)
    }

    /// Makes a bridge, down at first, without the spanning tree protocol.
    pub fn add_bridge(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = new_link(name);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "bridge");
        });
        self.execute(format!("make bridge {name}"), request)
    }

    /// Makes a dummy link, down at first: one that holds addresses and carries nothing.
    pub fn add_dummy(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = new_link(name);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "dummy");
        });
        self.execute(format!("make dummy link {name}"), request)
    }

    /// Removes a link, and its peer with it.
    pub fn delete_link(&mut self, name: &LinkName) -> Result<(), RouteError> {
        let mut request = Request::new(libc::RTM_DELLINK, 0, &ifinfomsg(0, 0, 0));
        request.text(libc::IFLA_IFNAME, name.as_str());
        self.execute(format!("remove link {name}"), request)
    }

    /// Changes a link.
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
        self.execute(format!("change link {}", link.0), request)
    }
}

pub(super) fn new_link(name: &LinkName) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut request = Request::new(libc::RTM_NEWLINK, flags, &ifinfomsg(0, 0, 0));
    request.text(libc::IFLA_IFNAME, name.as_str());
    request
}

/// Reads what follows the netlink header of an `RTM_NEWLINK`.
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
        group: 0,
    };
    let is_ethernet = part.get(2..4)? == libc::ARPHRD_ETHER.to_ne_bytes();
    for Attribute { kind, value } in attributes(part.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = read_u32(value, 0)?,
            libc::IFLA_MASTER => link.master = read_u32(value, 0).map(LinkIndex),
            libc::IFLA_GROUP => link.group = read_u32(value, 0)?,
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
            }
            _ => {}
        }
    }
    Some(link)
}

/// A text up to its zero. Names are bytes to the kernel, so what is no UTF-8 is replaced.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned()
}
