//! The program. It forwards a packet as the rules of the table do, to the current node of its slot through the link of
//! the first hop. All other packets pass to the rules.

use maglev::TABLE_SIZE;
use netlink::bpf::{
    Assembler, AssemblyError, Condition, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9,
    R10, Register, Width, WordOperation, XdpAction,
};
use netlink::tcp;

use super::super::expressions::SEED;
use super::super::links::{ENCAPSULATION_BYTES_IPV4, FIRST_ID, UDP_PORT};
use super::layout::{
    ADDRESSES_OFFSET, INNER_ETHERNET_OFFSET, OUTER_FRAGMENT, OUTER_TTL, OUTER_VERSION, SUM_OFFSET,
};

// Offsets in `struct xdp_md`.
const FRAME_START: i16 = 0;
const FRAME_END: i16 = 4;

// Offsets in a frame without VLAN and IP options.
const ETHERNET_TYPE: i16 = 12;
const IP_VERSION: i16 = 14;
const IP_LENGTH: i16 = 16;
const IP_IDENTIFICATION: i16 = 18;
const IP_FRAGMENT: i16 = 20;
const IP_TTL: i16 = 22;
const IP_PROTOCOL: i16 = 23;
const IP_CHECKSUM: i16 = 24;
const IP_SOURCE: i16 = 26;
const IP_DESTINATION: i16 = 30;
const SOURCE_PORT: i16 = 34;
const DESTINATION_PORT: i16 = 36;
/// Size of Ethernet, IP and UDP headers in bytes; each forwarded packet has at least as many.
const HEADERS_BYTES: i32 = 42;

// Offsets in the outer headers.
const UDP_SOURCE: i16 = 34;
const UDP_DESTINATION: i16 = 36;
const UDP_LENGTH: i16 = 38;
const UDP_CHECKSUM: i16 = 40;
const VXLAN_FLAGS: i16 = 42;
const VXLAN_ID: i16 = 46;
/// Size of the outer headers in bytes.
const OUTER_BYTES: i16 = ENCAPSULATION_BYTES_IPV4 as i16;
const IP_HEADER_BYTES: i32 = 20;

/// IPv4 as Ethernet type.
const IPV4: u16 = 0x0800;
/// IPv4 with a header of 20 bytes.
const WITHOUT_OPTIONS: i32 = 0x45;
/// Flag "more fragments", and the offset of a fragment.
const FRAGMENT_BITS: u16 = 0x3fff;
/// VXLAN header with a valid identifier (RFC 7348).
const VALID_ID: [u8; 4] = [8, 0, 0, 0];
/// First dynamic port (RFC 6335), a mask of the upper bits.
const DYNAMIC_PORTS: u16 = 0xc000;

// Offsets in the stack frame.
const FRONTEND: i16 = -8;
const INDEX: i16 = -12;
const HASH: i16 = -16;

/// File descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapDescriptors {
    /// [`FRONTENDS_SHAPE`](super::layout::FRONTENDS_SHAPE).
    pub(super) frontends: i32,
    /// [`SLOTS_SHAPE`](super::layout::SLOTS_SHAPE).
    pub(super) slots: i32,
    /// [`NODES_SHAPE`](super::layout::NODES_SHAPE).
    pub(super) nodes: i32,
    /// [`FORWARDED_SHAPE`](super::layout::FORWARDED_SHAPE).
    pub(super) forwarded: i32,
}

/// Constants of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Ethernet address of the interface: frames to other hosts pass.
    pub(super) ethernet: [u8; 6],
    /// Addresses of Pods, as network and mask: packets from them take the rules.
    pub(super) pods: Vec<[[u8; 4]; 2]>,
    /// MTU of the interface. Packets that are larger after encapsulation take the rules, which report an error to the
    /// client.
    pub(super) mtu_bytes: u32,
}

