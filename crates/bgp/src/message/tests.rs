//! Messages: round trips, the error handling of RFC 7606, and arbitrary bytes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use proptest::prelude::*;

use super::capability::{Capabilities, GracefulRestart};
use super::{Context, ErrorHandling, Message, Notification, Open, Update, encode, frame_length};
use crate::Family;
use crate::community::{AnyCommunity, Community, LargeCommunity};
use crate::routes::{NextHop, RouteAttributes};

const EXTERNAL: Context = Context {
    has_four_octet_as: true,
    is_internal: false,
    local_as: 4_200_000_000,
};
const INTERNAL: Context = Context {
    has_four_octet_as: true,
    is_internal: true,
    local_as: 64_512,
};
const NEXT_HOP: NextHop = NextHop::Ipv4(Ipv4Addr::new(192, 0, 2, 1));

fn decode(bytes: &[u8], context: &Context) -> Result<Message, Notification> {
    Message::decode(bytes, context)
}

fn update(bytes: &[u8], context: &Context) -> Update {
    match decode(bytes, context) {
        Ok(Message::Update(update)) => update,
        other => panic!("{other:?}"),
    }
}

fn prefixes(count: u32) -> Vec<IpNet> {
    let address = |number: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    (0..count)
        .map(|number| IpNet::new(address(number), 32).expect("a prefix"))
        .collect()
}

fn attributes() -> RouteAttributes {
    let mut attributes = RouteAttributes::default();
    attributes.local_preference = Some(200);
    assert!(attributes.add(AnyCommunity::Standard(Community(7))));
    assert!(attributes.add(AnyCommunity::Large(LargeCommunity([1, 2, 3]))));
    attributes
}

/// Builds an UPDATE from its attributes and prefixes of IPv4.
fn raw_update(attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let length = u16::try_from(attributes.len()).expect("short");
    let mut body = vec![0, 0];
    body.extend(length.to_be_bytes());
    body.extend(attributes);
    body.extend(announced);
    let mut message = vec![0xff; 16];
    message.extend(u16::try_from(19 + body.len()).expect("short").to_be_bytes());
    message.push(2);
    message.extend(body);
    message
}

const ORIGIN: [u8; 4] = [0x40, 1, 1, 0];
const PATH: [u8; 9] = [0x40, 2, 6, 2, 1, 0, 0, 0xfc, 0];
const HOP: [u8; 7] = [0x40, 3, 4, 192, 0, 2, 1];
const PREFIX: [u8; 4] = [24, 10, 0, 0];

#[test]
fn open_survives_a_round_trip() {
    let open = Open {
        autonomous_system: 4_200_000_000,
        hold_seconds: 90,
        identifier: Ipv4Addr::new(1, 2, 3, 4),
        capabilities: Capabilities {
            families: Family::ALL.to_vec(),
            has_other_families: false,
            has_route_refresh: true,
            has_extended_next_hop: true,
            four_octet_as: Some(4_200_000_000),
            graceful_restart: Some(GracefulRestart {
                is_restarted: true,
                has_notifications: true,
                restart_seconds: 120,
                families: vec![(Family::Ipv4, true), (Family::Ipv6, true)],
            }),
        },
    };
    assert_eq!(decode(&encode::open(&open), &EXTERNAL), Ok(Message::Open(open)));
}

#[test]
fn open_with_other_families_only_differs_from_one_without_families() {
    // A parameter with the capability of L2VPN EVPN.
    let parameters = [8, 2, 6, 1, 4, 0, 25, 0, 70];
    let mut bytes = vec![0xff; 16];
    bytes.extend([0, 37, 1, 4, 0, 1, 0, 90, 0, 0, 0, 1]);
    bytes.extend(parameters);
    let Ok(Message::Open(open)) = decode(&bytes, &EXTERNAL) else {
        panic!("an OPEN")
    };
    assert!(open.capabilities.families.is_empty() && open.capabilities.has_other_families);
}

