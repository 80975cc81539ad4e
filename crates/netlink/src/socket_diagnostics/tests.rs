use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use proptest::prelude::*;

use super::wire::{BY_FAMILY, identity_bytes, read};
use super::*;
use crate::message::{Message, messages};

fn socket(local: &str, remote: &str) -> TcpSocket {
    TcpSocket {
        local: local.parse().expect("an address"),
        remote: remote.parse().expect("an address"),
        state: State::CloseWait,
        link_index: 7,
        cookie: 0x0102_0304_0506_0708,
    }
}

/// Returns the response of the kernel for a socket.
fn response(socket: &TcpSocket) -> Vec<u8> {
    let family = if socket.local.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    let mut bytes = vec![family.number(), socket.state.number(), 0, 0];
    bytes.extend_from_slice(&identity_bytes(socket));
    // Timer, queues, user and inode.
    bytes.extend_from_slice(&[0; 20]);
    bytes
}

fn message(payload: &[u8]) -> Message<'_> {
    Message {
        kind: BY_FAMILY,
        flags: 0,
        sequence: 1,
        payload,
    }
}

#[test]
fn sockets_are_read_as_the_kernel_writes_them() {
    for expected in [
        socket("10.0.0.1:40000", "10.244.0.1:8080"),
        socket("[fd00::1]:40000", "[fd00::2]:8080"),
        socket("[::ffff:10.0.0.1]:40000", "[::ffff:10.244.0.1]:8080"),
    ] {
        assert_eq!(read(&message(&response(&expected))), Some(expected));
    }
}

#[test]
fn listening_and_shortened_sockets_are_not_read() {
    let expected = socket("10.0.0.1:40000", "10.244.0.1:8080");
    let mut bytes = response(&expected);
    assert_eq!(read(&message(&bytes[..51])), None);
    bytes[1] = 10; // TCP_LISTEN
    assert_eq!(read(&message(&bytes)), None);
    bytes[1] = 1;
    bytes[0] = libc::AF_UNIX as u8;
    assert_eq!(read(&message(&bytes)), None);
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for message in messages(&bytes) {
            read(&message);
        }
        read(&message(&bytes));
    }
}

/// Returns a client with its number, and the other end of its connection.
fn connection() -> (TcpStream, u64, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    let cookie = rustix::net::sockopt::socket_cookie(&client).unwrap();
    (client, cookie, server)
}

#[test]
fn destroyed_sockets_end_both_ends() {
    testbed::in_namespace(|| {
        let mut routes = crate::route::Connection::open().unwrap();
        let loopback = routes.link_index(&"lo".parse().unwrap()).unwrap();
        routes
            .change_link(loopback, &crate::route::LinkChange::up())
            .unwrap();
        let mut diagnostics = SocketDiagnostics::open().unwrap();
        if let Err(error) = diagnostics.probe() {
            testbed::skip_inside(&error.to_string());
        }
        let (mut client, cookie, mut server) = connection();
        let (mut other, _, _other_server) = connection();
        let found = diagnostics
            .tcp_sockets(10, |socket| socket.cookie == cookie)
            .unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].local, client.local_addr().unwrap());
        assert_eq!(found[0].remote, client.peer_addr().unwrap());
        assert!(diagnostics.destroy(&found[0]).unwrap());
        assert!(!diagnostics.destroy(&found[0]).unwrap());
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        let error = server.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        other.set_nonblocking(true).unwrap();
        let error = other.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

/// The number in the request is compared, so a later socket with the same addresses stays.
#[test]
fn sockets_with_other_cookies_stay() {
    testbed::in_namespace(|| {
        let mut routes = crate::route::Connection::open().unwrap();
        let loopback = routes.link_index(&"lo".parse().unwrap()).unwrap();
        routes
            .change_link(loopback, &crate::route::LinkChange::up())
            .unwrap();
        let mut diagnostics = SocketDiagnostics::open().unwrap();
        if let Err(error) = diagnostics.probe() {
            testbed::skip_inside(&error.to_string());
        }
        let (mut client, cookie, _server) = connection();
        let found = diagnostics
            .tcp_sockets(10, |socket| socket.cookie == cookie)
            .unwrap();
        let former = TcpSocket {
            cookie: cookie ^ 1 << 40,
            ..found[0]
        };
        assert!(!diagnostics.destroy(&former).unwrap());
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}
