use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::*;
use crate::route::{Connection, LinkChange, LinkName, NetworkNamespace};

const PORT: u16 = 3785;

/// Own address and that of the neighbour, with the kernel parameter by which it forwards.
const FAMILIES: [(&str, &str, &str); 2] = [
    ("10.9.0.1", "10.9.0.2", "net.ipv4.ip_forward"),
    ("fd00:9::1", "fd00:9::2", "net.ipv6.conf.all.forwarding"),
];

/// Sends datagrams until one returns, for at most `limit`.
fn exchange(socket: &SelfAddressedSocket, neighbour: IpAddr, limit: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        socket.send(neighbour, 50_000, b"token").expect("sent");
        std::thread::sleep(Duration::from_millis(5));
        match socket.receive() {
            Ok(payload) => return Some(payload),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }
    None
}

/// Makes new IPv6 addresses usable at once.
fn disable_duplicate_detection() {
    for links in ["all", "default"] {
        let setting = format!("net.ipv6.conf.{links}.accept_dad");
        testbed::write_sysctl(&setting, "0").expect("a kernel parameter");
    }
}

#[test]
fn neighbour_returns_datagrams_only_while_it_forwards() {
    testbed::in_namespace(|| {
        let other = NetworkNamespace::create().expect("a namespace");
        disable_duplicate_detection();
        other.enter(disable_duplicate_detection).expect("the namespace");
        let mut here = Connection::open().expect("a connection");
        let mut there = Connection::open_in(&other).expect("a connection");
        let (near, far): (LinkName, LinkName) = ("near".parse().unwrap(), "far".parse().unwrap());
        here.add_veth(&near, &far, Some(other.as_fd())).expect("a pair");
        let link = here.link_index(&near).expect("a link");
        for (connection, name, addresses) in [
            (&mut here, &near, ["10.9.0.1/24", "fd00:9::1/64"]),
            (&mut there, &far, ["10.9.0.2/24", "fd00:9::2/64"]),
        ] {
            let link = connection.link_index(name).expect("a link");
            connection
                .change_link(link, &LinkChange::up())
                .expect("a link that is up");
            for address in addresses {
                connection
                    .add_address(link, address.parse().expect("a network"))
                    .expect("an address");
            }
        }
        for (own, neighbour, parameter) in FAMILIES {
            let [own, neighbour]: [IpAddr; 2] =
                [own, neighbour].map(|text| text.parse().expect("an address"));
            let set_forwarding = |value: &'static str| {
                let written = other.enter(move || testbed::write_sysctl(parameter, value));
                written.expect("the namespace").expect("a kernel parameter");
            };
            let socket = SelfAddressedSocket::open(link, None, own, PORT).expect("sockets");
            set_forwarding("0");
            assert_eq!(exchange(&socket, neighbour, Duration::from_millis(100)), None);
            set_forwarding("1");
            let returned = exchange(&socket, neighbour, Duration::from_secs(10));
            assert_eq!(returned.as_deref(), Some(b"token".as_slice()), "{own}");
        }
    });
}

#[test]
fn rejects_a_neighbour_of_the_other_family() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a connection");
        let link = connection.link_index(&"lo".parse().unwrap()).expect("a link");
        let own = IpAddr::from([127, 0, 0, 1]);
        let socket = SelfAddressedSocket::open(link, None, own, PORT).expect("sockets");
        let error = socket
            .send("fd00:9::2".parse().unwrap(), 50_000, b"token")
            .expect_err("another family");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}
