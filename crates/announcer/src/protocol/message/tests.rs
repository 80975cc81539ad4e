use proptest::prelude::*;

use super::*;

fn entry() -> impl Strategy<Value = Entry> {
    (0..5, any::<IpAddr>()).prop_map(|(kind, address)| match kind {
        0 => Entry::Ask(address),
        1 => Entry::Vote(address),
        2 => Entry::Release(address),
        3 => Entry::GaveUp(address),
        _ => Entry::Released(address),
    })
}

fn entrance() -> impl Strategy<Value = Entrance> {
    any::<(IpAddr, [u8; 6])>().prop_map(|(address, hardware)| Entrance { address, hardware })
}

fn key() -> Key {
    Key::new(&[7; 32])
}

#[test]
fn what_is_sent_fits_into_the_smallest_mtu() {
    let name: NodeName = "n".repeat(NAME_BYTES_MAX).into();
    let address = IpAddr::from([7; 16]);
    let message = Message {
        from: NodeName::clone(&name),
        to: name,
        incarnation: 1,
        stamp: Stamp(2),
        epoch: 3,
        refuses_below: 4,
        is_quorate: true,
        is_leaving: true,
        heard: Some(Echo {
            incarnation: 5,
            stamp: Stamp(6),
        }),
        grant: Some(7),
        entries: vec![Entry::GaveUp(address); ENTRIES_SENT_MAX],
        means: Means {
            lacks: (0..LACKS_MAX as u64).map(LinksId).collect(),
            has_edge: true,
        },
        entrances: vec![
            Entrance {
                address,
                hardware: [2; 6],
            };
            ENTRANCES_MAX
        ],
    };
    // 1,280 bytes without the headers of IPv6 and UDP.
    assert!(message.encode(&key()).len() <= 1_280 - 40 - 8);
}

prop_compose! {
    fn message()(
        from in "[a-z0-9.-]{1,253}", to in "[a-z]{1,9}",
        numbers in any::<[u64; 4]>(), flags in any::<(bool, bool)>(),
        heard in proptest::option::of(any::<[u64; 2]>()), grant in proptest::option::of(any::<u64>()),
        entries in proptest::collection::vec(entry(), 0..=ENTRIES_MAX),
        has_edge in any::<bool>(), lacks in proptest::collection::btree_set(any::<u64>(), 0..=LACKS_MAX),
        entrances in proptest::collection::vec(entrance(), 0..=ENTRANCES_MAX),
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
            heard: heard.map(|[incarnation, stamp]| Echo { incarnation, stamp: Stamp(stamp) }),
            grant,
            entries,
            means: Means { has_edge, lacks: lacks.into_iter().map(LinksId).collect() },
            entrances,
        }
    }
}

proptest! {
    #[test]
    fn a_message_is_read_back_and_no_other_passes(message in message(), flip in any::<(usize, u8)>()) {
        let mut bytes = message.encode(&key());
        prop_assert!(bytes.len() <= BYTES_MAX);
        prop_assert_eq!(&Message::decode(&bytes, &key()).unwrap(), &message);
        prop_assert_eq!(Message::claimed_sender(&bytes).unwrap(), message.from);
        prop_assert_eq!(Message::decode(&bytes, &Key::new(&[8; 32])), Err(MessageError::Tag));
        let body = &bytes[MAGIC.len() + TAG_BYTES..];
        for end in 0..body.len() {
            prop_assert!(Message::decode_body(&body[..end]).is_err(), "cut at {end}");
        }
        let at = flip.0 % bytes.len();
        bytes[at] ^= flip.1.max(1);
        prop_assert!(Message::decode(&bytes, &key()).is_err());
    }

    #[test]
    fn junk_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Message::decode(&bytes, &key()).is_err());
        if let Ok(message) = Message::decode_body(&bytes) {
            let again = message.encode(&key());
            prop_assert_eq!(Message::decode(&again, &key()), Ok(message));
        }
    }

    #[test]
    fn fields_of_a_later_version_are_passed_over(
        message in message(), more in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut body = message.encode(&key()).split_off(MAGIC.len() + TAG_BYTES);
        body.extend(&more);
        prop_assert_eq!(Message::decode_body(&body), Ok(message));
    }

    #[test]
    fn messages_of_versions_before_keys_are_refused(message in message()) {
        for version in *b"12" {
            let mut bytes = message.encode(&key());
            bytes[MAGIC.len() - 1] = version;
            prop_assert_eq!(Message::decode(&bytes, &key()), Err(MessageError::Magic));
        }
    }
}
