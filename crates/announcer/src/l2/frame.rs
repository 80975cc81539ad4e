//! Frames of ARP (RFC 826, RFC 5227) and NDP (RFC 4861): decodes address resolution requests, encodes replies and
//! announcements.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(test)]
mod tests;

/// Ethernet address.
pub type HardwareAddress = [u8; 6];

const BROADCAST: HardwareAddress = [0xff; 6];
const ETHERNET_BYTES: usize = 14;
const TYPE_ARP: [u8; 2] = [0x08, 0x06];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_BYTES: usize = 28;
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;
const IPV6_BYTES: usize = 40;
const NEXT_IS_ICMPV6: u8 = 58;
/// Proves that no router forwarded the packet (RFC 4861, section 7.1.1).
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Length of solicitations and advertisements from the type to the target address.
const NEIGHBOUR_BYTES: usize = 24;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
/// Length of an option with a hardware address; options count in units of eight bytes.
const OPTION_BYTES: usize = 8;
/// Flags of advertisements (RFC 4861, section 4.4).
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Request for the hardware address of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolutionRequest {
    /// ARP request.
    Arp {
        /// Requested address.
        target: Ipv4Addr,
        /// Address of the requester; unspecified for duplicate address detection.
        requester: Ipv4Addr,
        /// Ethernet address that the reply goes to.
        hardware: HardwareAddress,
    },
    /// NDP neighbour solicitation.
    Ndp {
        /// Requested address.
        target: Ipv6Addr,
        /// Address of the requester; unspecified for duplicate address detection.
        requester: Ipv6Addr,
        /// Ethernet address that the reply goes to.
        hardware: HardwareAddress,
    },
}

impl ResolutionRequest {
    /// Decodes a frame. Returns `None` for other frames and for requests that the RFCs require to discard.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (head, rest) = frame.split_at_checked(ETHERNET_BYTES)?;
        match [head[12], head[13]] {
            TYPE_ARP => read_arp(rest),
            TYPE_IPV6 => read_solicitation(array(head, 6)?, rest),
            _ => None,
        }
    }

    /// Returns the requested address.
    pub fn target(&self) -> IpAddr {
        match self {
            Self::Arp { target, .. } => (*target).into(),
            Self::Ndp { target, .. } => (*target).into(),
        }
    }

    /// Encodes the reply: the requested address is at `own`.
    pub fn reply(&self, own: HardwareAddress) -> Vec<u8> {
        match *self {
            Self::Arp {
                target,
                requester,
                hardware,
            } => arp(hardware, own, ARP_REPLY, target, (hardware, requester)),
            Self::Ndp {
                target,
                requester,
                hardware,
            } if requester.is_unspecified() => {
                debug_assert_eq!(hardware, multicast(ALL_NODES));
                advertisement(own, target, (multicast(ALL_NODES), ALL_NODES), OVERRIDE)
            }
            Self::Ndp {
                target,
                requester,
                hardware,
            } => advertisement(own, target, (hardware, requester), SOLICITED | OVERRIDE),
        }
    }
}

/// Encodes an ARP request for the hardware address of `target`.
pub fn arp_request(own: HardwareAddress, requester: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp(BROADCAST, own, ARP_REQUEST, requester, ([0; 6], target))
}

/// Decodes an ARP reply: the address and its hardware address. `None` for other frames.
pub fn read_arp_reply(frame: &[u8]) -> Option<(Ipv4Addr, HardwareAddress)> {
    let (head, rest) = frame.split_at_checked(ETHERNET_BYTES)?;
    let rest = rest.get(..ARP_BYTES)?;
    let is_reply =
        head.get(12..14)? == TYPE_ARP && rest.get(..6)? == ARP_HEAD && rest.get(6..8)? == [0, ARP_REPLY];
    let hardware: HardwareAddress = array(rest, 8)?;
    let address = Ipv4Addr::from(array::<4>(rest, 14)?);
    is_reply.then_some((address, hardware))
}

/// Encodes gratuitous announcements: `address` is at `own`. For IPv4 there is a request and a reply, because
/// some devices update their caches only from one of them.
pub(crate) fn announcement(own: HardwareAddress, address: IpAddr) -> Vec<Vec<u8>> {
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

/// Returns the solicited-node multicast address (RFC 4291, section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (a & 0xff), b)
}

fn read_arp(bytes: &[u8]) -> Option<ResolutionRequest> {
    if bytes.get(..6)? != ARP_HEAD || bytes.get(6..8)? != [0, ARP_REQUEST] {
        return None;
    }
    let hardware: HardwareAddress = array(bytes, 8)?;
    let requester = Ipv4Addr::from(array::<4>(bytes, 14)?);
    let target = Ipv4Addr::from(array::<4>(bytes, 24)?);
    // A gratuitous announcement is not a request. A group address is not a valid sender.
    let is_request = requester != target && !is_group(hardware) && hardware != [0; 6];
    is_request.then_some(ResolutionRequest::Arp {
        target,
        requester,
        hardware,
    })
}

/// Decodes a solicitation and validates it (RFC 4861, section 7.1.1).
fn read_solicitation(from: HardwareAddress, bytes: &[u8]) -> Option<ResolutionRequest> {
    let (head, rest) = bytes.split_at_checked(IPV6_BYTES)?;
    let length = usize::from(u16::from_be_bytes(array(head, 4)?));
    // Short frames have padding.
    let icmp = rest.get(..length)?;
    let is_plain = head[0] >> 4 == 6 && head[6] == NEXT_IS_ICMPV6 && head[7] == HOP_LIMIT;
    if !is_plain || icmp.len() < NEIGHBOUR_BYTES || icmp[0] != SOLICITATION || icmp[1] != 0 {
        return None;
    }
    let source = Ipv6Addr::from(array::<16>(head, 8)?);
    let destination = Ipv6Addr::from(array::<16>(head, 24)?);
    if checksum(source, destination, icmp) != 0 {
        return None;
    }
    let target = Ipv6Addr::from(array::<16>(icmp, 8)?);
    let mut hardware = None;
    let mut options = icmp.get(NEIGHBOUR_BYTES..)?;
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
    Some(ResolutionRequest::Ndp {
        target,
        requester: source,
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
    let mut icmp = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    icmp.extend(address.octets());
    icmp.extend([OPTION_TARGET, 1]);
    icmp.extend(own);
    let sum = checksum(address, to.1, &icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Vec::with_capacity(ETHERNET_BYTES + IPV6_BYTES + icmp.len());
    frame.extend(to.0);
    frame.extend(own);
    frame.extend(TYPE_IPV6);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((icmp.len() as u16).to_be_bytes());
    frame.extend([NEXT_IS_ICMPV6, HOP_LIMIT]);
    frame.extend(address.octets());
    frame.extend(to.1.octets());
    frame.extend(icmp);
    frame
}

/// Returns the ICMPv6 checksum with its pseudo-header (RFC 4443, section 2.3); 0 for a message that contains its
/// correct checksum.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, icmp: &[u8]) -> u16 {
    let addresses = source.segments().into_iter().chain(destination.segments());
    let words = icmp
        .chunks(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let fixed = u64::from(NEXT_IS_ICMPV6) + icmp.len() as u64;
    let mut sum: u64 = addresses.chain(words).map(u64::from).sum::<u64>() + fixed;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the Ethernet address of a multicast group (RFC 2464, section 7).
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
