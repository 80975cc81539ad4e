use std::net::{Ipv4Addr, TcpListener};

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn sent(protocol: Protocol, destination: SocketAddr) -> Response {
    let packet = Packet::prepare(None, protocol, LOOPBACK, destination).expect("a socket");
    assert!(packet.source.port() > 0, "the port is known before the packet");
    packet.send().0
}

#[test]
fn responses_of_tcp_and_udp_are_distinguished() {
    let listener = TcpListener::bind((LOOPBACK, 0)).expect("a listener");
    let open = listener.local_addr().expect("an address");
    assert_eq!(sent(Protocol::Tcp, open), Response::Answered);
    drop(listener);
    assert_eq!(sent(Protocol::Tcp, open), Response::Refused);
    let silent = UdpSocket::bind((LOOPBACK, 0)).expect("a socket");
    let bound = silent.local_addr().expect("an address");
    assert_eq!(sent(Protocol::Udp, bound), Response::Timeout);
    drop(silent);
    assert_eq!(sent(Protocol::Udp, bound), Response::Refused);
}

#[test]
fn address_of_another_host_is_rejected() {
    let foreign: IpAddr = "192.0.2.1".parse().expect("an address");
    let destination = SocketAddr::new(LOOPBACK, 9);
    let error = Packet::prepare(None, Protocol::Tcp, foreign, destination).expect_err("an error");
    assert!(
        error
            .to_string()
            .starts_with("the client cannot send from 192.0.2.1"),
        "{error}"
    );
}
