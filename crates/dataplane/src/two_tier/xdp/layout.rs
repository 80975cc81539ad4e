//! Encoding of the elements of the maps. This process writes them, and the program reads them.

use std::net::{IpAddr, Ipv4Addr};

use maglev::TABLE_SIZE;
use netlink::bpf::{MapKind, MapShape};

use super::super::state::{FrontendKey, PORTS_MAX};

/// Size of a frontend in bytes: address and port in network order, protocol.
pub(super) const FRONTEND_BYTES: usize = 8;
/// Size in bytes of a map value that is a number.
pub(super) const NUMBER_BYTES: usize = 8;
/// Offset of the outer IP addresses in an entry: first the address of this node, then that of the other node. The
/// Ethernet addresses precede them.
pub(super) const ADDRESSES_OFFSET: usize = 12;
/// Offset of the partial checksum of the outer IP header in an entry. The sum is not folded, and the total length is
/// not part of it.
pub(super) const SUM_OFFSET: usize = 20;
/// Offset of the inner Ethernet addresses in an entry.
pub(super) const INNER_ETHERNET_OFFSET: usize = 24;
/// Size of an entry in bytes.
pub(super) const NODE_BYTES: usize = 40;

/// Maximum number of nodes; the rules forward packets to nodes with higher numbers. Kubernetes supports 5,000 nodes.
pub(super) const NODES_MAX: u32 = 8_192;
/// Maximum number of frontends: several addresses for each of [`PORTS_MAX`] ports.
const FRONTENDS_MAX: u32 = 1_024;

/// First bytes of the outer IP header: version, header length, and type of service.
pub(super) const OUTER_VERSION: [u8; 2] = [0x45, 0];
/// Identification, and the flag "don't fragment" (RFC 6864).
pub(super) const OUTER_FRAGMENT: [u8; 4] = [0, 0, 0x40, 0];
/// TTL, protocol UDP, and space for the checksum.
pub(super) const OUTER_TTL: [u8; 4] = [64, libc::IPPROTO_UDP as u8, 0, 0];

/// Map from a frontend to its first slot.
pub(super) const FRONTENDS_SHAPE: MapShape = map_shape(
    "frontends",
    MapKind::Hash,
    FRONTEND_BYTES,
    NUMBER_BYTES,
    FRONTENDS_MAX,
);
/// Map from a slot to the number of its node; 0 for no node.
pub(super) const SLOTS_SHAPE: MapShape = map_shape(
    "slots",
    MapKind::Array,
    4,
    NUMBER_BYTES,
    PORTS_MAX as u32 * TABLE_SIZE,
);
/// Map from the number of a node to its entry; zeros for an unknown node.
pub(super) const NODES_SHAPE: MapShape = map_shape("nodes", MapKind::Array, 4, NODE_BYTES, NODES_MAX);
/// Counter of forwarded packets.
pub(super) const FORWARDED_SHAPE: MapShape = map_shape("forwarded", MapKind::PerCpuArray, 4, NUMBER_BYTES, 1);

const fn map_shape(
    name: &'static str,
    kind: MapKind,
    key: usize,
    value: usize,
    elements_max: u32,
) -> MapShape {
    MapShape {
        name,
        kind,
        key_bytes: key as u32,
        value_bytes: value as u32,
        elements_max,
    }
}

/// Addresses in the headers of packets to a node that is a neighbour of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeEntry {
    /// Ethernet addresses on the interface: of the other node, and of this node.
    pub(super) ethernet: [[u8; 6]; 2],
    /// IP addresses: of this node, and of the other node.
    pub(super) addresses: [Ipv4Addr; 2],
    /// Ethernet addresses of the VXLAN links: of the other node, and of this node.
    pub(super) inner_ethernet: [[u8; 6]; 2],
}

impl NodeEntry {
    /// Encodes the entry.
    pub(super) fn to_bytes(self) -> [u8; NODE_BYTES] {
        let [own, other] = self.addresses.map(|address| address.octets());
        let header = [OUTER_VERSION, [0, 0]].concat();
        let header = [&header[..], &OUTER_FRAGMENT, &OUTER_TTL, &own, &other].concat();
        // The sum is independent of the order of bytes (RFC 1071).
        let halves = header.as_chunks::<2>().0.iter();
        let sum: u32 = halves.map(|half| u32::from(u16::from_ne_bytes(*half))).sum();
        let fields = [
            self.ethernet.as_flattened(),
            &own,
            &other,
            &sum.to_ne_bytes(),
            self.inner_ethernet.as_flattened(),
        ];
        let mut bytes = [0; NODE_BYTES];
        for (to, from) in bytes.iter_mut().zip(fields.concat()) {
            *to = from;
        }
        bytes
    }
}

/// Encodes a frontend; `None` for IPv6.
pub(super) fn frontend_bytes(key: &FrontendKey) -> Option<[u8; FRONTEND_BYTES]> {
    let IpAddr::V4(address) = key.address else {
        return None;
    };
    let [a, b, c, d] = address.octets();
    let [high, low] = key.port.to_be_bytes();
    let [first, second] = u16::from(key.protocol).to_ne_bytes();
    Some([a, b, c, d, high, low, first, second])
}

/// Encodes a number as a value.
pub(super) fn number_bytes(number: u32) -> [u8; NUMBER_BYTES] {
    let [a, b, c, d] = number.to_ne_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}
