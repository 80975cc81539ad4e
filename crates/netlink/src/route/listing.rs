//! Routes of table `main` as they are listed, with types and metrics that [`Route`](super::Route) does not have.

use std::net::IpAddr;

use ipnet::IpNet;

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::LinkIndex;
use super::message::{Request, read_address, read_u16, read_u32};
use crate::message::{Attribute, attributes};

/// Size of `struct rtmsg` in bytes.
const FIXED_BYTES: usize = 12;
/// Size of `struct rtnexthop` in bytes.
const NEXT_HOP_BYTES: usize = 8;
/// Maximum number of next hops of one route that are listed.
const NEXT_HOPS_MAX: usize = 64;

/// A route with one of its next hops. A route with several next hops is listed several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoute {
    /// Destination; prefix length 0 for the default route.
    pub destination: IpNet,
    /// `RTN_…`: unicast, blackhole and others.
    pub kind: u8,
    /// Gateway.
    pub gateway: Option<IpAddr>,
    /// Output link.
    pub link: Option<LinkIndex>,
    /// Metric; lower values take precedence.
    pub metric: Option<u32>,
    /// Origin: `RTPROT_…`, or a number that identifies the routes of a program.
    pub protocol: u8,
}

impl ListedRoute {
    /// Returns the type by its name in `ip route`; the number of an unknown one.
    pub fn kind_name(&self) -> String {
        match self.kind {
            libc::RTN_UNICAST => "unicast",
            libc::RTN_LOCAL => "local",
            libc::RTN_BROADCAST => "broadcast",
            libc::RTN_ANYCAST => "anycast",
            libc::RTN_MULTICAST => "multicast",
            libc::RTN_BLACKHOLE => "blackhole",
            libc::RTN_UNREACHABLE => "unreachable",
            libc::RTN_PROHIBIT => "prohibit",
            libc::RTN_THROW => "throw",
            libc::RTN_NAT => "nat",
            other => return other.to_string(),
        }
        .to_owned()
    }

    /// Returns the origin by its name in `ip route`; the number of an unknown one.
    pub fn protocol_name(&self) -> String {
        match self.protocol {
            libc::RTPROT_REDIRECT => "redirect",
            libc::RTPROT_KERNEL => "kernel",
            libc::RTPROT_BOOT => "boot",
            libc::RTPROT_STATIC => "static",
            // Numbers of `linux/rtnetlink.h` that the C library does not name.
            9 => "ra",
            11 => "zebra",
            12 => "bird",
            16 => "dhcp",
            186 => "bgp",
            other => return other.to_string(),
        }
        .to_owned()
    }
}

impl Connection {
    /// Returns at most `most` routes of table `main`, and true if there are more.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn listed_routes(&mut self, most: usize) -> Result<(Vec<ListedRoute>, bool), RouteError> {
        let request = || Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; FIXED_BYTES]);
        let found = self.dump("list routes", request, parse)?;
        let mut routes: Vec<ListedRoute> = found.into_iter().flatten().take(most.saturating_add(1)).collect();
        let has_more = routes.len() > most;
        routes.truncate(most);
        Ok((routes, has_more))
    }
}

/// Decodes the payload of an `RTM_NEWROUTE`; `None` for other tables.
pub(super) fn parse(part: &[u8]) -> Option<Vec<ListedRoute>> {
    let fixed = part.get(..FIXED_BYTES)?;
    let (family, prefix_length, protocol, kind) = (fixed[0], fixed[1], fixed[5], fixed[7]);
    let mut table = u32::from(fixed[4]);
    let any: IpAddr = match i32::from(family) {
        libc::AF_INET => std::net::Ipv4Addr::UNSPECIFIED.into(),
        libc::AF_INET6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut destination, mut metric, mut hops) = (any, None, Vec::new());
    let mut only = NextHop::default();
    for Attribute {
        kind: attribute,
        value,
    } in attributes(part.get(FIXED_BYTES..)?)
    {
        match attribute {
            libc::RTA_DST => destination = read_address(value)?,
            libc::RTA_TABLE => table = read_u32(value, 0)?,
            libc::RTA_PRIORITY => metric = read_u32(value, 0),
            libc::RTA_OIF => only.link = read_u32(value, 0).map(LinkIndex),
            libc::RTA_MULTIPATH => hops = next_hops(value),
            _ => only.read(attribute, value),
        }
    }
    if table != u32::from(libc::RT_TABLE_MAIN) {
        return None;
    }
    if hops.is_empty() {
        hops.push(only);
    }
    let destination = IpNet::new(destination, prefix_length).ok()?;
    let route = |hop: NextHop| ListedRoute {
        destination,
        kind,
        gateway: hop.gateway,
        link: hop.link,
        metric,
        protocol,
    };
    Some(hops.into_iter().map(route).collect())
}

/// Next hop of a route.
#[derive(Clone, Copy, Default)]
struct NextHop {
    gateway: Option<IpAddr>,
    link: Option<LinkIndex>,
}

impl NextHop {
    fn read(&mut self, attribute: u16, value: &[u8]) {
        match attribute {
            libc::RTA_GATEWAY => self.gateway = read_address(value),
            // A gateway of the other family, behind the number of that family.
            libc::RTA_VIA => self.gateway = value.get(2..).and_then(read_address),
            _ => {}
        }
    }
}

/// Decodes `RTA_MULTIPATH`: a list of `struct rtnexthop`, each with attributes.
fn next_hops(mut bytes: &[u8]) -> Vec<NextHop> {
    let mut hops = Vec::new();
    while let Some(length) = read_u16(bytes, 0).map(usize::from)
        && hops.len() < NEXT_HOPS_MAX
    {
        let (Some(link), Some(part)) = (read_u32(bytes, 4), bytes.get(NEXT_HOP_BYTES..length)) else {
            break;
        };
        let mut hop = NextHop {
            link: Some(LinkIndex(link)),
            ..NextHop::default()
        };
        for Attribute { kind, value } in attributes(part) {
            hop.read(kind, value);
        }
        hops.push(hop);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}

#[cfg(test)]
mod tests;
