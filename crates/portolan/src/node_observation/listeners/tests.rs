use std::net::{TcpListener, UdpSocket};

use super::*;
use crate::node_observation::processes;

#[test]
fn own_listeners_name_this_program() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let processes = processes::read_all().expect("processes");
    let found = read(&processes, &[]).expect("listeners");
    let of_port = |port: u16, protocol: &str| {
        let mut listeners = found.listeners.iter();
        listeners.find(|listener| listener.port == port && listener.protocol.name() == protocol)
    };
    let port = tcp.local_addr().expect("an address").port();
    let listener = of_port(port, "TCP").expect("the listener");
    assert!(listener.address.is_loopback() && listener.pod.is_none());
    assert!(listener.program.is_some());
    assert!(of_port(udp.local_addr().expect("an address").port(), "UDP").is_some());
}

#[test]
fn sockets_with_one_address_are_one_listener() {
    let socket = Socket {
        protocol: explain::observation::TransportProtocol::Udp,
        local: "0.0.0.0:53".parse().expect("an address"),
        remote: "0.0.0.0:0".parse().expect("an address"),
        state: sockets::SocketState::LISTEN,
        inode: 1,
    };
    let other = Socket { inode: 2, ..socket };
    let pod = PodName {
        namespace: "shop".to_owned(),
        name: "web-1".to_owned(),
    };
    let found = [(None, socket), (None, other), (Some(&pod), socket)];
    let listeners = listeners(&found, &[], &HashMap::new());
    let pods: Vec<_> = listeners.into_iter().map(|listener| listener.pod).collect();
    assert_eq!(pods, [None, Some(pod)]);
}

#[test]
fn links_of_other_files_are_not_sockets() {
    assert_eq!(socket_inode("socket:[20481]"), Some(20_481));
    for link in ["", "socket:[", "pipe:[7]", "/dev/null", "socket:[x]"] {
        assert_eq!(socket_inode(link), None, "{link}");
    }
}
