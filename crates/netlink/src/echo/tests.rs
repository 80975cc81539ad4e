use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn checksums_match_rfc_1071() {
    // Example of RFC 1071, section 3.
    assert_eq!(
        checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        !0xddf2
    );
    assert_eq!(checksum(&[0xff]), !0xff00);
}

#[test]
fn requests_have_the_size_of_the_packet() {
    let v4 = request(Ipv4Addr::LOCALHOST.into(), 1_500, 7);
    assert_eq!(v4.len(), 1_480);
    let v6 = request(Ipv6Addr::LOCALHOST.into(), 1_280, 7);
    assert_eq!((v6.len(), v6[0]), (1_240, 128));
    assert_eq!(request(Ipv4Addr::LOCALHOST.into(), 0, 7).len(), ICMP_BYTES);
    assert_eq!(
        request(Ipv6Addr::LOCALHOST.into(), usize::MAX, 7).len(),
        PACKET_BYTES_MAX - IPV6_BYTES
    );
}

#[test]
fn replies_have_identifier_and_sequence() {
    let target = IpAddr::from(Ipv6Addr::LOCALHOST);
    let reply = [129, 0, 0, 0, 0, 7, 5, 0];
    assert!(is_reply(target, &reply, 7, 0x500));
    assert!(!is_reply(target, &reply, 8, 0x500) && !is_reply(target, &reply, 7, 0));
    assert!(!is_reply(target, &reply[..7], 7, 0x500));
    assert!(!is_reply(Ipv4Addr::LOCALHOST.into(), &[], 7, 0));
    assert!(!is_reply(Ipv4Addr::LOCALHOST.into(), &[0x4f], 7, 0));
}

#[test]
fn large_packets_are_reported() {
    testbed::in_namespace(|| {
        for target in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            assert_eq!(
                echo(target, 1_400, TIMEOUT).expect("an echo"),
                Echo::Reply,
                "{target}"
            );
        }
        let name = "lo".parse().expect("a name");
        let mut connection = crate::route::Connection::open().expect("a connection");
        let loopback = connection.link_index(&name).expect("loopback");
        let change = crate::route::LinkChange {
            mtu_bytes: Some(1_300),
            ..crate::route::LinkChange::default()
        };
        connection.change_link(loopback, &change).expect("an MTU");
        let target = Ipv4Addr::LOCALHOST.into();
        assert_eq!(echo(target, 1_400, TIMEOUT).expect("an echo"), Echo::TooLarge);
        assert_eq!(echo(target, 1_300, TIMEOUT).expect("an echo"), Echo::Reply);
        let nowhere = "192.0.2.1".parse().expect("an address");
        assert_eq!(echo(nowhere, 100, TIMEOUT).expect("an echo"), Echo::Unreachable);
    });
}
