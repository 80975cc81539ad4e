//! VXLAN (RFC 7348): tunnel links and their forwarding tables (the kernel's `if_link.h`, `neighbour.h`).

use std::net::IpAddr;

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::{LinkIndex, LinkName};
use super::message::{Request, new_link, read_address, read_u16, read_u32};
use crate::message::{Attribute, attributes};

const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_LEARNING: u16 = 7;
pub(super) const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// The entry belongs to the link's own table, not to that of its bridge.
const NTF_SELF: u8 = 2;
/// Size of `struct ndmsg` in bytes.
const FIXED_BYTES: usize = 12;

/// Settings of a VXLAN link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// VXLAN network identifier, 24 bits.
    pub id: u32,
    /// UDP port of this host and of its peers.
    pub port: u16,
    /// Source address of encapsulated packets.
    pub local: IpAddr,
    /// Link for encapsulated packets.
    pub underlay: LinkIndex,
}

/// Entry of a forwarding table: the host for an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForwardingEntry {
    /// Ethernet address.
    pub ethernet: [u8; 6],
    /// Address of the host.
    pub host: IpAddr,
}

impl Connection {
    /// Creates a VXLAN link without learning, which is down.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the name is in use.
    pub fn add_vxlan(
        &mut self,
        name: &LinkName,
        vxlan: &Vxlan,
        ethernet: [u8; 6],
        mtu_bytes: u32,
    ) -> Result<(), RouteError> {
        let mut request = new_link(name);
        request
            .attribute(libc::IFLA_ADDRESS, &ethernet)
            .number(libc::IFLA_MTU, mtu_bytes);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "vxlan");
            info.nested(libc::IFLA_INFO_DATA, |inner| {
                let local = match vxlan.local {
                    IpAddr::V4(_) => IFLA_VXLAN_LOCAL,
                    IpAddr::V6(_) => IFLA_VXLAN_LOCAL6,
                };
                inner
                    .number(IFLA_VXLAN_ID, vxlan.id)
                    .number(IFLA_VXLAN_LINK, vxlan.underlay.0)
                    .address(local, vxlan.local)
                    .attribute(IFLA_VXLAN_LEARNING, &[0])
                    .attribute(IFLA_VXLAN_PORT, &vxlan.port.to_be_bytes());
            });
        });
        self.execute(format!("make VXLAN link {name}"), request)
    }

    /// Returns the entries of a VXLAN link.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn forwarding_entries(&mut self, link: LinkIndex) -> Result<Vec<ForwardingEntry>, RouteError> {
        let mut part = [0; FIXED_BYTES];
        part[0] = libc::AF_BRIDGE as u8;
        let request = || Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &part);
        let parse = |part: &[u8]| {
            parse_entry(part)
                .filter(|(of, _)| *of == link)
                .map(|(_, entry)| entry)
        };
        self.dump("list forwarding entries", request, parse)
    }

    /// Sets the host for an Ethernet address.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn replace_forwarding_entry(
        &mut self,
        link: LinkIndex,
        entry: &ForwardingEntry,
    ) -> Result<(), RouteError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let request = entry_request(libc::RTM_NEWNEIGH, flags, link, entry);
        self.execute(
            format!("set forwarding to {} on link {}", entry.host, link.0),
            request,
        )
    }

    /// Deletes an entry.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such entry.
    pub fn delete_forwarding_entry(
        &mut self,
        link: LinkIndex,
        entry: &ForwardingEntry,
    ) -> Result<(), RouteError> {
        let request = entry_request(libc::RTM_DELNEIGH, 0, link, entry);
        self.execute(
            format!("remove forwarding to {} on link {}", entry.host, link.0),
            request,
        )
    }
}

fn entry_request(kind: u16, flags: i32, link: LinkIndex, entry: &ForwardingEntry) -> Request {
    let mut part = [0; FIXED_BYTES];
    part[0] = libc::AF_BRIDGE as u8;
    part[4..8].copy_from_slice(&link.0.to_ne_bytes());
    part[8..10].copy_from_slice(&(libc::NUD_PERMANENT | libc::NUD_NOARP).to_ne_bytes());
    part[10] = NTF_SELF;
    let mut request = Request::new(kind, flags, &part);
    request
        .attribute(NDA_LLADDR, &entry.ethernet)
        .address(NDA_DST, entry.host);
    request
}

/// Decodes the payload of an `RTM_NEWNEIGH` of family `AF_BRIDGE`.
pub(super) fn parse_entry(part: &[u8]) -> Option<(LinkIndex, ForwardingEntry)> {
    if i32::from(*part.first()?) != libc::AF_BRIDGE {
        return None;
    }
    let link = LinkIndex(read_u32(part, 4)?);
    read_u16(part, 8)?;
    let (mut ethernet, mut host) = (None, None);
    for Attribute { kind, value } in attributes(part.get(FIXED_BYTES..)?) {
        match kind {
            NDA_LLADDR => ethernet = value.try_into().ok(),
            NDA_DST => host = read_address(value),
            _ => {}
        }
    }
    let entry = ForwardingEntry {
        ethernet: ethernet?,
        host: host?,
    };
    Some((link, entry))
}

/// Decodes the `IFLA_INFO_DATA` of a VXLAN link.
pub(super) fn parse(part: &[u8]) -> Option<Vxlan> {
    let (mut id, mut port, mut local, mut underlay) = (None, None, None, None);
    for Attribute { kind, value } in attributes(part) {
        match kind {
            IFLA_VXLAN_ID => id = read_u32(value, 0),
            IFLA_VXLAN_PORT => port = value.try_into().ok().map(u16::from_be_bytes),
            IFLA_VXLAN_LOCAL | IFLA_VXLAN_LOCAL6 => local = read_address(value),
            IFLA_VXLAN_LINK => underlay = read_u32(value, 0).map(LinkIndex),
            _ => {}
        }
    }
    Some(Vxlan {
        id: id?,
        port: port?,
        local: local?,
        underlay: underlay?,
    })
}
