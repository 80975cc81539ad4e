//! Frames of clients, and the program that sends them.

use std::net::Ipv4Addr;

use netlink::bpf::{
    Assembler, AssemblyError, Condition, Helper, Instruction, R0, R1, R2, R7, R9, Width, WordOperation,
    XdpAction,
};
use netlink::route::LinkIndex;
use netlink::tcp;

/// Smallest Ethernet frame without its checksum.
pub(super) const FRAME_BYTES_MIN: usize = 60;
/// Address of the client.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// Number of UDP in the IP header.
const UDP: u8 = 17;

// Offsets in a frame.
const IP: usize = 14;
const IP_CHECKSUM: usize = 24;
const TRANSPORT: usize = 34;
const SOURCE_PORT: i16 = 34;
/// High half of the TCP sequence number.
const TCP_SEQUENCE: i16 = 38;
const TCP_CHECKSUM: usize = 50;

/// Packets of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    /// Name in the output.
    pub(super) name: &'static str,
    /// True for TCP SYN, false for UDP.
    pub(super) is_tcp: bool,
    pub(super) frame_bytes: usize,
}

/// Returns a frame to a Service, for the source port 0.
pub(super) fn frame(packets: Packets, to: [u8; 6], from: [u8; 6], service: Ipv4Addr, port: u16) -> Vec<u8> {
    let bytes = packets.frame_bytes.max(FRAME_BYTES_MIN);
    let [total, payload] = [bytes - IP, bytes - TRANSPORT].map(|bytes| (bytes as u16).to_be_bytes());
    let protocol = if packets.is_tcp { tcp::PROTOCOL } else { UDP };
    let [source, destination] = [CLIENT, service].map(|address| address.octets());
    let mut frame = [&to[..], &from, &[8, 0]].concat();
    frame.extend([0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend([source, destination].concat());
    let header = checksum(&frame[IP..TRANSPORT], 0);
    put(&mut frame, IP_CHECKSUM, &header);
    frame.extend([0, 0]);
    frame.extend(port.to_be_bytes());
    if packets.is_tcp {
        // Sequence and acknowledgement numbers, size of the header, flags, window.
        frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, tcp::SYN, 0xff, 0xff]);
    } else {
        // A UDP packet without a checksum is valid.
        frame.extend([payload, [0, 0]].concat());
    }
    frame.resize(bytes, 0);
    if packets.is_tcp {
        // Source port and high half of the sequence number add up to 0xffff.
        let pseudo_header = [&source[..], &destination, &[0, protocol], &payload, &[0xff, 0xff]].concat();
        let sum = checksum(&frame[TRANSPORT..], sum(&pseudo_header));
        put(&mut frame, TCP_CHECKSUM, &sum);
    }
    frame
}

/// Sets the source port of a frame.
pub(super) fn set_source_port(packets: Packets, frame: &mut [u8], port: u16) {
    put(frame, TRANSPORT, &port.to_be_bytes());
    if packets.is_tcp {
        put(frame, TCP_SEQUENCE as usize, &(!port).to_be_bytes());
    }
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in frame.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let halves = bytes.as_chunks::<2>().0.iter();
    halves.map(|half| u32::from(u16::from_be_bytes(*half))).sum()
}

/// Returns the checksum of bytes and another sum (RFC 1071). The number of bytes is even.
fn checksum(bytes: &[u8], other: u32) -> [u8; 2] {
    let mut sum = sum(bytes) + other;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Returns the program that sends copies of a frame by a link, each with a random source port.
///
/// # Errors
///
/// [`AssemblyError`], which is a defect.
pub(super) fn sender(
    packets: Packets,
    frame: &[u8],
    link: LinkIndex,
) -> Result<Vec<Instruction>, AssemblyError> {
    /// Ethernet addresses, TTL and checksum: the kernel sends a copy again that the node changed.
    const RESTORED: [usize; 5] = [0, 4, 8, 20, 24];
    let mut program = Assembler::new();
    let drop = program.label();
    program.load(Width::Word, R7, R1, 0);
    program.load(Width::Word, R9, R1, 4);
    program.copy(R1, R7);
    program.add(R1, TCP_CHECKSUM as i32);
    program.jump_if_register(Condition::Greater, R1, R9, drop);
    for (index, word) in frame.as_chunks::<4>().0.iter().enumerate() {
        if RESTORED.contains(&(4 * index)) {
            program.store_value(Width::Word, R7, 4 * index as i16, i32::from_ne_bytes(*word));
        }
    }
    program.call(Helper::Random);
    program.store(Width::Half, R7, SOURCE_PORT, R0);
    if packets.is_tcp {
        program.set(R1, 0xffff);
        program.word(WordOperation::ExclusiveOr, R0, R1);
        program.store(Width::Half, R7, TCP_SEQUENCE, R0);
    }
    program.set(R1, link.0 as i32);
    program.set(R2, 0);
    program.call(Helper::Redirect);
    program.exit();
    program.bind(drop);
    program.set(R0, XdpAction::Drop as i32);
    program.exit();
    program.finish()
}

/// Returns the program that decides the same about all frames. An interface with a program takes frames that other
/// programs send.
///
/// # Errors
///
/// [`AssemblyError`], which is a defect.
pub(super) fn always(action: XdpAction) -> Result<Vec<Instruction>, AssemblyError> {
    let mut program = Assembler::new();
    program.set(R0, action as i32);
    program.exit();
    program.finish()
}