/// Returns the program.
///
/// # Errors
///
/// [`AssemblyError`], which is a defect.
pub(super) fn program(
    maps: MapDescriptors,
    parameters: &Parameters,
) -> Result<Vec<Instruction>, AssemblyError> {
    let mut program = Assembler::new();
    let (pass, drop) = (program.label(), program.label());
    program.copy(R6, R1);
    load_bounds(&mut program, HEADERS_BYTES, pass);
    require_forwardable(&mut program, parameters, pass);

    program.load(Width::Word, R1, R7, IP_DESTINATION);
    program.store(Width::Word, R10, FRONTEND, R1);
    program.load(Width::Half, R1, R7, DESTINATION_PORT);
    program.store(Width::Half, R10, FRONTEND + 4, R1);
    program.load(Width::Byte, R1, R7, IP_PROTOCOL);
    program.store(Width::Half, R10, FRONTEND + 6, R1);
    look_up(&mut program, maps.frontends, FRONTEND, pass);
    program.load(Width::Word, R8, R0, 0);

    hash(&mut program);
    program.store(Width::Word, R10, HASH, R3);
    // `reciprocal_scale` of the kernel: the upper half of the product.
    program.multiply(R3, TABLE_SIZE as i32);
    program.shift_right(R3, 32);
    program.add_register(R3, R8);
    program.store(Width::Word, R10, INDEX, R3);
    look_up(&mut program, maps.slots, INDEX, pass);
    program.load(Width::Word, R1, R0, 0);
    program.jump_if(Condition::Equal, R1, 0, pass);
    program.store(Width::Word, R10, INDEX, R1);
    look_up(&mut program, maps.nodes, INDEX, pass);
    program.copy(R8, R0);
    program.load(Width::Word, R1, R8, ADDRESSES_OFFSET as i16);
    program.jump_if(Condition::Equal, R1, 0, pass);

    // A frame without room for the headers is unchanged.
    program.copy(R1, R6);
    program.set(R2, -i32::from(OUTER_BYTES));
    program.call(Helper::AdjustHead);
    program.jump_if(Condition::NotEqual, R0, 0, pass);
    load_bounds(&mut program, i32::from(OUTER_BYTES) + HEADERS_BYTES, drop);
    decrement_ttl(&mut program);
    encapsulate(&mut program);
    count(&mut program, maps, drop);
    program.set(R0, XdpAction::Transmit as i32);
    program.exit();

    program.bind(pass);
    program.set(R0, XdpAction::Pass as i32);
    program.exit();
    program.bind(drop);
    program.set(R0, XdpAction::Drop as i32);
    program.exit();
    program.finish()
}

/// Loads the start of the frame to R7; the context is in R6. Jumps if the frame is shorter than `bytes`.
fn load_bounds(program: &mut Assembler, bytes: i32, otherwise: Label) {
    program.load(Width::Word, R7, R6, FRAME_START);
    program.load(Width::Word, R9, R6, FRAME_END);
    program.copy(R1, R7);
    program.add(R1, bytes);
    program.jump_if_register(Condition::Greater, R1, R9, otherwise);
}

/// Requires a packet to this host that the rules would forward unchanged. It is whole, has a TTL and no options, is not
/// too large, and is not from a Pod. Passes protocols other than TCP and UDP, as SCTP has other headers.
fn require_forwardable(program: &mut Assembler, parameters: &Parameters, pass: Label) {
    for (offset, part) in (0_i16..).step_by(2).zip(parameters.ethernet.as_chunks::<2>().0) {
        program.load(Width::Half, R1, R7, offset);
        program.jump_if(
            Condition::NotEqual,
            R1,
            i32::from(u16::from_ne_bytes(*part)),
            pass,
        );
    }
    program.load(Width::Half, R1, R7, ETHERNET_TYPE);
    program.jump_if(Condition::NotEqual, R1, network_order_u16(IPV4), pass);
    program.load(Width::Byte, R1, R7, IP_VERSION);
    program.jump_if(Condition::NotEqual, R1, WITHOUT_OPTIONS, pass);
    program.load(Width::Half, R1, R7, IP_FRAGMENT);
    program.and(R1, network_order_u16(FRAGMENT_BITS));
    program.jump_if(Condition::NotEqual, R1, 0, pass);
    // TTL 0 and 1 wrap around.
    program.load(Width::Byte, R1, R7, IP_TTL);
    program.add(R1, -2);
    program.jump_if(Condition::Greater, R1, i32::from(u8::MAX), pass);
    let inner_bytes_max = parameters.mtu_bytes.saturating_sub(u32::from(OUTER_BYTES as u16));
    program.load(Width::Half, R1, R7, IP_LENGTH);
    program.half_to_network(R1);
    program.jump_if(
        Condition::Greater,
        R1,
        inner_bytes_max.min(u32::from(u16::MAX)) as i32,
        pass,
    );
    let has_ports = program.label();
    program.load(Width::Byte, R1, R7, IP_PROTOCOL);
    program.jump_if(Condition::Equal, R1, i32::from(tcp::PROTOCOL), has_ports);
    program.jump_if(Condition::NotEqual, R1, libc::IPPROTO_UDP, pass);
    program.bind(has_ports);
    for [network, mask] in &parameters.pods {
        program.load(Width::Word, R1, R7, IP_SOURCE);
        program.set_wide(R2, u64::from(u32::from_ne_bytes(*mask)));
        program.word(WordOperation::And, R1, R2);
        program.set_wide(R2, u64::from(u32::from_ne_bytes(*network)));
        program.jump_if_register(Condition::Equal, R1, R2, pass);
    }
}

