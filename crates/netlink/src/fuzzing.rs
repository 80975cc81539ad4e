//! A door for the fuzz targets: everything that reads what the kernel sends.

use crate::message::messages;
use crate::{accounting, conntrack, ipset, nftables, route};

/// Reads bytes as messages of every kind that this crate knows.
pub fn decode_everything(bytes: &[u8]) {
    for message in messages(bytes) {
        crate::socket::Acknowledgement::read(&message);
        accounting::decode_for_fuzzing(&message);
        conntrack::decode_for_fuzzing(&message);
        ipset::decode_for_fuzzing(&message);
        nftables::decode_for_fuzzing(&message);
        route::decode_for_fuzzing(&message);
    }
}
