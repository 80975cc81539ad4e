//! BGP messages and BFD packets, as peers send them.
#![no_main]

use bgp::bfd::Packet;
use bgp::message::{self, Context, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((options, bytes)) = bytes.split_first() else { return };
    let context = Context {
        has_four_octet_as: options & 1 != 0,
        is_internal: options & 2 != 0,
        local_as: 64_512,
    };
    if let Ok(Some(length)) = message::frame_length(bytes)
        && let Some(message) = bytes.get(..length)
        && let Ok(Message::Open(open)) = Message::decode(message, &context)
    {
        assert!(!matches!(open.hold_seconds, 1 | 2) && open.autonomous_system != 0);
    }
    if let Some(packet) = Packet::decode(bytes) {
        assert_eq!(Packet::decode(&packet.encode()), Some(packet));
    }
});
