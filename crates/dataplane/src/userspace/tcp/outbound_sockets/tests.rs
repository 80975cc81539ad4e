use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use mio::{Events, Poll};
use socket2::SockRef;

use super::*;

const READABLE: Interest = Interest::READABLE;

/// Sockets of a worker, and an endpoint.
struct Fixture {
    poll: Poll,
    sockets: OutboundSockets,
    listener: TcpListener,
}

impl Fixture {
    fn new() -> Self {
        let mut sockets = OutboundSockets::default();
        sockets.next_poll();
        Self {
            poll: Poll::new().unwrap(),
            sockets,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        }
    }

    /// Returns a connected socket and the endpoint's side.
    fn socket(&mut self, connection: usize) -> (OutboundSocket, std::net::TcpStream) {
        let address = self.listener.local_addr().unwrap();
        let mut socket = self
            .sockets
            .acquire(address, &CongestionControl::default())
            .unwrap();
        let connected = SockRef::from(&socket.stream).connect(&address.into());
        assert!(
            connected.is_ok() || connected.unwrap_err().raw_os_error() == Some(115),
            "EINPROGRESS"
        );
        socket.register(self.poll.registry(), READABLE).unwrap();
        self.sockets.assign(&socket, connection);
        (socket, self.listener.accept().unwrap().0)
    }

    /// Returns the owners of the next events.
    fn new_events(&mut self) -> Vec<Option<usize>> {
        let mut events = Events::with_capacity(8);
        self.poll
            .poll(&mut events, Some(Duration::from_millis(100)))
            .unwrap();
        self.sockets.next_poll();
        let tokens = events.iter().map(|event| event.token().0);
        tokens.map(|token| self.sockets.owner(token / 2)).collect()
    }
}

#[test]
fn socket_of_closed_connection_is_reused() {
    let mut fixture = Fixture::new();
    let (first, endpoint) = fixture.socket(1);
    let number = descriptor(&first.stream);
    drop(endpoint);
    assert_eq!(fixture.new_events(), [Some(1)]);
    first.stream.shutdown(Shutdown::Write).unwrap();
    fixture.sockets.release(first, READABLE);
    assert!(
        fixture.new_events().iter().all(Option::is_none),
        "no connection has the socket"
    );
    let other: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let another = fixture
        .sockets
        .acquire(other, &CongestionControl::default())
        .unwrap();
    assert_ne!(
        descriptor(&another.stream),
        number,
        "a socket is reused for its own endpoint only"
    );
    let (second, mut endpoint) = fixture.socket(2);
    assert_eq!(descriptor(&second.stream), number);
    std::io::Write::write_all(&mut endpoint, b"a").unwrap();
    assert_eq!(fixture.new_events(), [Some(2)]);
}

#[test]
fn socket_with_unacknowledged_fin_is_closed() {
    let mut fixture = Fixture::new();
    let (socket, _endpoint) = fixture.socket(1);
    socket.stream.shutdown(Shutdown::Write).unwrap();
    fixture.sockets.release(socket, READABLE);
    assert!(fixture.sockets.idle.is_empty());
}

#[test]
fn socket_registered_for_writability_is_closed() {
    let mut fixture = Fixture::new();
    let (mut socket, endpoint) = fixture.socket(1);
    socket
        .register(fixture.poll.registry(), READABLE | Interest::WRITABLE)
        .unwrap();
    drop(endpoint);
    socket.stream.shutdown(Shutdown::Write).unwrap();
    fixture.sockets.release(socket, READABLE);
    assert!(fixture.sockets.idle.is_empty());
}

#[test]
fn idle_sockets_are_bounded() {
    let mut fixture = Fixture::new();
    let open: Vec<_> = (0..IDLE_SOCKETS_MAX + 2)
        .map(|number| fixture.socket(number))
        .collect();
    let last = descriptor(&open.last().unwrap().0.stream);
    for (socket, endpoint) in open {
        drop(endpoint);
        socket.stream.shutdown(Shutdown::Write).unwrap();
        fixture.sockets.release(socket, READABLE);
    }
    assert_eq!(fixture.sockets.idle.len(), IDLE_SOCKETS_MAX);
    assert_eq!(descriptor(&fixture.socket(0).0.stream), last);
    fixture.sockets.close_idle();
    assert!(fixture.sockets.idle.is_empty());
}

#[test]
fn events_from_before_reuse_are_ignored() {
    let mut fixture = Fixture::new();
    let (socket, _endpoint) = fixture.socket(1);
    fixture.sockets.next_poll();
    let number = descriptor(&socket.stream).unwrap();
    assert_eq!(fixture.sockets.owner(number), Some(1));
    // In the same round, events of the former owner may be left.
    fixture.sockets.assign(&socket, 2);
    assert_eq!(fixture.sockets.owner(number), None);
    fixture.sockets.next_poll();
    assert_eq!(fixture.sockets.owner(number), Some(2));
}
