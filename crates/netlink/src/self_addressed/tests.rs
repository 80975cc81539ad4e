use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::*;
use crate::route::{Connection, LinkChange, LinkName, NetworkNamespace};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 3785;

#[test]
fn payload_survives_a_packet() {
    let packet = packet(OWN, 50_000, PORT, b"token");
    assert_eq!(payload(&packet), Some(b"token".as_slice()));
    for length in 0..packet.len() {
        assert_eq!(payload(&packet[..length]), None, "{length}");
    }
}

#[test]
fn rejects_a_length_below_the_header() {
    let mut packet = packet(OWN, 50_000, PORT, b"token");
    packet[IP_BYTES + 5] = 7;
    assert_eq!(payload(&packet), None);
}

/// Sends datagrams until one returns, for at most `limit`.
fn exchange(socket: &SelfAddressedSocket, limit: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        socket.send(NEIGHBOUR, 50_000, b"token").expect("sent");
        std::thread::sleep(Duration::from_millis(5));
        match socket.receive() {
            Ok(payload) => return Some(payload),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
    None
}

#[test]
fn neighbour_returns_datagrams_only_while_it_forwards() {
    testbed::in_namespace(|| {
        let other = NetworkNamespace::create().expect("a namespace");
        let mut here = Connection::open().expect("a connection");
        let mut there = Connection::open_in(&other).expect("a connection");
        let (near, far): (LinkName, LinkName) = ("near".parse().unwrap(), "far".parse().unwrap());
        here.add_veth(&near, &far, Some(other.as_fd())).expect("a pair");
        let link = here.link_index(&near).expect("a link");
        for (connection, name, address) in [
            (&mut here, &near, "10.9.0.1/24"),
            (&mut there, &far, "10.9.0.2/24"),
        ] {
            let link = connection.link_index(name).expect("a link");
            connection.change_link(link, &LinkChange::up()).expect("up");
            connection
                .add_address(link, address.parse().expect("a network"))
                .expect("an address");
        }
        let set_forwarding = |value: &'static str| {
            let written = other.enter(move || testbed::write_sysctl("net.ipv4.ip_forward", value));
            written.expect("the namespace").expect("a kernel parameter");
        };
        let socket = SelfAddressedSocket::open(link, OWN, PORT).expect("sockets");
        set_forwarding("0");
        assert_eq!(exchange(&socket, Duration::from_millis(100)), None);
        set_forwarding("1");
        let returned = exchange(&socket, Duration::from_secs(10));
        assert_eq!(returned.as_deref(), Some(b"token".as_slice()));
    });
}
