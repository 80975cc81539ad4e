//! Routes: listing, creation and deletion.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::LinkIndex;
use super::message::{Request, family, read_address, read_u32};
use super::table::RouteTable;
use crate::message::{Attribute, attributes};

/// Size of `struct rtmsg` in bytes.
const FIXED_BYTES: usize = 12;
/// Flag of a gateway that counts as reachable on the link without a route to it.
const RTNH_F_ONLINK: u32 = 4;

/// Action of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send to a gateway.
    Via {
        /// Address of the gateway.
        gateway: IpAddr,
        /// Link to the gateway; `None` lets the kernel find it.
        link: Option<LinkIndex>,
    },
    /// Send to a gateway on this link, even if no route leads to it (`RTNH_F_ONLINK`).
    ViaOnLink {
        /// Address of the gateway.
        gateway: IpAddr,
        /// Link to the gateway.
        link: LinkIndex,
    },
    /// Send on the link directly (`scope link`).
    OnLink(LinkIndex),
    /// Deliver to this host, as if the link had the address (`RTN_LOCAL`, in table `local`).
    Local(LinkIndex),
    /// Drop without a response.
    Blackhole,
    /// Reject with ICMP unreachable.
    Unreachable,
}

/// A route, without its table: `main` if no call names another one, and `local` for [`Action::Local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination; prefix length 0 for the default route.
    pub destination: IpNet,
    /// Treatment of packets.
    pub action: Action,
    /// Source address of packets from this host.
    pub source: Option<IpAddr>,
    /// Origin: `RTPROT_…`, or a number that identifies the routes of a program.
    pub protocol: u8,
}

impl Route {
    /// Returns a route through a gateway.
    pub fn via(destination: IpNet, gateway: IpAddr) -> Self {
        Self::new(destination, Action::Via { gateway, link: None })
    }

    /// Returns the default route through a gateway, for the gateway's family.
    pub fn default_via(gateway: IpAddr) -> Self {
        let destination = match gateway {
            IpAddr::V4(_) => IpNet::V4(Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(Ipv6Net::default()),
        };
        Self::via(destination, gateway)
    }

    /// Returns a route to a destination on a link.
    pub fn on_link(destination: IpNet, link: LinkIndex) -> Self {
        Self::new(destination, Action::OnLink(link))
    }

    /// Returns a route with an action.
    pub fn new(destination: IpNet, action: Action) -> Self {
        Self {
            destination,
            action,
            source: None,
            protocol: libc::RTPROT_STATIC,
        }
    }
}

impl Connection {
    /// Returns the routes of table `main`.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn routes(&mut self) -> Result<Vec<Route>, RouteError> {
        self.routes_of(RouteTable::MAIN)
    }

    /// Returns the routes of a table.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn routes_of(&mut self, table: RouteTable) -> Result<Vec<Route>, RouteError> {
        let request = || Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; FIXED_BYTES]);
        self.dump("list routes", request, |part| parse_of_table(part, table))
    }

    /// Returns the routes to addresses of this host.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn local_routes(&mut self) -> Result<Vec<Route>, RouteError> {
        self.routes_of(RouteTable::LOCAL)
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the destination has a route.
    pub fn add_route(&mut self, route: &Route) -> Result<(), RouteError> {
        self.write_route("add", libc::NLM_F_CREATE | libc::NLM_F_EXCL, route)
    }

    /// Adds a route, or replaces the one to the same destination.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), RouteError> {
        self.write_route("replace", libc::NLM_F_CREATE | libc::NLM_F_REPLACE, route)
    }

    /// Deletes a route.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such route.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), RouteError> {
        let request = request(libc::RTM_DELROUTE, 0, table_of(route), route);
        self.execute(format!("remove route to {}", route.destination), request)
    }

    /// Adds a route to a table, or replaces the one to the same destination.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn replace_route_of(&mut self, table: RouteTable, route: &Route) -> Result<(), RouteError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let request = request(libc::RTM_NEWROUTE, flags, table, route);
        self.execute(
            format!("replace route to {} in table {}", route.destination, table.0),
            request,
        )
    }

    /// Deletes a route of a table.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such route.
    pub fn delete_route_of(&mut self, table: RouteTable, route: &Route) -> Result<(), RouteError> {
        let request = request(libc::RTM_DELROUTE, 0, table, route);
        self.execute(
            format!("remove route to {} in table {}", route.destination, table.0),
            request,
        )
    }

    fn write_route(&mut self, verb: &str, flags: i32, route: &Route) -> Result<(), RouteError> {
        let request = request(libc::RTM_NEWROUTE, flags, table_of(route), route);
        self.execute(format!("{verb} route to {}", route.destination), request)
    }
}

