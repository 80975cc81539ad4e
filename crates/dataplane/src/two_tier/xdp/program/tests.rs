use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use netlink::bpf::{BpfError, Map, XdpProgram};

use super::super::layout::{
    FORWARDED_SHAPE, FRONTENDS_SHAPE, NODES_SHAPE, NodeEntry, SLOTS_SHAPE, number_bytes,
};
use super::*;

const NODE: u32 = 3;
/// First slot of the frontend.
const FIRST_SLOT: u32 = TABLE_SIZE;
const MTU_BYTES: u32 = 1_500;
const CLIENT_PORT: u16 = 40_000;
const ENTRY: NodeEntry = NodeEntry {
    ethernet: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
    addresses: [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)],
    inner_ethernet: [[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 1]],
};

/// Maps with one frontend, `203.0.113.5:80` of UDP and TCP, and a node.
struct Loaded {
    program: XdpProgram,
    slots: Map,
    nodes: Map,
    forwarded: Map,
    _frontends: Map,
}

impl Loaded {
    /// Loads the program; ends the test as skipped where the kernel refuses it.
    fn new() -> Self {
        let create = |shape| match Map::create(shape) {
            Ok(map) => map,
            Err(error @ (BpfError::NotPermitted { .. } | BpfError::Unsupported { .. })) => {
                testbed::skip_inside(&error.to_string())
            }
            Err(error) => panic!("{error}"),
        };
        let frontends = create(FRONTENDS_SHAPE);
        let (slots, nodes) = (create(SLOTS_SHAPE), create(NODES_SHAPE));
        let forwarded = create(FORWARDED_SHAPE);
        for protocol in [6_u16, 17] {
            let [first, second] = protocol.to_ne_bytes();
            let key = [203, 0, 113, 5, 0, 80, first, second];
            frontends.update(&key, &number_bytes(FIRST_SLOT)).unwrap();
        }
        nodes.update(&NODE.to_ne_bytes(), &ENTRY.to_bytes()).unwrap();
        let descriptors = MapDescriptors {
            frontends: frontends.as_raw_fd(),
            slots: slots.as_raw_fd(),
            nodes: nodes.as_raw_fd(),
            forwarded: forwarded.as_raw_fd(),
        };
        let [_, ethernet] = ENTRY.ethernet;
        let parameters = Parameters {
            ethernet,
            pods: vec![[[10, 244, 0, 0], [255, 255, 0, 0]]],
            mtu_bytes: MTU_BYTES,
        };
        let instructions = program(descriptors, &parameters).unwrap();
        Self {
            program: XdpProgram::load("two_tier", &instructions).unwrap(),
            slots,
            nodes,
            forwarded,
            _frontends: frontends,
        }
    }

    /// Gives a slot to a node.
    fn assign(&self, slot: u32, node: u32) {
        let key = (FIRST_SLOT + slot).to_ne_bytes();
        self.slots.update(&key, &number_bytes(node)).unwrap();
    }

    /// Gives all slots to the node.
    fn assign_all(&self) {
        for slot in 0..TABLE_SIZE {
            self.assign(slot, NODE);
        }
    }

    fn passes(&self, frame: &[u8]) -> bool {
        let tested = self.program.test(frame, 1).unwrap();
        tested.result == XdpAction::Pass as u32 && tested.frame == frame
    }

    fn forwarded(&self) -> u64 {
        let mut packets = 0;
        let add = |_: &[u8], sums: &[u64]| packets += sums[0];
        self.forwarded.read_sums(add).unwrap();
        packets
    }
}

/// Frame of a UDP packet to the frontend.
fn frame(client_port: u16) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 9], &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([198, 51, 100, 7, 203, 0, 113, 5]);
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum);
    frame.extend(client_port.to_be_bytes());
    frame.extend([0, 80, 0, 26, 0, 0]);
    frame.resize(60, 7);
    frame
}

