use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use super::*;

#[test]
fn a_connection_over_loopback_has_a_short_round_trip() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let round_trip = min_round_trip(client.as_fd())
        .expect("an answer")
        .expect("a handshake");
    assert!(round_trip < Duration::from_secs(1), "{round_trip:?}");
}

#[test]
fn what_is_no_connection_has_none() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    assert!(min_round_trip(socket.as_fd()).is_err());
}
