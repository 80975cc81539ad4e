use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn segment_has_its_addresses_and_a_checksum_of_zero_in_total() {
    let syn = |source, destination| packet(source, destination, tcp::SYN, &[]);
    let packet = syn(address("10.96.0.1:80"), address("10.244.0.2:40000")).expect("a packet");
    assert_eq!(packet.len(), 40);
    assert_eq!(packet[12..20], [10, 96, 0, 1, 10, 244, 0, 2]);
    assert_eq!(packet[20..24], [0, 80, 0x9c, 0x40]);
    assert_eq!(packet[33], tcp::SYN);
    let total = checksum(
        "10.96.0.1".parse().expect("IP"),
        "10.244.0.2".parse().expect("IP"),
        &packet[20..],
    );
    assert_eq!(total, 0, "the sum over a segment with its checksum is all ones");
    let packet = syn(address("[fd00::1]:80"), address("[fd00::2]:40000")).expect("a packet");
    assert_eq!(packet.len(), 60);
    let total = checksum(
        "fd00::1".parse().expect("IP"),
        "fd00::2".parse().expect("IP"),
        &packet[40..],
    );
    assert_eq!(total, 0);
}

#[test]
fn segment_with_data_has_its_length_and_checksum() {
    let (source, destination) = (address("[fd00::1]:80"), address("[fd00::2]:40000"));
    let packet = packet(source, destination, tcp::ACK, &[7]).expect("a packet");
    assert_eq!(packet.len(), 61);
    assert_eq!(packet[4..6], [0, 21]);
    assert_eq!((packet[53], packet[60]), (tcp::ACK, 7));
    assert_eq!(checksum(source.ip(), destination.ip(), &packet[40..]), 0);
}

#[test]
fn rejects_addresses_of_different_families() {
    let mixed = packet(address("10.96.0.1:80"), address("[fd00::2]:40000"), tcp::SYN, &[]);
    assert_eq!(mixed.expect_err("an error").kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn connection_continues_after_unexpected_segments() {
    testbed::in_namespace(|| {
        let mut connection = crate::route::Connection::open().expect("a route connection");
        let lo = connection
            .link_index(&"lo".parse().expect("a name"))
            .expect("the loopback link");
        connection
            .change_link(lo, &crate::route::LinkChange::up())
            .expect("the loopback link is up");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let server = listener.local_addr().expect("its address");
        let mut client = TcpStream::connect(server).expect("a connection");
        let (mut accepted, _) = listener.accept().expect("the connection");
        let socket = SegmentSocket::open().expect("a raw socket");
        let peer = client.local_addr().expect("an address");
        socket.send_syn(server, peer).expect("a segment");
        socket.send_unexpected_byte(server, peer).expect("a segment");
        client.write_all(b"x").expect("a byte");
        let mut received = [0];
        accepted.read_exact(&mut received).expect("the byte");
        assert_eq!(&received, b"x");
    });
}