/// Returns the checksum (RFC 1071); zeros for a header with the right one.
fn checksum(header: &[u8]) -> [u8; 2] {
    let halves = header.as_chunks::<2>().0.iter();
    let mut sum: u32 = halves.map(|half| u32::from(u16::from_be_bytes(*half))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Slot of a packet by Jenkins' hash, as `nft_hash` calculates it from the registers of the rules.
fn slot(client_port: u16, protocol: u8) -> u32 {
    let words = [
        [198, 51, 100, 7],
        [203, 0, 113, 5],
        [client_port.to_be_bytes()[0], client_port.to_be_bytes()[1], 0, 0],
        [0, 80, 0, 0],
        [protocol, 0, 0, 0],
    ]
    .map(u32::from_ne_bytes);
    let start = 0xdead_beef_u32.wrapping_add(20).wrapping_add(SEED);
    let [mut a, mut b, mut c] = [words[0], words[1], words[2]].map(|word| start.wrapping_add(word));
    let subtract_and_mix = |x: u32, y: u32, bits| x.wrapping_sub(y) ^ y.rotate_left(bits);
    a = subtract_and_mix(a, c, 4);
    c = c.wrapping_add(b);
    b = subtract_and_mix(b, a, 6);
    a = a.wrapping_add(c);
    c = subtract_and_mix(c, b, 8);
    b = b.wrapping_add(a);
    a = subtract_and_mix(a, c, 16);
    c = c.wrapping_add(b);
    b = subtract_and_mix(b, a, 19);
    a = a.wrapping_add(c);
    c = subtract_and_mix(c, b, 4);
    b = b.wrapping_add(a);
    a = a.wrapping_add(words[3]);
    b = b.wrapping_add(words[4]);
    let finish = |x: u32, y: u32, bits| (x ^ y).wrapping_sub(y.rotate_left(bits));
    c = finish(c, b, 14);
    a = finish(a, c, 11);
    b = finish(b, a, 25);
    c = finish(c, b, 16);
    a = finish(a, c, 4);
    b = finish(b, a, 14);
    c = finish(c, b, 24);
    ((u64::from(c) * u64::from(TABLE_SIZE)) >> 32) as u32
}

#[test]
fn packet_is_sent_to_the_node_of_its_slot_in_vxlan() {
    testbed::in_namespace(|| {
        let loaded = Loaded::new();
        for client_port in [CLIENT_PORT, 1, 65_535] {
            let sent = frame(client_port);
            assert!(loaded.passes(&sent), "a slot without a node");
            loaded.assign(slot(client_port, 17), NODE);
            let tested = loaded.program.test(&sent, 1).unwrap();
            assert_eq!(tested.result, XdpAction::Transmit as u32);
            let (outer, inner) = tested.frame.split_at(50);
            assert_eq!(outer[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
            assert_eq!(outer[14..24], [0x45, 0, 0, 96, 0, 0, 0x40, 0, 64, 17]);
            assert_eq!(checksum(&outer[14..34]), [0, 0]);
            assert_eq!(outer[26..34], [10, 9, 0, 1, 10, 9, 0, 2]);
            assert!(outer[34] >= 0xc0, "a dynamic port");
            assert_eq!(outer[36..42], [0x21, 0x19, 0, 76, 0, 0]);
            assert_eq!(outer[42..], [8, 0, 0, 0, 0, 0x1c, 0xe9, 0]);
            assert_eq!(inner[..14], [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 8, 0]);
            assert_eq!((inner[22], checksum(&inner[14..34])), (63, [0, 0]));
            assert_eq!((&inner[14..22], &inner[26..]), (&sent[14..22], &sent[26..]));
        }
        assert_eq!(loaded.forwarded(), 3);
    });
}

#[test]
fn protocol_is_part_of_the_hash() {
    testbed::in_namespace(|| {
        let loaded = Loaded::new();
        let mut tcp = frame(CLIENT_PORT);
        tcp[23] = 6;
        assert_ne!(slot(CLIENT_PORT, 6), slot(CLIENT_PORT, 17));
        loaded.assign(slot(CLIENT_PORT, 17), NODE);
        assert!(loaded.passes(&tcp));
        loaded.assign(slot(CLIENT_PORT, 6), NODE);
        assert!(!loaded.passes(&tcp));
    });
}

#[test]
fn packets_that_need_the_rules_pass_unchanged() {
    testbed::in_namespace(|| {
        let loaded = Loaded::new();
        loaded.assign_all();
        assert!(!loaded.passes(&frame(CLIENT_PORT)));
        let changes: [(&str, usize, &[u8]); 13] = [
            ("frame to another host", 5, &[2]),
            ("broadcast", 0, &[0xff; 6]),
            ("IPv6", 12, &[0x86, 0xdd]),
            ("VLAN", 12, &[0x81, 0]),
            ("options", 14, &[0x46]),
            ("first fragment", 20, &[0x20, 0]),
            ("later fragment", 20, &[0, 1]),
            ("end of the TTL", 22, &[1]),
            ("expired TTL", 22, &[0]),
            ("ICMP", 23, &[1]),
            ("Pod", 26, &[10, 244, 3, 4]),
            ("another address", 30, &[203, 0, 113, 6]),
            ("another port", 36, &[0, 81]),
        ];
        for (name, at, bytes) in changes {
            let mut changed = frame(CLIENT_PORT);
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            assert!(loaded.passes(&changed), "{name}");
        }
        assert!(loaded.passes(&frame(CLIENT_PORT)[..41]), "short frame");
        loaded.nodes.update(&NODE.to_ne_bytes(), &[0; 40]).unwrap();
        assert!(loaded.passes(&frame(CLIENT_PORT)), "unknown node");
    });
}

#[test]
fn packet_that_is_too_large_after_encapsulation_passes() {
    testbed::in_namespace(|| {
        let loaded = Loaded::new();
        loaded.assign_all();
        for (packet_bytes, passes) in [(1_450_u16, false), (1_451, true)] {
            let mut frame = frame(CLIENT_PORT);
            frame[16..18].copy_from_slice(&packet_bytes.to_be_bytes());
            frame.resize(usize::from(packet_bytes) + 14, 0);
            assert_eq!(loaded.passes(&frame), passes, "{packet_bytes} bytes");
        }
    });
}