#[test]
fn routes_survive_a_round_trip() {
    let six: IpNet = "fd00::7/128".parse().expect("a prefix");
    let hop6 = NextHop::Ipv6 {
        address: "fd00::1".parse().expect("an address"),
        link_local: Some("fe80::1".parse().expect("an address")),
    };
    for context in [EXTERNAL, INTERNAL] {
        for (prefix, hop) in [(prefixes(1)[0], NEXT_HOP), (six, hop6), (prefixes(1)[0], hop6)] {
            let family = Family::of(&prefix);
            let (bytes, count) = encode::announcement(&[prefix], family, &attributes(), hop, &context);
            let update = update(&bytes, &context);
            assert_eq!((count, update.error), (1, None));
            assert_eq!(update.announced, [prefix]);
            assert_eq!(update.attributes.communities, [Community(7)]);
            assert_eq!(update.attributes.large_communities, [LargeCommunity([1, 2, 3])]);
            assert_eq!(
                update.attributes.local_preference,
                context.is_internal.then_some(200)
            );
            let path = update.attributes.as_path.expect("a path");
            let numbers: Vec<u32> = path.into_iter().flat_map(|segment| segment.numbers).collect();
            let expected: &[u32] = if context.is_internal {
                &[]
            } else {
                &[4_200_000_000]
            };
            assert_eq!(numbers, expected);
            let (bytes, _) = encode::withdrawal(&[prefix], family);
            assert_eq!(super::tests::update(&bytes, &context).withdrawn, [prefix]);
        }
        for family in Family::ALL {
            let update = update(&encode::end_of_routes(family), &context);
            assert_eq!(update.end_of_routes, Some(family));
        }
    }
}

#[test]
fn peers_with_two_octets_get_as_trans_and_as4_path() {
    let context = Context {
        has_four_octet_as: false,
        ..EXTERNAL
    };
    let (bytes, _) = encode::announcement(&prefixes(1), Family::Ipv4, &attributes(), NEXT_HOP, &context);
    let attributes = update(&bytes, &context).attributes;
    assert_eq!(attributes.as_path.expect("a path")[0].numbers, [23_456]);
    assert_eq!(attributes.as4_path.expect("a path")[0].numbers, [4_200_000_000]);
}

#[test]
fn messages_hold_as_many_prefixes_as_fit() {
    let prefixes = prefixes(2_000);
    let mut rest = prefixes.as_slice();
    let mut received = Vec::new();
    let attributes = Arc::new(attributes());
    while !rest.is_empty() {
        let (bytes, count) = encode::announcement(rest, Family::Ipv4, &attributes, NEXT_HOP, &INTERNAL);
        assert!(bytes.len() <= super::MESSAGE_BYTES_MAX && count > 0);
        received.extend(update(&bytes, &INTERNAL).announced);
        rest = &rest[count..];
    }
    assert_eq!(received, prefixes);
}

#[test]
fn malformed_attributes_keep_the_session() {
    let with = |more: &[u8]| raw_update(&[&ORIGIN[..], &PATH, &HOP, more].concat(), &PREFIX);
    let withdraw = Some(ErrorHandling::TreatAsWithdraw);
    let discard = Some(ErrorHandling::DiscardAttribute);
    let cases: [(&str, Vec<u8>, Option<ErrorHandling>); 12] = [
        ("complete", with(&[]), None),
        (
            "without NEXT_HOP",
            raw_update(&[&ORIGIN[..], &PATH].concat(), &PREFIX),
            withdraw,
        ),
        (
            "without AS_PATH",
            raw_update(&[&ORIGIN[..], &HOP].concat(), &PREFIX),
            withdraw,
        ),
        (
            "unknown ORIGIN",
            raw_update(&[&[0x40, 1, 1, 3][..], &PATH, &HOP].concat(), &PREFIX),
            withdraw,
        ),
        (
            "flags of ORIGIN",
            raw_update(&[&[0xc0, 1, 1, 0][..], &PATH, &HOP].concat(), &PREFIX),
            withdraw,
        ),
        ("short MULTI_EXIT_DISC", with(&[0x80, 4, 1, 0]), withdraw),
        ("COMMUNITIES of 3 octets", with(&[0xc0, 8, 3, 0, 0, 0]), withdraw),
        ("overrun", with(&[0xc0, 8, 200, 0]), withdraw),
        ("LOCAL_PREF of an external peer", with(&[0x40, 5, 1, 0]), discard),
        ("ATOMIC_AGGREGATE with a value", with(&[0x40, 6, 1, 0]), discard),
        ("second ORIGIN", with(&ORIGIN), discard),
        ("unknown optional", with(&[0xc0, 99, 1, 0]), None),
    ];
    for (name, bytes, error) in cases {
        let update = update(&bytes, &EXTERNAL);
        assert_eq!(update.error, error, "{name}");
        assert_eq!(update.announced.is_empty(), error == withdraw, "{name}");
        assert_eq!(update.withdrawn.is_empty(), error != withdraw, "{name}");
    }
}

