//! Messages of members, and member records: datagrams to a process that shares keys with a member, and records of
//! announcers.
#![no_main]

use std::net::SocketAddr;

use announcer::protocol::keys::{Keyring, SecretKey};
use announcer::protocol::message::Message;
use api::announcers::{Member, Process, Record};
use libfuzzer_sys::fuzz_target;

fn member(number: u8) -> Member {
    Member {
        address: ([192, 0, 2, number], 7947).into(),
        process: Some(Process {
            incarnation: u64::from(number),
            public_key: SecretKey::new([number; 32]).public(),
        }),
    }
}

fuzz_target!(|input: &[u8]| {
    let founded = Record::founded_by("a".into(), member(1), "cluster".to_owned());
    let record = founded.with(&"b".into(), member(2)).expect("room");
    let keyring = |name: &str, number: u8| {
        let mut keyring = Keyring::new(name.into(), u64::from(number), SecretKey::new([number; 32]));
        keyring.update(Some(&record));
        keyring
    };
    let (sender, receiver) = (keyring("a", 1), keyring("b", 2));
    let source = SocketAddr::from(([192, 0, 2, 1], 7947));
    // Without the keys, every message is rejected.
    assert!(receiver.open(source, input).is_err(), "a datagram that no member made");
    // With the keys, a member can send messages in its own name only.
    if let Ok(mut message) = Message::decode_body(input) {
        message.to = "b".into();
        if let Some(bytes) = sender.seal(&message)
            && let Ok(read) = receiver.open(source, &bytes)
        {
            assert_eq!((&*read.from, read.incarnation), ("a", 1));
        }
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(read) = Record::from_json(text)
    {
        let written = read.to_json().expect("JSON");
        assert_eq!(Record::from_json(&written).expect("readable"), read);
        let next = read.with_joined().with_tie_breaker(Some("a/1"));
        assert!(next.sequence > read.sequence);
    }
});
