use proptest::prelude::*;

use super::*;

fn entry() -> impl Strategy<Value = Entry> {
    (0..4, any::<IpAddr>()).prop_map(|(kind, address)| match kind {
        0 => Entry::Ask(address),
        1 => Entry::Vote(address),
        2 => Entry::Release(address),
        _ => Entry::Released(address),
    })
}

prop_compose! {
    fn message()(
        from in "[a-z0-9.-]{1,253}", to in "[a-z]{1,9}",
        numbers in any::<[u64; 4]>(), flags in any::<(bool, bool)>(),
        grant in proptest::option::of(any::<[u64; 3]>()),
        entries in proptest::collection::vec(entry(), 0..=ENTRIES_MAX),
        means in proptest::option::of((any::<bool>(), proptest::collection::btree_set(any::<u64>(), 0..=LACKS_MAX))),
    ) -> Message {
        Message {
            from: from.into(),
            to: to.into(),
            incarnation: numbers[0],
            stamp: Stamp(numbers[1]),
            epoch: numbers[2],
            refuses_below: numbers[3],
            is_quorate: flags.0,
            is_leaving: flags.1,
            grant: grant.map(|[incarnation, stamp, generation]| Grant {
                incarnation, stamp: Stamp(stamp), generation,
            }),
            entries,
            means: means.map(|(has_edge, lacks)| Means {
                has_edge,
                lacks: lacks.into_iter().map(LinksId).collect(),
            }),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_and_nothing_else_passes(message in message(), flip in any::<(usize, u8)>()) {
        let key = Key::new("the key");
        let mut bytes = message.encode(&key);
        prop_assert!(bytes.len() <= BYTES_MAX);
        prop_assert_eq!(&Message::decode(&bytes, &key).unwrap(), &message);
        prop_assert_eq!(Message::decode(&bytes, &Key::new("another")), Err(MessageError::Tag));
        let body = &bytes[MAGIC.len() + TAG_BYTES..];
        for end in 0..body.len() {
            prop_assert!(Message::decode_body(&body[..end], message.means.is_some()).is_err(), "cut at {end}");
        }
        let at = flip.0 % bytes.len();
        bytes[at] ^= flip.1.max(1);
        prop_assert!(Message::decode(&bytes, &key).is_err());
    }

    #[test]
    fn junk_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let key = Key::new("the key");
        prop_assert!(Message::decode(&bytes, &key).is_err());
        if let Ok(message) = Message::decode_body(&bytes, false) {
            let again = message.encode(&key);
            prop_assert_eq!(&again[MAGIC.len() + TAG_BYTES..], &bytes[..]);
        }
        if let Ok(message) = Message::decode_body(&bytes, true) {
            prop_assert!(message.means.is_some());
        }
    }

    #[test]
    fn a_version_is_not_taken_for_the_other_and_what_later_ones_add_is_passed_over(
        message in message(), more in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let key = Key::new("the key");
        let mut bytes = message.encode(&key);
        let version = bytes[MAGIC.len() - 1];
        prop_assert_eq!(version, if message.means.is_some() { b'2' } else { b'1' });
        bytes[MAGIC.len() - 1] = b'1' + b'2' - version;
        prop_assert_eq!(Message::decode(&bytes, &key), Err(MessageError::Tag));
        let mut body = bytes.split_off(MAGIC.len() + TAG_BYTES);
        body.extend(&more);
        let read = Message::decode_body(&body, message.means.is_some());
        if message.means.is_some() {
            prop_assert_eq!(read.unwrap(), message);
        } else {
            prop_assert_eq!(read.is_ok(), more.is_empty());
        }
    }
}
