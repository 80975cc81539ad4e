//! Encoding of messages. None is longer than [`MESSAGE_BYTES_MAX`].

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::attributes::{self, Origin};
use super::notification::Notification;
use super::open::{AS_TRANS, Open};
use super::prefix::{self, PREFIX_BYTES_MAX};
use super::{
    Context, HEADER_BYTES, KEEPALIVE, MARKER, MESSAGE_BYTES_MAX, NOTIFICATION, OPEN, ROUTE_REFRESH, UPDATE,
};
use crate::Family;
use crate::routes::{NextHop, RouteAttributes};

/// LOCAL_PREF of routes without one, for peers of the same autonomous system.
const LOCAL_PREFERENCE: u32 = 100;
/// Bytes of an attribute's flags, type and extended length.
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// Encodes an OPEN.
pub fn open(open: &Open) -> Vec<u8> {
    frame(OPEN, &open.encode())
}

/// Encodes a NOTIFICATION.
pub fn notification(notification: &Notification) -> Vec<u8> {
    frame(NOTIFICATION, &notification.encode())
}

/// Encodes a KEEPALIVE.
pub fn keepalive() -> Vec<u8> {
    frame(KEEPALIVE, &[])
}

/// Encodes a ROUTE-REFRESH (RFC 2918).
pub fn route_refresh(family: Family) -> Vec<u8> {
    let [high, low] = family.afi().to_be_bytes();
    frame(ROUTE_REFRESH, &[high, low, 0, Family::UNICAST])
}

/// Encodes the end of the initial routes of a family (RFC 4724, section 2).
pub fn end_of_routes(family: Family) -> Vec<u8> {
    match family {
        Family::Ipv4 => update(&[], &[], &[]),
        Family::Ipv6 => withdrawal(&[], Family::Ipv6).0,
    }
}

/// Encodes a withdrawal of as many of the prefixes as fit, and returns their number. All belong to `family`.
pub fn withdrawal(prefixes: &[IpNet], family: Family) -> (Vec<u8>, usize) {
    match family {
        Family::Ipv4 => {
            let (encoded, count) = encode_prefixes(prefixes, MESSAGE_BYTES_MAX - HEADER_BYTES - 4);
            (update(&encoded, &[], &[]), count)
        }
        Family::Ipv6 => {
            let limit = MESSAGE_BYTES_MAX - HEADER_BYTES - 4 - ATTRIBUTE_HEADER_BYTES - 3;
            let (encoded, count) = encode_prefixes(prefixes, limit);
            let mut value = family.afi().to_be_bytes().to_vec();
            value.push(Family::UNICAST);
            value.extend_from_slice(&encoded);
            let mut list = Vec::new();
            attribute(&mut list, attributes::MP_UNREACH, &value);
            (update(&[], &list, &[]), count)
        }
    }
}

/// Encodes an announcement of as many of the prefixes as fit, and returns their number. All belong to `family`.
pub fn announcement(
    prefixes: &[IpNet],
    family: Family,
    route: &RouteAttributes,
    next_hop: NextHop,
    context: &Context,
) -> (Vec<u8>, usize) {
    let mut list = Vec::new();
    attribute(&mut list, attributes::ORIGIN, &[Origin::Igp as u8]);
    attribute(&mut list, attributes::AS_PATH, &as_path(context));
    let classic = match (family, next_hop) {
        (Family::Ipv4, NextHop::Ipv4(address)) => Some(address),
        _ => None,
    };
    if let Some(address) = classic {
        attribute(&mut list, attributes::NEXT_HOP, &address.octets());
    }
    if context.is_internal {
        let preference = route.local_preference.unwrap_or(LOCAL_PREFERENCE);
        attribute(&mut list, attributes::LOCAL_PREF, &preference.to_be_bytes());
    }
    communities(&mut list, route);
    let needs_as4 = !context.has_four_octet_as && u16::try_from(context.local_as).is_err();
    if needs_as4 && !context.is_internal {
        let mut value = vec![attributes::AS_SEQUENCE, 1];
        value.extend_from_slice(&context.local_as.to_be_bytes());
        attribute(&mut list, attributes::AS4_PATH, &value);
    }
    let available = MESSAGE_BYTES_MAX - HEADER_BYTES - 4 - list.len();
    if classic.is_some() {
        let (encoded, count) = encode_prefixes(prefixes, available);
        return (update(&[], &list, &encoded), count);
    }
    let mut value = family.afi().to_be_bytes().to_vec();
    value.push(Family::UNICAST);
    encode_next_hop(next_hop, &mut value);
    // The octet is reserved.
    value.push(0);
    let available = available - ATTRIBUTE_HEADER_BYTES - value.len();
    let (encoded, count) = encode_prefixes(prefixes, available);
    value.extend_from_slice(&encoded);
    // MP_REACH_NLRI comes first (RFC 7606, section 5.1).
    let mut attributes = Vec::new();
    attribute(&mut attributes, attributes::MP_REACH, &value);
    attributes.extend_from_slice(&list);
    (update(&[], &attributes, &[]), count)
}