/// Loads the value of a key in the stack frame to R0, or jumps.
fn look_up(program: &mut Assembler, map: i32, key: i16, otherwise: Label) {
    program.set_map_descriptor(R1, map);
    program.copy(R2, R10);
    program.add(R2, i32::from(key));
    program.call(Helper::Lookup);
    program.jump_if(Condition::Equal, R0, 0, otherwise);
}

/// Calculates the hash of the rules in R3: Jenkins' hash of the kernel (`linux/jhash.h`) of five words, which are the
/// registers of [`slot_hash`](super::super::expressions::slot_hash).
fn hash(program: &mut Assembler) {
    const START: u32 = 0xdead_beef;
    const WORDS_BYTES: u32 = 20;
    let [a, b, c] = [R1, R2, R3];
    for register in [a, b, c] {
        let start = START.wrapping_add(WORDS_BYTES).wrapping_add(SEED);
        program.set_wide(register, u64::from(start));
    }
    let add = |program: &mut Assembler, to, width, offset| {
        program.load(width, R4, R7, offset);
        // A register begins with the bytes of a shorter field.
        if cfg!(target_endian = "big") {
            let bits = match width {
                Width::Byte => 24,
                Width::Half => 16,
                Width::Word | Width::Double => 0,
            };
            program.shift_left(R4, bits);
        }
        program.word(WordOperation::Add, to, R4);
    };
    add(program, a, Width::Word, IP_SOURCE);
    add(program, b, Width::Word, IP_DESTINATION);
    add(program, c, Width::Half, SOURCE_PORT);
    // `__jhash_mix`.
    for (x, y, z, bits) in [
        (a, c, b, 4),
        (b, a, c, 6),
        (c, b, a, 8),
        (a, c, b, 16),
        (b, a, c, 19),
        (c, b, a, 4),
    ] {
        program.word(WordOperation::Subtract, x, y);
        program.rotate(R4, y, bits, R5);
        program.word(WordOperation::ExclusiveOr, x, R4);
        program.word(WordOperation::Add, y, z);
    }
    add(program, a, Width::Half, DESTINATION_PORT);
    add(program, b, Width::Byte, IP_PROTOCOL);
    // `__jhash_final`.
    for (x, y, bits) in [
        (c, b, 14),
        (a, c, 11),
        (b, a, 25),
        (c, b, 16),
        (a, c, 4),
        (b, a, 14),
        (c, b, 24),
    ] {
        program.word(WordOperation::ExclusiveOr, x, y);
        program.rotate(R4, y, bits, R5);
        program.word(WordOperation::Subtract, x, R4);
    }
}

/// Decrements the TTL of the inner packet and adapts its checksum (RFC 1624).
fn decrement_ttl(program: &mut Assembler) {
    const TTL_STEP: u16 = 0x0100;
    program.load(Width::Byte, R1, R7, OUTER_BYTES + IP_TTL);
    program.add(R1, -1);
    program.store(Width::Byte, R7, OUTER_BYTES + IP_TTL, R1);
    program.load(Width::Half, R1, R7, OUTER_BYTES + IP_CHECKSUM);
    program.add(R1, network_order_u16(TTL_STEP));
    fold_checksum(program, R1, R2);
    program.store(Width::Half, R7, OUTER_BYTES + IP_CHECKSUM, R1);
}

