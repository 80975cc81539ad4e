//! Network input of the announcer: ARP, NDP, and messages of other nodes.
#![no_main]

use announcer::l2::frame::ResolutionRequest;
use announcer::protocol::message::{Key, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(request) = ResolutionRequest::read(input) {
        let reply = request.reply([2, 0, 0, 0, 0, 1]);
        assert_eq!(ResolutionRequest::read(&reply), None, "a reply is not a request");
    }
    // Without the tag, as a member of another version could send it.
    if let Ok(message) = Message::decode_body(input) {
        assert!(!message.from.is_empty() && !message.to.is_empty());
        let key = Key::new(&[7; 32]);
        let bytes = message.encode(&key);
        assert_eq!(Message::claimed_sender(&bytes).as_ref(), Ok(&message.from));
        assert_eq!(Message::decode(&bytes, &key).as_ref(), Ok(&message), "an encoded message decodes to itself");
    }
});
