//! What could come from the network while addresses are announced: ARP, NDP, and other nodes' messages.
#![no_main]

use balancer::announce::frame::Question;
use balancer::announce::message::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(question) = Question::read(input) {
        let answer = question.answer([2, 0, 0, 0, 0, 1]);
        assert_eq!(Question::read(&answer), None, "an answer is no question");
    }
    // Without its tag: what a member of another version could say.
    for has_means in [false, true] {
        if let Ok(message) = Message::decode_body(input, has_means) {
            assert!(!message.from.is_empty() && !message.to.is_empty());
        }
    }
});
