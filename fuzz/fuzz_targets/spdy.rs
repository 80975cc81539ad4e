//! SPDY frames. A server that receives them in pieces reports the same events as one that receives all at once. Its
//! responses are valid frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use streams::spdy::{Connection, Event, Role, STREAMS_MAX};

fuzz_target!(|input: &[u8]| {
    let Some((first, frames)) = input.split_first() else { return };
    let mut whole = Connection::new(Role::Server);
    let mut pieces = Connection::new(Role::Server);
    let received = whole.receive(frames);
    let piece_bytes = usize::from(*first).max(1);
    let mut events = Vec::new();
    for piece in frames.chunks(piece_bytes) {
        match pieces.receive(piece) {
            Ok(some) => events.extend(some),
            Err(error) => return assert_eq!(received, Err(error)),
        }
    }
    let opened = events.iter().filter(|event| matches!(event, Event::Opened { .. })).count();
    assert!(opened <= STREAMS_MAX || events.len() > opened, "too many streams are open");
    assert_eq!(received, Ok(events));
    let mut client = Connection::new(Role::Client);
    assert!(client.receive(&whole.take_output()).is_ok(), "an invalid response");
});