/// Returns the table of a route for which no call names one.
fn table_of(route: &Route) -> RouteTable {
    match route.action {
        Action::Local(_) => RouteTable::LOCAL,
        _ => RouteTable::MAIN,
    }
}

/// Builds a request about a route.
fn request(kind: u16, flags: i32, table: RouteTable, route: &Route) -> Request {
    let mut part = [0; FIXED_BYTES];
    part[0] = family(route.destination.addr());
    part[1] = route.destination.prefix_len();
    part[4] = table.byte();
    part[5] = route.protocol;
    part[6] = match route.action {
        Action::OnLink(_) => libc::RT_SCOPE_LINK,
        Action::Local(_) => libc::RT_SCOPE_HOST,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    part[7] = match route.action {
        Action::Local(_) => libc::RTN_LOCAL,
        Action::Via { .. } | Action::ViaOnLink { .. } | Action::OnLink(_) => libc::RTN_UNICAST,
        Action::Blackhole => libc::RTN_BLACKHOLE,
        Action::Unreachable => libc::RTN_UNREACHABLE,
    };
    if matches!(route.action, Action::ViaOnLink { .. }) {
        part[8..12].copy_from_slice(&RTNH_F_ONLINK.to_ne_bytes());
    }
    let mut request = Request::new(kind, flags, &part);
    request.address(libc::RTA_DST, route.destination.network());
    request.number(libc::RTA_TABLE, table.0);
    match route.action {
        Action::Via { gateway, link } => {
            request.address(libc::RTA_GATEWAY, gateway);
            if let Some(link) = link {
                request.number(libc::RTA_OIF, link.0);
            }
        }
        Action::ViaOnLink { gateway, link } => {
            request.address(libc::RTA_GATEWAY, gateway);
            request.number(libc::RTA_OIF, link.0);
        }
        Action::OnLink(link) | Action::Local(link) => {
            request.number(libc::RTA_OIF, link.0);
        }
        Action::Blackhole | Action::Unreachable => {}
    }
    if let Some(source) = route.source {
        request.address(libc::RTA_PREFSRC, source);
    }
    request
}

/// Decodes the payload of an `RTM_NEWROUTE` of table `main`; `None` for other tables and types.
#[cfg(any(test, fuzzing))]
pub(super) fn parse(part: &[u8]) -> Option<Route> {
    parse_of_table(part, RouteTable::MAIN)
}

/// Decodes the payload of an `RTM_NEWROUTE`; `None` for other tables and types.
fn parse_of_table(part: &[u8], expected_table: RouteTable) -> Option<Route> {
    let fixed = part.get(..FIXED_BYTES)?;
    let (family, prefix_length, kind) = (fixed[0], fixed[1], fixed[7]);
    let mut table = RouteTable(u32::from(fixed[4]));
    let any: IpAddr = match i32::from(family) {
        libc::AF_INET => std::net::Ipv4Addr::UNSPECIFIED.into(),
        libc::AF_INET6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut destination, mut gateway, mut link, mut source) = (any, None, None, None);
    for Attribute {
        kind: attribute,
        value,
    } in attributes(part.get(FIXED_BYTES..)?)
    {
        match attribute {
            libc::RTA_DST => destination = read_address(value)?,
            libc::RTA_TABLE => table = RouteTable(read_u32(value, 0)?),
            libc::RTA_GATEWAY => gateway = read_address(value),
            libc::RTA_OIF => link = read_u32(value, 0).map(LinkIndex),
            libc::RTA_PREFSRC => source = read_address(value),
            _ => {}
        }
    }
    if table != expected_table {
        return None;
    }
    let is_on_link = read_u32(fixed, 8)? & RTNH_F_ONLINK != 0;
    let action = match kind {
        libc::RTN_UNICAST => match gateway {
            Some(gateway) if is_on_link => Action::ViaOnLink { gateway, link: link? },
            Some(gateway) => Action::Via { gateway, link },
            None => Action::OnLink(link?),
        },
        libc::RTN_LOCAL if expected_table == RouteTable::LOCAL => Action::Local(link?),
        libc::RTN_BLACKHOLE => Action::Blackhole,
        libc::RTN_UNREACHABLE => Action::Unreachable,
        _ => return None,
    };
    Some(Route {
        destination: IpNet::new(destination, prefix_length).ok()?,
        action,
        source,
        protocol: fixed[5],
    })
}