/// Adds the carry of a sum of 16-bit numbers to it.
fn fold_checksum(program: &mut Assembler, sum: Register, scratch: Register) {
    program.copy(scratch, sum);
    program.shift_right(scratch, 16);
    program.and(sum, 0xffff);
    program.add_register(sum, scratch);
}

/// Copies words of the node in R8 to the frame.
fn copy_words(program: &mut Assembler, from: usize, to: i16, words: i16) {
    for offset in (0..words).map(|word| 4 * word) {
        program.load(Width::Word, R1, R8, from as i16 + offset);
        program.store(Width::Word, R7, to + offset, R1);
    }
}

/// Writes the outer headers, and the Ethernet addresses of the inner one.
fn encapsulate(program: &mut Assembler) {
    copy_words(program, 0, 0, 3);
    copy_words(program, INNER_ETHERNET_OFFSET, OUTER_BYTES, 3);
    copy_words(program, ADDRESSES_OFFSET, IP_SOURCE, 2);
    let constants: [(Width, i16, i32); 8] = [
        (Width::Half, ETHERNET_TYPE, network_order_u16(IPV4)),
        (
            Width::Half,
            IP_VERSION,
            i32::from(u16::from_ne_bytes(OUTER_VERSION)),
        ),
        (Width::Word, IP_IDENTIFICATION, i32::from_ne_bytes(OUTER_FRAGMENT)),
        (Width::Word, IP_TTL, i32::from_ne_bytes(OUTER_TTL)),
        (Width::Half, UDP_DESTINATION, network_order_u16(UDP_PORT)),
        // No checksum, as RFC 7348 recommends.
        (Width::Half, UDP_CHECKSUM, 0),
        (Width::Word, VXLAN_FLAGS, i32::from_ne_bytes(VALID_ID)),
        (
            Width::Word,
            VXLAN_ID,
            i32::from_ne_bytes((FIRST_ID << 8).to_be_bytes()),
        ),
    ];
    for (width, offset, value) in constants {
        program.store_value(width, R7, offset, value);
    }
    // The port differs by connection, so that routers and network cards keep connections apart.
    program.load(Width::Half, R1, R10, HASH);
    program.set(R2, network_order_u16(DYNAMIC_PORTS));
    program.or(R1, R2);
    program.store(Width::Half, R7, UDP_SOURCE, R1);

    program.load(Width::Half, R1, R7, OUTER_BYTES + IP_LENGTH);
    program.half_to_network(R1);
    program.add(R1, i32::from(OUTER_BYTES) - IP_HEADER_BYTES);
    program.copy(R2, R1);
    program.half_to_network(R2);
    program.store(Width::Half, R7, UDP_LENGTH, R2);
    program.add(R1, IP_HEADER_BYTES);
    program.half_to_network(R1);
    program.store(Width::Half, R7, IP_LENGTH, R1);
    program.load(Width::Word, R2, R8, SUM_OFFSET as i16);
    program.add_register(R1, R2);
    fold_checksum(program, R1, R2);
    fold_checksum(program, R1, R2);
    program.set(R2, 0xffff);
    program.word(WordOperation::ExclusiveOr, R1, R2);
    program.store(Width::Half, R7, IP_CHECKSUM, R1);
}

/// Counts a forwarded packet.
fn count(program: &mut Assembler, maps: MapDescriptors, otherwise: Label) {
    program.store_value(Width::Word, R10, INDEX, 0);
    look_up(program, maps.forwarded, INDEX, otherwise);
    program.load(Width::Double, R1, R0, 0);
    program.add(R1, 1);
    program.store(Width::Double, R0, 0, R1);
}

/// Returns a 16-bit number in network order, as the operand of a load or store.
fn network_order_u16(number: u16) -> i32 {
    i32::from(number.to_be())
}

#[cfg(test)]
mod tests;
