use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use mio::{Events, Poll};
use socket2::SockRef;

use super::*;

const READABLE: Interest = Interest::READABLE;

/// A thread's sockets, and an endpoint.
struct Setting {
    poll: Poll,
    calls: Calls,
    listener: TcpListener,
}

impl Setting {
    fn new() -> Self {
        let mut calls = Calls::default();
        calls.next_turn();
        Self {
            poll: Poll::new().unwrap(),
            calls,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        }
    }

    /// A socket for a connection, connected, and the endpoint's side.
    fn call(&mut self, connection: usize) -> (Call, std::net::TcpStream) {
        let address = self.listener.local_addr().unwrap();
        let mut call = self.calls.take(address, &CongestionControl::default()).unwrap();
        let connected = SockRef::from(&call.stream).connect(&address.into());
        assert!(
            connected.is_ok() || connected.unwrap_err().raw_os_error() == Some(115),
            "EINPROGRESS"
        );
        call.wait_for(self.poll.registry(), READABLE).unwrap();
        self.calls.assign(&call, connection);
        (call, self.listener.accept().unwrap().0)
    }

    /// Whom the kernel has news for.
    fn news(&mut self) -> Vec<Option<usize>> {
        let mut events = Events::with_capacity(8);
        self.poll
            .poll(&mut events, Some(Duration::from_millis(100)))
            .unwrap();
        self.calls.next_turn();
        let tokens = events.iter().map(|event| event.token().0);
        tokens.map(|token| self.calls.user(token / 2)).collect()
    }
}

#[test]
fn a_socket_whose_connection_is_over_calls_again() {
    let mut setting = Setting::new();
    let (first, endpoint) = setting.call(1);
    let number = descriptor(&first.stream);
    drop(endpoint);
    assert_eq!(setting.news(), [Some(1)]);
    first.stream.shutdown(Shutdown::Write).unwrap();
    setting.calls.give_back(first, READABLE);
    assert!(setting.news().iter().all(Option::is_none), "nobody has it");
    let other: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let another = setting.calls.take(other, &CongestionControl::default()).unwrap();
    assert_ne!(descriptor(&another.stream), number, "it calls its endpoint only");
    let (second, mut endpoint) = setting.call(2);
    assert_eq!(descriptor(&second.stream), number);
    std::io::Write::write_all(&mut endpoint, b"a").unwrap();
    assert_eq!(setting.news(), [Some(2)]);
}

#[test]
fn a_socket_whose_end_is_not_known_to_the_other_side_is_closed() {
    let mut setting = Setting::new();
    let (call, _endpoint) = setting.call(1);
    call.stream.shutdown(Shutdown::Write).unwrap();
    setting.calls.give_back(call, READABLE);
    assert!(setting.calls.spare.is_empty());
}

#[test]
fn a_socket_of_which_more_is_told_is_closed() {
    let mut setting = Setting::new();
    let (mut call, endpoint) = setting.call(1);
    call.wait_for(setting.poll.registry(), READABLE | Interest::WRITABLE)
        .unwrap();
    drop(endpoint);
    call.stream.shutdown(Shutdown::Write).unwrap();
    setting.calls.give_back(call, READABLE);
    assert!(setting.calls.spare.is_empty());
}

#[test]
fn no_more_sockets_are_kept_than_may_be() {
    let mut setting = Setting::new();
    let open: Vec<_> = (0..SPARE_MAX + 2).map(|number| setting.call(number)).collect();
    let last = descriptor(&open.last().unwrap().0.stream);
    for (call, endpoint) in open {
        drop(endpoint);
        call.stream.shutdown(Shutdown::Write).unwrap();
        setting.calls.give_back(call, READABLE);
    }
    assert_eq!(setting.calls.spare.len(), SPARE_MAX);
    assert_eq!(descriptor(&setting.call(0).0.stream), last);
    setting.calls.close_spare();
    assert!(setting.calls.spare.is_empty());
}

#[test]
fn news_from_before_a_socket_was_used_anew_are_nobodys() {
    let mut setting = Setting::new();
    let (call, _endpoint) = setting.call(1);
    setting.calls.next_turn();
    let number = descriptor(&call.stream).unwrap();
    assert_eq!(setting.calls.user(number), Some(1));
    // In the same turn, others of its news may still wait.
    setting.calls.assign(&call, 2);
    assert_eq!(setting.calls.user(number), None);
    setting.calls.next_turn();
    assert_eq!(setting.calls.user(number), Some(2));
}