#[test]
fn unparsable_routes_end_the_session() {
    let cases = [
        (
            "prefix of 33 bits",
            raw_update(&[], &[33, 1, 2, 3, 4, 5]),
            (3, 10),
        ),
        ("cut prefix", raw_update(&[], &[24, 1]), (3, 10)),
        ("unknown well-known", raw_update(&[0x40, 99, 0], &[]), (3, 2)),
        (
            "short MP_REACH_NLRI",
            raw_update(&[0x80, 14, 2, 0, 2], &[]),
            (3, 9),
        ),
        (
            "two MP_UNREACH_NLRI",
            raw_update(&[0x80, 15, 3, 0, 2, 1, 0x80, 15, 3, 0, 2, 1], &[]),
            (3, 1),
        ),
    ];
    for (name, bytes, (code, subcode)) in cases {
        let notification = decode(&bytes, &EXTERNAL).expect_err(name);
        assert_eq!(
            (notification.code, notification.subcode),
            (code, subcode),
            "{name}"
        );
    }
}

#[test]
fn notifications_contain_the_attribute_that_ends_the_session() {
    for attribute in [
        [0x40, 99, 2, 7, 8].as_slice(),
        &[0x50, 99, 0, 2, 7, 8],
        &[0x80, 14, 2, 0, 2],
    ] {
        let notification = decode(&raw_update(attribute, &[]), &EXTERNAL).expect_err("an end");
        assert_eq!(notification.data, attribute);
    }
}

#[test]
fn rejects_invalid_headers_and_opens() {
    let mut keepalive = encode::keepalive();
    keepalive[0] = 0;
    assert_eq!(frame_length(&keepalive).map_err(|error| error.subcode), Err(1));
    let mut keepalive = encode::keepalive();
    keepalive[17] = 20;
    assert_eq!(frame_length(&keepalive).map_err(|error| error.subcode), Err(2));
    keepalive[18] = 6;
    assert_eq!(frame_length(&keepalive).map_err(|error| error.subcode), Err(3));
    let open = |version: u8, hold: u8, identifier: u8| {
        let mut bytes = vec![0xff; 16];
        bytes.extend([0, 29, 1, version, 0, 1, 0, hold, 0, 0, 0, identifier, 0]);
        decode(&bytes, &EXTERNAL)
            .map_err(|error| (error.code, error.subcode))
            .err()
    };
    assert_eq!(open(3, 90, 1), Some((2, 1)));
    assert_eq!(open(4, 2, 1), Some((2, 6)));
    assert_eq!(open(4, 90, 0), Some((2, 3)));
    assert_eq!(open(4, 0, 1), None);
}

#[test]
fn shutdown_text_is_cut_at_a_character() {
    let notification = Notification::cease(Notification::SHUTDOWN, &"ü".repeat(200));
    let decoded = decode(&encode::notification(&notification), &EXTERNAL);
    let Ok(Message::Notification(decoded)) = decoded else {
        panic!("{decoded:?}")
    };
    assert_eq!(decoded.text(), Some("ü".repeat(127).as_str()));
    assert_eq!(decoded, notification);
}

proptest! {
    #[test]
    fn decoding_never_panics(kind in 0u8..7, body in proptest::collection::vec(any::<u8>(), 0..300), four in any::<bool>()) {
        let mut bytes = vec![0xff; 16];
        bytes.extend(u16::try_from(19 + body.len()).expect("short").to_be_bytes());
        bytes.push(kind);
        bytes.extend(&body);
        let context = Context { has_four_octet_as: four, ..EXTERNAL };
        match decode(&bytes, &context) {
            Ok(Message::Update(update)) => prop_assert!(update.error != Some(ErrorHandling::TreatAsWithdraw) || update.announced.is_empty()),
            Ok(Message::Open(open)) => prop_assert!(!matches!(open.hold_seconds, 1 | 2)),
            Ok(_) => {}
            Err(notification) => prop_assert!((1..=3).contains(&notification.code)),
        }
    }
}
