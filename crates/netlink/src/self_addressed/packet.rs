//! Datagrams with their IP header, and the filter of returned ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::filter::step;

#[cfg(test)]
mod tests;

/// Length of an IPv4 header without options.
const IPV4_BYTES: usize = 20;
/// Length of an IPv6 header without extension headers.
const IPV6_BYTES: usize = 40;
/// Length of a UDP header.
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;
/// Hops of a sent datagram. Each router takes one.
const HOPS: u8 = 255;
/// Minimum number of hops of a returned datagram: the neighbour itself has forwarded it.
const HOPS_MIN: u32 = 254;
/// Type of service, or traffic class: internetwork control (RFC 2474).
const TYPE_OF_SERVICE: u8 = 0xc0;
/// Maximum length of a payload that is sent or received.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64;
/// Maximum length of a packet; an IPv4 header has up to 60 bytes.
pub(super) const PACKET_BYTES_MAX: usize = 60 + UDP_BYTES + PAYLOAD_BYTES_MAX;

/// Returns the payload of a received datagram; `None` if its lengths are invalid.
pub(super) fn payload(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let header = match first >> 4 {
        6 => IPV6_BYTES,
        _ => usize::from(first & 0x0f) * 4,
    };
    let datagram = packet.get(header..)?;
    let [_, _, _, _, high, low, ..] = datagram else {
        return None;
    };
    datagram.get(UDP_BYTES..usize::from(u16::from_be_bytes([*high, *low])))
}

/// Builds a datagram from an address to itself, with its IP header. The payload has at most [`PAYLOAD_BYTES_MAX`].
pub(super) fn packet(address: IpAddr, source_port: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(UDP_BYTES + payload.len());
    datagram.extend(source_port.to_be_bytes());
    datagram.extend(port.to_be_bytes());
    datagram.extend(((UDP_BYTES + payload.len()) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    match address {
        IpAddr::V4(address) => ipv4_packet(address, &datagram),
        IpAddr::V6(address) => {
            let checksum = ipv6_checksum(address, &datagram);
            datagram[6..UDP_BYTES].copy_from_slice(&checksum.to_be_bytes());
            ipv6_packet(address, &datagram)
        }
    }
}

/// Adds the IPv4 header. The kernel fills in its length, identification and checksum. The datagram needs no checksum of its
/// own (RFC 768).
fn ipv4_packet(address: Ipv4Addr, datagram: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(IPV4_BYTES + datagram.len());
    packet.extend([0x45, TYPE_OF_SERVICE, 0, 0, 0, 0, 0, 0, HOPS, UDP, 0, 0]);
    packet.extend(address.octets());
    packet.extend(address.octets());
    packet.extend(datagram);
    packet
}

/// Adds the IPv6 header.
fn ipv6_packet(address: Ipv6Addr, datagram: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(IPV6_BYTES + datagram.len());
    packet.extend([0x60 | TYPE_OF_SERVICE >> 4, TYPE_OF_SERVICE << 4, 0, 0]);
    packet.extend((datagram.len() as u16).to_be_bytes());
    packet.extend([UDP, HOPS]);
    packet.extend(address.octets());
    packet.extend(address.octets());
    packet.extend(datagram);
    packet
}

/// Returns the checksum of a datagram whose checksum is zero (RFC 8200, section 8.1).
fn ipv6_checksum(address: Ipv6Addr, datagram: &[u8]) -> u16 {
    let words = datagram
        .chunks(2)
        .map(|word| u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    let addresses = address.segments().into_iter().chain(address.segments());
    let sum: u32 = addresses.chain(words).map(u32::from).sum();
    let mut sum = sum + datagram.len() as u32 + u32::from(UDP);
    while sum > u32::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => u16::MAX,
        checksum => checksum,
    }
}

/// Returns the filter of returned datagrams: UDP without fragments, with hops, destination address and port.
pub(super) fn steps(address: IpAddr, port: u16) -> Vec<libc::sock_filter> {
    match address {
        IpAddr::V4(address) => ipv4_steps(address, port),
        IpAddr::V6(address) => ipv6_steps(address, port),
    }
}

fn ipv4_steps(address: Ipv4Addr, port: u16) -> Vec<libc::sock_filter> {
    vec![
        load(libc::BPF_B, 9),
        jump(libc::BPF_JEQ, 0, 10, UDP.into()),
        load(libc::BPF_H, 6),
        jump(libc::BPF_JSET, 8, 0, 0x3fff),
        load(libc::BPF_B, 8),
        jump(libc::BPF_JGE, 0, 6, HOPS_MIN),
        load(libc::BPF_W, 16),
        jump(libc::BPF_JEQ, 0, 4, u32::from(address)),
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
        jump(libc::BPF_JEQ, 0, 1, port.into()),
        end(u32::MAX),
        end(0),
    ]
}

/// A packet with extension headers, such as a fragment, has another next header than UDP.
fn ipv6_steps(address: Ipv6Addr, port: u16) -> Vec<libc::sock_filter> {
    let bits = address.to_bits();
    let word = |number: u32| (bits >> (96 - 32 * number)) as u32;
    vec![
        load(libc::BPF_B, 6),
        jump(libc::BPF_JEQ, 0, 13, UDP.into()),
        load(libc::BPF_B, 7),
        jump(libc::BPF_JGE, 0, 11, HOPS_MIN),
        load(libc::BPF_W, 24),
        jump(libc::BPF_JEQ, 0, 9, word(0)),
        load(libc::BPF_W, 28),
        jump(libc::BPF_JEQ, 0, 7, word(1)),
        load(libc::BPF_W, 32),
        jump(libc::BPF_JEQ, 0, 5, word(2)),
        load(libc::BPF_W, 36),
        jump(libc::BPF_JEQ, 0, 3, word(3)),
        load(libc::BPF_H, 42),
        jump(libc::BPF_JEQ, 0, 1, port.into()),
        end(u32::MAX),
        end(0),
    ]
}

fn load(size: u32, offset: u32) -> libc::sock_filter {
    step(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, offset)
}

fn jump(test: u32, if_true: u8, if_false: u8, value: u32) -> libc::sock_filter {
    step(libc::BPF_JMP | test | libc::BPF_K, if_true, if_false, value)
}

fn end(bytes: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, bytes)
}
