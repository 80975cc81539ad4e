//! ARP (RFC 826, RFC 5227) and NDP (RFC 4861) in bytes: questions for an address in, answers and announcements out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(test)]
mod tests;

/// The address of a network card.
pub type HardwareAddress = [u8; 6];

const BROADCAST: HardwareAddress = [0xff; 6];
const ETHERNET_BYTES: usize = 14;
const TYPE_ARP: [u8; 2] = [0x08, 0x06];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet, IPv4, and the lengths of their addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_BYTES: usize = 28;
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;
const IPV6_BYTES: usize = 40;
const NEXT_IS_ICMPV6: u8 = 58;
/// What no router has passed on (RFC 4861, 7.1.1).
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Type to target address, of both.
const NEIGHBOUR_BYTES: usize = 24;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
/// An option with a hardware address: two bytes and six, counted in eights.
const OPTION_BYTES: usize = 8;
/// "This is an answer", and "forget what you knew".
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Somebody asks for the hardware address of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// By ARP.
    Arp {
        /// What is asked for.
        target: Ipv4Addr,
        /// Who asks; unspecified if it wants to know whether the address is in use.
        asker: Ipv4Addr,
        /// Where the answer goes.
        hardware: HardwareAddress,
    },
    /// By a neighbour solicitation.
    Ndp {
        /// What is asked for.
        target: Ipv6Addr,
        /// Who asks; unspecified if it wants to know whether the address is in use.
        asker: Ipv6Addr,
        /// Where the answer goes.
        hardware: HardwareAddress,
    },
}

impl Question {
    /// Reads a frame; nothing if it is no question, or not as the RFCs want it.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (head, rest) = frame.split_at_checked(ETHERNET_BYTES)?;
        match [head[12], head[13]] {
            TYPE_ARP => read_arp(rest),
            TYPE_IPV6 => read_solicitation(array(head, 6)?, rest),
            _ => None,
        }
    }

    /// The address that is asked for.
    pub fn target(&self) -> IpAddr {
        match self {
            Self::Arp { target, .. } => (*target).into(),
            Self::Ndp { target, .. } => (*target).into(),
        }
    }

    /// The frame that answers: the address is at `own`.
    pub fn answer(&self, own: HardwareAddress) -> Vec<u8> {
        match *self {
            Self::Arp {
                target,
                asker,
                hardware,
            } => arp(hardware, own, ARP_REPLY, target, (hardware, asker)),
            Self::Ndp {
                target,
                asker,
                hardware,
            } if asker.is_unspecified() => {
                debug_assert_eq!(hardware, multicast(ALL_NODES));
                advertisement(own, target, (multicast(ALL_NODES), ALL_NODES), OVERRIDE)
            }
            Self::Ndp {
                target,
                asker,
                hardware,
            } => advertisement(own, target, (hardware, asker), SOLICITED | OVERRIDE),
        }
    }
}

/// The frames that tell everybody that an address is at `own`. For IPv4 there are two, as a request and as a reply:
/// some devices learn from the one only, some from the other.
pub fn announcement(own: HardwareAddress, address: IpAddr) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(address) => vec![
            arp(BROADCAST, own, ARP_REQUEST, address, ([0; 6], address)),
            arp(BROADCAST, own, ARP_REPLY, address, (own, address)),
        ],
        IpAddr::V6(address) => vec![advertisement(
            own,
            address,
            (multicast(ALL_NODES), ALL_NODES),
            OVERRIDE,
        )],
    }
}

/// The group that is asked for an address (RFC 4291, 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (a & 0xff), b)
}

fn read_arp(bytes: &[u8]) -> Option<Question> {
    if bytes.get(..6)? != ARP_HEAD || bytes.get(6..8)? != [0, ARP_REQUEST] {
        return None;
    }
    let hardware: HardwareAddress = array(bytes, 8)?;
    let asker = Ipv4Addr::from(array::<4>(bytes, 14)?);
    let target = Ipv4Addr::from(array::<4>(bytes, 24)?);
    // Who announces an address of its own asks nothing. Groups have no place as askers.
    let is_question = asker != target && !is_group(hardware) && hardware != [0; 6];
    is_question.then_some(Question::Arp {
        target,
        asker,
        hardware,
    })
}

