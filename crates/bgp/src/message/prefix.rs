//! Prefixes in UPDATEs: a length in bits, and as many octets as it needs (RFC 4271, section 4.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::reader::Reader;
use crate::Family;

/// Maximum number of bytes of a prefix.
pub(super) const PREFIX_BYTES_MAX: usize = 17;

/// Reads all prefixes; `None` if one is malformed. Bits after the length are ignored.
pub(super) fn decode(bytes: &[u8], family: Family) -> Option<Vec<IpNet>> {
    let mut reader = Reader::new(bytes);
    let mut prefixes = Vec::new();
    while !reader.is_empty() {
        let length = reader.u8()?;
        let octets = reader.take(usize::from(length).div_ceil(8))?;
        let address = match family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::from(pad_to_array::<4>(octets)?)),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from(pad_to_array::<16>(octets)?)),
        };
        prefixes.push(IpNet::new(address, length).ok()?.trunc());
    }
    Some(prefixes)
}

fn pad_to_array<const COUNT: usize>(octets: &[u8]) -> Option<[u8; COUNT]> {
    let mut padded = [0; COUNT];
    padded.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(padded)
}

/// Appends a prefix.
pub(super) fn encode(prefix: &IpNet, bytes: &mut Vec<u8>) {
    bytes.push(prefix.prefix_len());
    let count = usize::from(prefix.prefix_len()).div_ceil(8);
    match prefix.network() {
        IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()[..count]),
        IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()[..count]),
    }
}
