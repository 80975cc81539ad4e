//! Entry point of the fuzz targets for all decoders.

use crate::message::messages;
use crate::{accounting, conntrack, ipset, ipvs, nftables, route, socket_diagnostics};

/// Decodes bytes as messages of every kind of this crate.
pub fn decode_everything(bytes: &[u8]) {
    for message in messages(bytes) {
        crate::socket::Acknowledgement::read(&message);
        accounting::decode_for_fuzzing(&message);
        conntrack::decode_for_fuzzing(&message);
        ipset::decode_for_fuzzing(&message);
        ipvs::decode_for_fuzzing(&message);
        nftables::decode_for_fuzzing(&message);
        route::decode_for_fuzzing(&message);
        socket_diagnostics::decode_for_fuzzing(&message);
    }
}
