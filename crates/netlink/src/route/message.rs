//! Requests of rtnetlink as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::link_id::LinkName;
use crate::message::Writer;

/// Initial capacity of a request in bytes.
const REQUEST_BYTES: usize = 256;
/// Offset of the sequence number in a message.
const SEQUENCE_OFFSET: usize = 8;

/// Writer of a request.
pub(super) struct Request {
    writer: Writer,
}

impl Request {
    /// Starts a request of `kind` (`RTM_…`) with `flags` (`NLM_F_…`) and the fixed part after the header.
    pub(super) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut writer = Writer::with_capacity(REQUEST_BYTES);
        writer.begin(kind, flags | libc::NLM_F_REQUEST, 0).fixed(fixed);
        Self { writer }
    }

    /// Appends an attribute.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.writer.attribute(kind, value);
        self
    }

    /// Appends a number.
    pub(super) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.writer.u32(kind, value);
        self
    }

    /// Appends a text.
    pub(super) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.writer.text(kind, value);
        self
    }

    /// Appends an address.
    pub(super) fn address(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
    }

    /// Appends a nested attribute with the content that `fill` writes.
    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let nest = self.writer.nest(kind);
        fill(self);
        self.writer.end(nest);
        self
    }

    /// Appends a fixed part inside of a nested attribute, such as the header of a veth's peer.
    pub(super) fn fixed(&mut self, part: &[u8]) -> &mut Self {
        self.writer.fixed(part);
        self
    }

    /// Requests an acknowledgement.
    pub(super) fn request_acknowledgement(&mut self) {
        self.writer.add_flags(libc::NLM_F_ACK);
    }

    /// Returns the bytes of the request.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let mut bytes = self.writer.finish().to_vec();
        if let Some(field) = bytes.get_mut(SEQUENCE_OFFSET..SEQUENCE_OFFSET + 4) {
            field.copy_from_slice(&sequence.to_ne_bytes());
        }
        bytes
    }
}

/// Returns the `family` byte of fixed parts.
pub(super) fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// Returns a `struct ifinfomsg` with this index, flags and change mask.
pub(super) fn ifinfomsg(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut part = [0; 16];
    part[4..8].copy_from_slice(&index.to_ne_bytes());
    part[8..12].copy_from_slice(&flags.to_ne_bytes());
    part[12..16].copy_from_slice(&change.to_ne_bytes());
    part
}

/// Starts a request that creates a link with this name.
pub(super) fn new_link(name: &LinkName) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut request = Request::new(libc::RTM_NEWLINK, flags, &ifinfomsg(0, 0, 0));
    request.text(libc::IFLA_IFNAME, name.as_str());
    request
}

/// Reads the number at `offset`.
pub(super) fn read_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    let field = bytes.get(offset..offset + 2)?;
    Some(u16::from_ne_bytes(field.try_into().ok()?))
}

/// Reads the number at `offset`.
pub(super) fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(field.try_into().ok()?))
}

/// Reads an address; its family follows from the length.
pub(super) fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}
