//! Socket filter of a monitor. It drops notifications about own changes and about other tables in the kernel, before
//! they take space in the queue. Notifications about the end of a transaction always pass.

use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP,
    BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_RET, BPF_ST, BPF_STX, BPF_TAX, BPF_W,
    BPF_X, sock_filter,
};

use crate::filter::step;
use crate::message::HEADER_BYTES;
use crate::nftables::wire;

/// Maximum number of messages of a datagram that are checked; a datagram with more passes. The kernel puts about 40
/// into one.
const MESSAGES_MAX: usize = 64;
/// Offset of the port ID of the originating socket in a message header (`nlmsg_pid`).
const PORT_OFFSET: u32 = 12;
/// Offsets of the length (`nlmsg_len`) and of the lower byte of the type (`nlmsg_type`), in host byte order.
const LENGTH_OFFSETS: [u32; 2] = if cfg!(target_endian = "little") {
    [0, 1]
} else {
    [3, 2]
};
const KIND_OFFSET: u32 = if cfg!(target_endian = "little") { 4 } else { 5 };
/// Offset of the type of the first attribute, and of its value.
const TYPE_OFFSET: u32 = HEADER_BYTES as u32 + wire::GENERIC_BYTES as u32 + 2;
const NAME_OFFSET: u32 = TYPE_OFFSET + 2;

const ACCEPT: sock_filter = return_bytes(u32::MAX);
const DROP: sock_filter = return_bytes(0);
/// Slots of the filter's memory.
const LOWER_BYTE: u32 = 0;
const MESSAGE: u32 = 1;

const fn return_bytes(bytes: u32) -> sock_filter {
    step(BPF_RET | BPF_K, 0, 0, bytes)
}

/// Returns the filter of a monitor for one table and the port ID of this socket.
pub(super) fn steps(table: &str, own_port: u32) -> Vec<sock_filter> {
    let mut steps = vec![
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, PORT_OFFSET),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, as_loaded(own_port)),
        DROP,
        step(BPF_LDX | BPF_IMM, 0, 0, 0),
    ];
    let message_steps = message(table);
    for _ in 0..MESSAGES_MAX {
        steps.extend_from_slice(&message_steps);
    }
    steps.push(ACCEPT);
    steps
}

/// Returns the instructions for the message at X. They accept the datagram, or advance X to the next message.
fn message(table: &str) -> Vec<sock_filter> {
    let mut steps = vec![
        // After the last message, nothing relevant was found.
        step(BPF_LD | BPF_W | BPF_LEN, 0, 0, 0),
        step(BPF_JMP | BPF_JGT | BPF_X, 1, 0, 0),
        DROP,
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, KIND_OFFSET),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, u32::from(wire::NEWGEN)),
        ACCEPT,
        // The first attribute of all other messages is the name of the table.
        step(BPF_LD | BPF_H | BPF_IND, 0, 0, TYPE_OFFSET),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            1,
            0,
            u32::from(u16::from_be_bytes(wire::TABLE_NAME.to_ne_bytes())),
        ),
        ACCEPT,
    ];
    let words = padded_words(table);
    for (index, word) in words.iter().enumerate() {
        let left = words.len() - index - 1;
        // Jump over the remaining comparisons, and over the verdict after them.
        let over = u8::try_from(2 * left + 1).unwrap_or(u8::MAX);
        steps.push(step(
            BPF_LD | BPF_W | BPF_IND,
            0,
            0,
            NAME_OFFSET + 4 * index as u32,
        ));
        steps.push(step(BPF_JMP | BPF_JEQ | BPF_K, 0, over, *word));
    }
    steps.push(ACCEPT);
    steps.extend_from_slice(&[
        step(BPF_STX, 0, 0, MESSAGE),
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, LENGTH_OFFSETS[0]),
        step(BPF_ST, 0, 0, LOWER_BYTE),
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, LENGTH_OFFSETS[1]),
        step(BPF_ALU | BPF_LSH | BPF_K, 0, 0, 8),
        step(BPF_LDX | BPF_MEM, 0, 0, LOWER_BYTE),
        step(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0),
        // The datagram is too short for a message; the reader decides.
        step(BPF_JMP | BPF_JGE | BPF_K, 1, 0, HEADER_BYTES as u32),
        ACCEPT,
        step(BPF_ALU | BPF_ADD | BPF_K, 0, 0, 3),
        step(BPF_ALU | BPF_AND | BPF_K, 0, 0, !3),
        step(BPF_LDX | BPF_MEM, 0, 0, MESSAGE),
        step(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0),
        step(BPF_MISC | BPF_TAX, 0, 0, 0),
    ]);
    steps
}

/// Converts a number to the form in which the filter loads it, which is big-endian.
fn as_loaded(number: u32) -> u32 {
    u32::from_be_bytes(number.to_ne_bytes())
}

/// Returns a name as an attribute contains it, with terminating zero and padding. Of an overlong name only the
/// beginning is compared.
fn padded_words(name: &str) -> Vec<u32> {
    const WORDS_MAX: usize = 16;
    let bytes = [name.as_bytes(), &[0]].concat();
    let words = bytes.chunks(4).take(WORDS_MAX).map(|chunk| {
        let mut word = [0; 4];
        word.iter_mut().zip(chunk).for_each(|(slot, byte)| *slot = *byte);
        u32::from_be_bytes(word)
    });
    words.collect()
}
