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

/// An entry as version 1 tells it.
fn without_reason(entry: Entry) -> Entry {
    match entry {
        Entry::GaveUp(address) => Entry::Release(address),
        entry => entry,
    }
}

/// Bytes of what follows the means.
fn bytes_behind_means(message: &Message) -> usize {
    let entrances = message.entrances.iter();
    let entrances = entrances.map(|entrance| if entrance.address.is_ipv4() { 5 + 6 } else { 17 + 6 });
    1 + entrances.sum::<usize>() + 4
}

fn entrance() -> impl Strategy<Value = Entrance> {
    any::<(IpAddr, [u8; 6])>().prop_map(|(address, hardware)| Entrance { address, hardware })
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
        grant: Some(Grant {
            incarnation: 5,
            stamp: Stamp(6),
            generation: 7,
        }),
        entries: vec![Entry::GaveUp(address); ENTRIES_SENT_MAX],
        means: Some(Means {
            lacks: (0..LACKS_MAX as u64).map(LinksId).collect(),
            has_edge: true,
        }),
        entrances: vec![
            Entrance {
                address,
                hardware: [2; 6],
            };
            ENTRANCES_MAX
        ],
    };
    // 1,280 bytes without the headers of IPv6 and UDP.
    assert!(message.encode(&Key::new("the key")).len() <= 1_280 - 40 - 8);
}

prop_compose! {
    fn message()(
        from in "[a-z0-9.-]{1,253}", to in "[a-z]{1,9}",
        numbers in any::<[u64; 4]>(), flags in any::<(bool, bool)>(),
        grant in proptest::option::of(any::<[u64; 3]>()),
        entries in proptest::collection::vec(entry(), 0..=ENTRIES_MAX),
        means in proptest::option::of((any::<bool>(), proptest::collection::btree_set(any::<u64>(), 0..=LACKS_MAX))),
        entrances in proptest::collection::vec(entrance(), 0..=ENTRANCES_MAX),
    ) -> Message {
        Message {
            entrances: if means.is_some() { entrances } else { Vec::new() },
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
            entries: match means {
                Some(_) => entries,
                None => entries.into_iter().map(without_reason).collect(),
            },
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
        let has_means = message.means.is_some();
        let is_of_before = |end: usize| has_means && body.len() - end == bytes_behind_means(&message);
        for end in (0..body.len()).filter(|end| !is_of_before(*end)) {
            prop_assert!(Message::decode_body(&body[..end], has_means).is_err(), "cut at {end}");
        }
        let at = flip.0 % bytes.len();
        bytes[at] ^= flip.1.max(1);
        prop_assert!(Message::decode(&bytes, &key).is_err());
    }

    /// The first processes of version 2 ended with what they have.
    #[test]
    fn who_tells_no_entrances_is_understood(message in message()) {
        let message = Message { means: Some(message.means.clone().unwrap_or_default()), ..message };
        let bytes = message.encode(&Key::new("the key"));
        let body = &bytes[MAGIC.len() + TAG_BYTES..bytes.len() - bytes_behind_means(&message)];
        let entries = message.entries.iter().copied().map(without_reason).collect();
        let wanted = Message { entries, entrances: Vec::new(), ..message };
        prop_assert_eq!(Message::decode_body(body, true), Ok(wanted));
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
