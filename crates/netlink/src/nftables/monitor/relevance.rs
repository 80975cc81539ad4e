//! What the kernel need not tell who watches one table: what the watcher did itself, and what concerns other tables only. It
//! drops that before it takes any room, so that the watch is not drowned by what others write elsewhere. That a transaction
//! has happened is always told.

use libc::{
    BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP,
    BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_RET, BPF_ST, BPF_STX, BPF_TAX, BPF_W,
    BPF_X, sock_filter,
};

use crate::filter::step;
use crate::message::HEADER_BYTES;
use crate::nftables::wire;

/// Messages of one datagram that are looked at; one with more is told. The kernel puts about 40 into one.
const MESSAGES_MAX: usize = 64;
/// Where a message's header has the number of the socket that asked (`nlmsg_pid`).
const PORT_OFFSET: u32 = 12;
/// Where it has its length (`nlmsg_len`), and the lower byte of its kind (`nlmsg_type`), in this machine's byte order.
const LENGTH_OFFSETS: [u32; 2] = if cfg!(target_endian = "little") {
    [0, 1]
} else {
    [3, 2]
};
const KIND_OFFSET: u32 = if cfg!(target_endian = "little") { 4 } else { 5 };
/// Where a message has the type of its first attribute, and what that holds.
const TYPE_OFFSET: u32 = HEADER_BYTES as u32 + wire::GENERIC_BYTES as u32 + 2;
const NAME_OFFSET: u32 = TYPE_OFFSET + 2;

const TELL: sock_filter = returning(u32::MAX);
const DROP: sock_filter = returning(0);
/// Places of the filter's memory.
const LOWER_BYTE: u32 = 0;
const MESSAGE: u32 = 1;

const fn returning(bytes: u32) -> sock_filter {
    step(BPF_RET | BPF_K, 0, 0, bytes)
}

/// The filter for who watches a table and has that port number.
pub(super) fn steps(table: &str, own_port: u32) -> Vec<sock_filter> {
    let mut steps = vec![
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0, PORT_OFFSET),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, as_loaded(own_port)),
        DROP,
        step(BPF_LDX | BPF_IMM, 0, 0, 0),
    ];
    let of_message = message(table);
    for _ in 0..MESSAGES_MAX {
        steps.extend_from_slice(&of_message);
    }
    steps.push(TELL);
    steps
}

/// The steps for the message that X points at: it is told, or X points at the next one behind them.
fn message(table: &str) -> Vec<sock_filter> {
    let mut steps = vec![
        // Behind the last message nothing was found that is to be told.
        step(BPF_LD | BPF_W | BPF_LEN, 0, 0, 0),
        step(BPF_JMP | BPF_JGT | BPF_X, 1, 0, 0),
        DROP,
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, KIND_OFFSET),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, u32::from(wire::NEWGEN)),
        TELL,
        // In all other messages the first attribute is the table's name.
        step(BPF_LD | BPF_H | BPF_IND, 0, 0, TYPE_OFFSET),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            1,
            0,
            u32::from(u16::from_be_bytes(wire::TABLE_NAME.to_ne_bytes())),
        ),
        TELL,
    ];
    let words = words(table);
    for (index, word) in words.iter().enumerate() {
        let left = words.len() - index - 1;
        // Over the comparisons that are left, and over the verdict behind them.
        let over = u8::try_from(2 * left + 1).unwrap_or(u8::MAX);
        steps.push(step(
            BPF_LD | BPF_W | BPF_IND,
            0,
            0,
            NAME_OFFSET + 4 * index as u32,
        ));
        steps.push(step(BPF_JMP | BPF_JEQ | BPF_K, 0, over, *word));
    }
    steps.push(TELL);
    steps.extend_from_slice(&[
        step(BPF_STX, 0, 0, MESSAGE),
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, LENGTH_OFFSETS[0]),
        step(BPF_ST, 0, 0, LOWER_BYTE),
        step(BPF_LD | BPF_B | BPF_IND, 0, 0, LENGTH_OFFSETS[1]),
        step(BPF_ALU | BPF_LSH | BPF_K, 0, 0, 8),
        step(BPF_LDX | BPF_MEM, 0, 0, LOWER_BYTE),
        step(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0),
        // Too short to be one: whoever reads it is to judge.
        step(BPF_JMP | BPF_JGE | BPF_K, 1, 0, HEADER_BYTES as u32),
        TELL,
        step(BPF_ALU | BPF_ADD | BPF_K, 0, 0, 3),
        step(BPF_ALU | BPF_AND | BPF_K, 0, 0, !3),
        step(BPF_LDX | BPF_MEM, 0, 0, MESSAGE),
        step(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0),
        step(BPF_MISC | BPF_TAX, 0, 0, 0),
    ]);
    steps
}

/// A number of this machine's byte order as the filter loads it, which takes bytes for big-endian.
fn as_loaded(number: u32) -> u32 {
    u32::from_be_bytes(number.to_ne_bytes())
}

/// A name as an attribute holds it, with the zero that ends it and those that pad it. Of a name longer than any that makes
/// sense only the beginning is compared.
fn words(name: &str) -> Vec<u32> {
    const WORDS_MAX: usize = 16;
    let bytes = [name.as_bytes(), &[0]].concat();
    let words = bytes.chunks(4).take(WORDS_MAX).map(|chunk| {
        let mut word = [0; 4];
        word.iter_mut().zip(chunk).for_each(|(slot, byte)| *slot = *byte);
        u32::from_be_bytes(word)
    });
    words.collect()
}
