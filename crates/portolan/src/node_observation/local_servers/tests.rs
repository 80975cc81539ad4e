use std::net::TcpListener;

use super::*;
use crate::node_observation::processes;
use crate::node_observation::sockets::SocketState;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn listener(local: &str, inode: u64) -> Socket {
    Socket {
        protocol: TransportProtocol::Tcp,
        local: at(local),
        remote: at("0.0.0.0:0"),
        state: SocketState::LISTEN,
        inode,
    }
}

#[test]
fn connection_goes_to_the_most_specific_listener() {
    let servers = LocalServers::of(
        1,
        Vec::new(),
        &[
            listener("0.0.0.0:80", 1),
            listener("127.0.0.1:80", 2),
            listener("[::]:443", 3),
            listener("[::ffff:127.0.0.1]:10249", 4),
            listener("0.0.0.0:10256", 5),
            listener("0.0.0.0:10256", 6),
        ],
    );
    for (address, sockets) in [
        ("127.0.0.1:80", &[2][..]),
        ("127.0.0.2:80", &[1]),
        ("127.0.0.1:443", &[3]),
        ("[::1]:443", &[3]),
        ("127.0.0.1:10249", &[4]),
        ("127.0.0.1:10256", &[5, 6]),
        ("[::1]:80", &[]),
        ("127.0.0.1:81", &[]),
    ] {
        let found = servers.sockets_of(at(address)).cloned().unwrap_or_default();
        assert_eq!(found, sockets.iter().copied().collect(), "{address}");
    }
}

/// The only foreign process that each host has is the first one.
#[test]
fn only_the_owner_of_a_listener_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let namespace = processes::own_namespace().expect("a namespace");
    let servers = LocalServers::read(namespace);
    let process = |id: u32, namespace: Option<u64>| Process {
        id,
        namespace,
        ..Process::default()
    };
    let own = process(std::process::id(), Some(namespace));
    assert!(servers.is_answered_by(address, &own));
    assert!(!servers.is_answered_by(address, &process(1, Some(namespace))));
    for unknown in [None, Some(namespace + 1)] {
        assert!(!servers.is_answered_by(address, &process(own.id, unknown)));
    }
    drop(listener);
    assert!(!LocalServers::read(namespace).is_answered_by(address, &own));
}

#[test]
fn addresses_of_other_hosts_are_not_answered_here() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let namespace = processes::own_namespace().expect("a namespace");
    let servers = LocalServers::read(namespace);
    let own = Process {
        id: std::process::id(),
        namespace: Some(namespace),
        ..Process::default()
    };
    assert!(servers.is_answered_by(SocketAddr::from(([127, 0, 0, 1], port)), &own));
    assert!(!servers.is_answered_by(SocketAddr::from(([169, 254, 169, 254], port)), &own));
}
