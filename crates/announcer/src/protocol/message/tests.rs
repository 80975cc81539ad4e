use proptest::prelude::*;

use super::*;

fn entry() -> impl Strategy<Value = VoteEntry> {
    (0..5, any::<IpAddr>()).prop_map(|(kind, address)| match kind {
        0 => VoteEntry::RequestVote(address),
        1 => VoteEntry::GrantVote(address),
        2 => VoteEntry::ReleaseVote(address),
        3 => VoteEntry::ReleaseAddress(address),
        _ => VoteEntry::ConfirmRelease(address),
    })
}

fn link_address() -> impl Strategy<Value = LinkAddress> {
    any::<(IpAddr, [u8; 6])>().prop_map(|(address, hardware)| LinkAddress { address, hardware })
}

fn key() -> Key {
    Key::new(&[7; 32])
}

#[test]
fn largest_message_fits_minimum_ipv6_mtu() {
    let name: NodeName = "n".repeat(NAME_BYTES_MAX).into();
    let address = IpAddr::from([7; 16]);
    let message = Message {
        from: NodeName::clone(&name),
        to: name,
        incarnation: 1,
        timestamp: Timestamp(2),
        epoch: 3,
        min_epoch: 4,
        is_quorate: true,
        is_leaving: true,
        echo: Some(Echo {
            incarnation: 5,
            timestamp: Timestamp(6),
        }),
        lease_generation: Some(7),
        entries: vec![VoteEntry::ReleaseAddress(address); ENTRIES_SENT_MAX],
        capabilities: NodeCapabilities {
            missing_links: (0..MISSING_LINKS_MAX as u64).map(LinkSetId).collect(),
            has_edge: true,
        },
        link_addresses: vec![
            LinkAddress {
                address,
                hardware: [2; 6],
            };
            LINK_ADDRESSES_MAX
        ],
    };
    // 1,280 bytes without the headers of IPv6 and UDP.
    assert!(message.encode(&key()).len() <= 1_280 - 40 - 8);
}

prop_compose! {
    fn message()(
        from in "[a-z0-9.-]{1,253}", to in "[a-z]{1,9}",
        numbers in any::<[u64; 4]>(), flags in any::<(bool, bool)>(),
        echo in proptest::option::of(any::<[u64; 2]>()), lease_generation in proptest::option::of(any::<u64>()),
        entries in proptest::collection::vec(entry(), 0..=ENTRIES_MAX),
        has_edge in any::<bool>(), missing_links in proptest::collection::btree_set(any::<u64>(), 0..=MISSING_LINKS_MAX),
        link_addresses in proptest::collection::vec(link_address(), 0..=LINK_ADDRESSES_MAX),
    ) -> Message {
        Message {
            from: from.into(),
            to: to.into(),
            incarnation: numbers[0],
            timestamp: Timestamp(numbers[1]),
            epoch: numbers[2],
            min_epoch: numbers[3],
            is_quorate: flags.0,
            is_leaving: flags.1,
            echo: echo.map(|[incarnation, timestamp]| Echo { incarnation, timestamp: Timestamp(timestamp) }),
            lease_generation,
            entries,
            capabilities: NodeCapabilities { has_edge, missing_links: missing_links.into_iter().map(LinkSetId).collect() },
            link_addresses,
        }
    }
}

proptest! {
    #[test]
    fn decodes_its_own_encoding_and_rejects_altered_bytes(message in message(), flip in any::<(usize, u8)>()) {
        let mut bytes = message.encode(&key());
        prop_assert!(bytes.len() <= BYTES_MAX);
        prop_assert_eq!(&Message::decode(&bytes, &key()).unwrap(), &message);
        prop_assert_eq!(Message::claimed_sender(&bytes).unwrap(), message.from);
        prop_assert_eq!(Message::decode(&bytes, &Key::new(&[8; 32])), Err(MessageError::Authentication));
        let body = &bytes[MAGIC.len() + TAG_BYTES..];
        for end in 0..body.len() {
            prop_assert!(Message::decode_body(&body[..end]).is_err(), "cut at {end}");
        }
        let at = flip.0 % bytes.len();
        bytes[at] ^= flip.1.max(1);
        prop_assert!(Message::decode(&bytes, &key()).is_err());
    }

    #[test]
    fn decodes_arbitrary_bytes_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Message::decode(&bytes, &key()).is_err());
        if let Ok(message) = Message::decode_body(&bytes) {
            let again = message.encode(&key());
            prop_assert_eq!(Message::decode(&again, &key()), Ok(message));
        }
    }

    #[test]
    fn ignores_trailing_fields(
        message in message(), more in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut body = message.encode(&key()).split_off(MAGIC.len() + TAG_BYTES);
        body.extend(&more);
        prop_assert_eq!(Message::decode_body(&body), Ok(message));
    }

    #[test]
    fn rejects_versions_1_and_2(message in message()) {
        for version in *b"12" {
            let mut bytes = message.encode(&key());
            bytes[MAGIC.len() - 1] = version;
            prop_assert_eq!(Message::decode(&bytes, &key()), Err(MessageError::Version));
        }
    }
}
