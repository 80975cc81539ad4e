use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use super::*;

#[test]
fn loopback_connection_has_short_round_trip() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let round_trip = min_round_trip(client.as_fd())
        .expect("an answer")
        .expect("a handshake");
    assert!(round_trip < Duration::from_secs(1), "{round_trip:?}");
}

#[test]
fn timestamps_are_known_after_close() {
    for has_timestamps_now in [true, false] {
        testbed::in_namespace(|| {
            let setting = if has_timestamps_now { "1" } else { "0" };
            testbed::write_sysctl("net.ipv4.tcp_timestamps", setting).expect("set");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let mut client =
                TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
            assert_eq!(
                has_timestamps(client.as_fd()).expect("a TCP socket"),
                has_timestamps_now
            );
            drop(listener.accept().expect("accepted"));
            assert_eq!(client.read(&mut [0]).expect("read to the end"), 0);
            client.shutdown(Shutdown::Both).expect("ended");
            assert!(client.peer_addr().is_err(), "the connection has ended");
            assert_eq!(
                has_timestamps(client.as_fd()).expect("a TCP socket"),
                has_timestamps_now
            );
        });
    }
}

#[test]
fn rejects_sockets_that_are_not_tcp() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    assert!(min_round_trip(socket.as_fd()).is_err());
    assert!(has_timestamps(socket.as_fd()).is_err());
}
