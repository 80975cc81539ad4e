//! Neighbours: link-layer addresses of hosts on a link (ARP and neighbour discovery).

use std::net::IpAddr;

use super::connection::Connection;
use super::error::RouteError;
use super::link_id::LinkIndex;
use super::message::{Request, family, read_address, read_u16, read_u32};
use crate::message::{Attribute, attributes};

/// Size of `struct ndmsg` in bytes.
const FIXED_BYTES: usize = 12;
/// Size of an Ethernet address in bytes.
const ETHERNET_BYTES: usize = 6;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// A neighbour on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Link of the entry.
    pub link: LinkIndex,
    /// IP address.
    pub address: IpAddr,
    /// Ethernet address, if known.
    pub ethernet: Option<[u8; ETHERNET_BYTES]>,
    /// `NUD_…` bits: reachable, stale, permanent …
    pub state: u16,
}

impl Neighbour {
    /// Returns true if resolution is pending or has failed.
    pub fn is_unanswered(&self) -> bool {
        self.state & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0
    }
}

impl Connection {
    /// Returns all neighbours of the namespace.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, RouteError> {
        let request = || Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &[0; FIXED_BYTES]);
        self.dump("list neighbours", request, parse)
    }

    /// Sets a permanent Ethernet address, which replaces a learned one.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub fn replace_neighbour(
        &mut self,
        link: LinkIndex,
        address: IpAddr,
        ethernet: [u8; ETHERNET_BYTES],
    ) -> Result<(), RouteError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let part = fixed_header(link, address, libc::NUD_PERMANENT);
        let mut request = Request::new(libc::RTM_NEWNEIGH, flags, &part);
        request.address(NDA_DST, address).attribute(NDA_LLADDR, &ethernet);
        self.execute(format!("set neighbour {address} on link {}", link.0), request)
    }

    /// Deletes a neighbour.
    ///
    /// # Errors
    ///
    /// A [`RouteError`]; [`RouteError::is_absent`] if there is no such neighbour.
    pub fn delete_neighbour(&mut self, link: LinkIndex, address: IpAddr) -> Result<(), RouteError> {
        let mut request = Request::new(libc::RTM_DELNEIGH, 0, &fixed_header(link, address, 0));
        request.address(NDA_DST, address);
        self.execute(
            format!("remove neighbour {address} from link {}", link.0),
            request,
        )
    }
}

fn fixed_header(link: LinkIndex, address: IpAddr, state: u16) -> [u8; FIXED_BYTES] {
    let mut part = [0; FIXED_BYTES];
    part[0] = family(address);
    part[4..8].copy_from_slice(&link.0.to_ne_bytes());
    part[8..10].copy_from_slice(&state.to_ne_bytes());
    part
}

/// Decodes the payload of an `RTM_NEWNEIGH`.
pub(super) fn parse(part: &[u8]) -> Option<Neighbour> {
    let link = LinkIndex(read_u32(part, 4)?);
    let state = read_u16(part, 8)?;
    let (mut address, mut ethernet) = (None, None);
    for Attribute { kind, value } in attributes(part.get(FIXED_BYTES..)?) {
        match kind {
            NDA_DST => address = read_address(value),
            NDA_LLADDR => ethernet = value.try_into().ok(),
            _ => {}
        }
    }
    Some(Neighbour {
        link,
        address: address?,
        ethernet,
        state,
    })
}