/// What RFC 4861, 7.1.1, wants of a solicitation.
fn read_solicitation(from: HardwareAddress, bytes: &[u8]) -> Option<Question> {
    let (head, rest) = bytes.split_at_checked(IPV6_BYTES)?;
    let length = usize::from(u16::from_be_bytes(array(head, 4)?));
    // Short frames are padded.
    let part = rest.get(..length)?;
    let is_plain = head[0] >> 4 == 6 && head[6] == NEXT_IS_ICMPV6 && head[7] == HOP_LIMIT;
    if !is_plain || part.len() < NEIGHBOUR_BYTES || part[0] != SOLICITATION || part[1] != 0 {
        return None;
    }
    let source = Ipv6Addr::from(array::<16>(head, 8)?);
    let destination = Ipv6Addr::from(array::<16>(head, 24)?);
    if checksum(source, destination, part) != 0 {
        return None;
    }
    let target = Ipv6Addr::from(array::<16>(part, 8)?);
    let mut hardware = None;
    let mut options = part.get(NEIGHBOUR_BYTES..)?;
    while !options.is_empty() {
        let bytes = usize::from(*options.get(1)?) * OPTION_BYTES;
        let option = options.get(..bytes).filter(|option| !option.is_empty())?;
        if option[0] == OPTION_SOURCE && bytes == OPTION_BYTES {
            hardware = Some(array::<6>(option, 2)?);
        }
        options = &options[bytes..];
    }
    let is_probe = source.is_unspecified();
    if target.is_multicast() || source.is_multicast() || (is_probe && hardware.is_some()) {
        return None;
    }
    let hardware = if is_probe {
        multicast(ALL_NODES)
    } else {
        Some(hardware.unwrap_or(from)).filter(|hardware| !is_group(*hardware))?
    };
    Some(Question::Ndp {
        target,
        asker: source,
        hardware,
    })
}

fn arp(
    to: HardwareAddress,
    own: HardwareAddress,
    operation: u8,
    address: Ipv4Addr,
    target: (HardwareAddress, Ipv4Addr),
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET_BYTES + ARP_BYTES);
    frame.extend(to);
    frame.extend(own);
    frame.extend(TYPE_ARP);
    frame.extend(ARP_HEAD);
    frame.extend([0, operation]);
    frame.extend(own);
    frame.extend(address.octets());
    frame.extend(target.0);
    frame.extend(target.1.octets());
    frame
}

fn advertisement(
    own: HardwareAddress,
    address: Ipv6Addr,
    to: (HardwareAddress, Ipv6Addr),
    flags: u8,
) -> Vec<u8> {
    let mut part = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    part.extend(address.octets());
    part.extend([OPTION_TARGET, 1]);
    part.extend(own);
    let sum = checksum(address, to.1, &part);
    part[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Vec::with_capacity(ETHERNET_BYTES + IPV6_BYTES + part.len());
    frame.extend(to.0);
    frame.extend(own);
    frame.extend(TYPE_IPV6);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((part.len() as u16).to_be_bytes());
    frame.extend([NEXT_IS_ICMPV6, HOP_LIMIT]);
    frame.extend(address.octets());
    frame.extend(to.1.octets());
    frame.extend(part);
    frame
}

/// The checksum of ICMPv6 with its pseudo header (RFC 4443, 2.3); 0 for a part that has the right one in it.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, part: &[u8]) -> u16 {
    let addresses = source.segments().into_iter().chain(destination.segments());
    let words = part
        .chunks(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let fixed = u64::from(NEXT_IS_ICMPV6) + part.len() as u64;
    let mut sum: u64 = addresses.chain(words).map(u64::from).sum::<u64>() + fixed;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Where frames for a group go (RFC 2464, 7).
fn multicast(group: Ipv6Addr) -> HardwareAddress {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

fn is_group(hardware: HardwareAddress) -> bool {
    hardware[0] & 1 != 0
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