fn as_path(context: &Context) -> Vec<u8> {
    if context.is_internal {
        return Vec::new();
    }
    let mut path = vec![attributes::AS_SEQUENCE, 1];
    if context.has_four_octet_as {
        path.extend_from_slice(&context.local_as.to_be_bytes());
    } else {
        let number = u16::try_from(context.local_as).unwrap_or(AS_TRANS);
        path.extend_from_slice(&number.to_be_bytes());
    }
    path
}

/// Appends the communities. [`RouteAttributes`] bounds their number, so that prefixes still fit.
fn communities(list: &mut Vec<u8>, route: &RouteAttributes) {
    let standard = route
        .communities()
        .flat_map(|community| community.0.to_be_bytes());
    let standard: Vec<u8> = standard.collect();
    if !standard.is_empty() {
        attribute(list, attributes::COMMUNITIES, &standard);
    }
    let large = route.large_communities().flat_map(|community| community.0);
    let large: Vec<u8> = large.flat_map(u32::to_be_bytes).collect();
    if !large.is_empty() {
        attribute(list, attributes::LARGE_COMMUNITIES, &large);
    }
}

fn encode_next_hop(next_hop: NextHop, value: &mut Vec<u8>) {
    match next_hop {
        NextHop::Ipv4(address) => {
            value.push(4);
            value.extend_from_slice(&Ipv4Addr::octets(&address));
        }
        NextHop::Ipv6 {
            address,
            link_local: None,
        } => {
            value.push(16);
            value.extend_from_slice(&address.octets());
        }
        NextHop::Ipv6 {
            address,
            link_local: Some(link_local),
        } => {
            value.push(32);
            value.extend_from_slice(&address.octets());
            value.extend_from_slice(&link_local.octets());
        }
    }
}

/// Encodes as many prefixes as fit into `limit` bytes, and returns their number.
fn encode_prefixes(prefixes: &[IpNet], limit: usize) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut count = 0;
    for prefix in prefixes {
        if bytes.len() + PREFIX_BYTES_MAX > limit {
            break;
        }
        prefix::encode(prefix, &mut bytes);
        count += 1;
    }
    (bytes, count)
}

/// Appends an attribute with the flags of its type.
fn attribute(list: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let flags = attributes::flags_of(kind);
    match u8::try_from(value.len()) {
        Ok(length) => list.extend_from_slice(&[flags, kind, length]),
        Err(_) => {
            let [high, low] = u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes();
            list.extend_from_slice(&[flags | attributes::EXTENDED_LENGTH, kind, high, low]);
        }
    }
    list.extend_from_slice(value);
}

fn update(withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + withdrawn.len() + attributes.len() + announced.len());
    for part in [withdrawn, attributes] {
        body.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        body.extend_from_slice(part);
    }
    body.extend_from_slice(announced);
    frame(UPDATE, &body)
}

/// Puts a header before a body.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER_BYTES + body.len()).unwrap_or(u16::MAX);
    let mut message = Vec::with_capacity(usize::from(length));
    message.extend_from_slice(&MARKER);
    message.extend_from_slice(&length.to_be_bytes());
    message.push(kind);
    message.extend_from_slice(body);
    message
}

/// Returns the next hop as an address.
impl From<NextHop> for IpAddr {
    fn from(next_hop: NextHop) -> Self {
        match next_hop {
            NextHop::Ipv4(address) => Self::V4(address),
            NextHop::Ipv6 { address, .. } => Self::V6(address),
        }
    }
}
