//! Addresses of links: listing, assignment and removal.

use std::net::IpAddr;

use ipnet::IpNet;

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::LinkIndex;
use super::message::{Request, family, read_address, read_u32};
use crate::message::{Attribute, attributes};

/// Size of `struct ifaddrmsg` in bytes.
const FIXED_BYTES: usize = 8;

/// An address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Link that has the address.
    pub link: LinkIndex,
    /// Address with prefix length.
    pub network: IpNet,
    /// Scope: `RT_SCOPE_UNIVERSE` (0), `…_LINK` (253) or `…_HOST` (254).
    pub scope: u8,
    /// True if duplicate address detection runs or has failed.
    pub is_tentative: bool,
}

impl Address {
    /// Returns true if the address is reachable beyond its link (KPR: addresses of the node).
    pub fn is_global(&self) -> bool {
        self.scope == libc::RT_SCOPE_UNIVERSE
    }
}

impl Connection {
    /// Returns all addresses of the namespace.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn addresses(&mut self) -> Result<Vec<Address>, RouteError> {
        let request = || Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; FIXED_BYTES]);
        self.dump("list addresses", request, parse)
    }

    /// Adds an address to a link. An IPv6 address is usable at once, because duplicate address detection is off.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the address exists.
    pub fn add_address(&mut self, link: LinkIndex, network: IpNet) -> Result<(), RouteError> {
        self.add_scoped_address(link, network, libc::RT_SCOPE_UNIVERSE)
    }

    /// Adds an address that is valid on the link only ([`Address::is_global`] is false).
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_already_present`] if the address exists.
    pub fn add_link_address(&mut self, link: LinkIndex, network: IpNet) -> Result<(), RouteError> {
        self.add_scoped_address(link, network, libc::RT_SCOPE_LINK)
    }

    fn add_scoped_address(&mut self, link: LinkIndex, network: IpNet, scope: u8) -> Result<(), RouteError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut part = fixed_header(link, network);
        part[3] = scope;
        let mut request = Request::new(libc::RTM_NEWADDR, flags, &part);
        request.address(libc::IFA_LOCAL, network.addr());
        request.address(libc::IFA_ADDRESS, network.addr());
        self.execute(format!("add address {network} to link {}", link.0), request)
    }

    /// Deletes an address of a link.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if the address does not exist.
    pub fn delete_address(&mut self, link: LinkIndex, network: IpNet) -> Result<(), RouteError> {
        let mut request = Request::new(libc::RTM_DELADDR, 0, &fixed_header(link, network));
        request.address(libc::IFA_LOCAL, network.addr());
        self.execute(format!("remove address {network} from link {}", link.0), request)
    }
}

fn fixed_header(link: LinkIndex, network: IpNet) -> [u8; FIXED_BYTES] {
    let mut part = [0; FIXED_BYTES];
    part[0] = family(network.addr());
    part[1] = network.prefix_len();
    if network.addr().is_ipv6() {
        part[2] = libc::IFA_F_NODAD as u8;
    }
    part[4..8].copy_from_slice(&link.0.to_ne_bytes());
    part
}

/// Decodes the payload of an `RTM_NEWADDR`.
pub(super) fn parse(part: &[u8]) -> Option<Address> {
    let prefix_length = *part.get(1)?;
    let mut flags = u32::from(*part.get(2)?);
    let scope = *part.get(3)?;
    let link = LinkIndex(read_u32(part, 4)?);
    let (mut local, mut address): (Option<IpAddr>, Option<IpAddr>) = (None, None);
    for Attribute { kind, value } in attributes(part.get(FIXED_BYTES..)?) {
        match kind {
            libc::IFA_LOCAL => local = read_address(value),
            libc::IFA_ADDRESS => address = read_address(value),
            libc::IFA_FLAGS => flags = read_u32(value, 0)?,
            _ => {}
        }
    }
    // On a point-to-point link, IFA_ADDRESS is the peer, so IFA_LOCAL takes precedence.
    let network = IpNet::new(local.or(address)?, prefix_length).ok()?;
    Some(Address {
        link,
        network,
        scope,
        is_tentative: flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0,
    })
}
